"""Find a Chromium that runs, install one if there is none, or say how to get one.

``python -m tools.chromium`` prints the path of the binary that the browser tests use.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


class NoChromiumError(RuntimeError):
    """There is no Chromium, or the one asked for does not run."""


def _runs(path: str) -> bool:
    """Whether the binary starts; a distribution's stub for another format does not."""
    try:
        done = subprocess.run(
            [path, "--version"], capture_output=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _of_playwright() -> str:
    """Return the path where Playwright keeps its own Chromium, there or not."""
    with sync_playwright() as playwright:
        return playwright.chromium.executable_path


def find_chromium() -> str | None:
    """Return the path of a Chromium that runs, or None.

    ``EBMTUT_CHROMIUM`` comes first, then the usual names on ``PATH``, then
    Playwright's own.
    """
    if chosen := os.environ.get("EBMTUT_CHROMIUM"):
        if _runs(chosen):
            return chosen
        raise NoChromiumError(
            f"EBMTUT_CHROMIUM={chosen!r} does not run: it must be the path of a "
            "Chromium binary"
        )
    on_path = filter(None, map(shutil.which, NAMES))
    return next(filter(_runs, [*on_path, _of_playwright()]), None)


def install_chromium() -> str:
    """Install a Chromium and return its path.

    Debian's package where we are root on Debian, Playwright's own build elsewhere.
    """
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    playwright = [sys.executable, "-m", "playwright", "install", "chromium"]
    release = Path("/etc/os-release")
    debian = release.exists() and "ID=debian" in release.read_text().splitlines()
    if root and debian and shutil.which("apt-get"):
        recipe = [
            ["apt-get", "-qq", "update"],
            ["apt-get", "-qq", "install", "-y", "--no-install-recommends", "chromium"],
        ]
    else:
        # Only root may add the libraries that Playwright's build links against.
        recipe = [[*playwright, "--with-deps"] if root else playwright]
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in recipe:
        print(f"installing Chromium: {' '.join(command)}", file=sys.stderr)
        subprocess.run(command, env=environment, stdout=sys.stderr, check=False)
    path = find_chromium()
    if path is None:
        raise NoChromiumError(
            "no Chromium for the browser tests: install one (Debian: apt-get install "
            "chromium; elsewhere: python -m playwright install chromium) or set "
            "EBMTUT_CHROMIUM to its path"
        )
    return path


def main() -> int:
    """Print the path of a Chromium; install one where there is none."""
    try:
        print(find_chromium() or install_chromium())
    except NoChromiumError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
