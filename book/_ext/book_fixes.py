"""Small repairs of what the theme and its extensions put into each page."""

from typing import Any

from sphinx.application import Sphinx

__all__ = ["setup"]


def _drop_thebe(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any
) -> None:
    """Leave out the live-code script: it comes from a CDN, and nothing here uses it."""
    context["script_files"] = [
        script
        for script in context.get("script_files", [])
        if "thebe" not in str(getattr(script, "filename", script))
    ]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx, after the extensions that it repairs."""
    app.connect("html-page-context", _drop_thebe, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
