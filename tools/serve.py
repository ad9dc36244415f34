"""Serve a folder to this machine only: ``python -m tools.serve [FOLDER] [PORT]``."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tools.paths import HTML

__all__ = ["serve"]


class _QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Keep the terminal for the tests' own lines."""


@contextmanager
def serve(folder: Path, port: int = 0) -> Iterator[str]:
    """Serve `folder` while the context is open; yields the address.

    Parameters
    ----------
    folder
        The folder that becomes the root of the site.
    port
        The port, 0 for any that is free.
    """
    handler = partial(_QuietHandler, directory=str(folder))
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def main(arguments: list[str]) -> int:
    """Serve the built book until interrupted."""
    folder = Path(arguments[0]) if arguments else HTML
    port = int(arguments[1]) if len(arguments) > 1 else 8000
    if not (folder / "index.html").exists():
        print(f"error: {folder} holds no index.html: run `make book` first")
        return 1
    with serve(folder, port) as address:
        print(f"the book is at {address} (stop with Ctrl-C)")
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            print()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
