"""Small repairs of what the theme and its extensions put into each page."""

from typing import Any

from sphinx.application import Sphinx

__all__ = ["setup"]


def _is_thebe(item: Any) -> bool:
    """Whether a script or style belongs to thebe, by its name or its text."""
    body = getattr(item, "attributes", {}).get("body") or ""
    return "thebe" in str(getattr(item, "filename", item)) or "thebe" in body


def _drop_thebe(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any
) -> None:
    """Leave out the live-code scripts: they ask a CDN, and come twice, an error."""
    for kind in ("script_files", "css_files"):
        context[kind] = [item for item in context.get(kind, []) if not _is_thebe(item)]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx, after the extensions that it repairs."""
    app.connect("html-page-context", _drop_thebe, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
