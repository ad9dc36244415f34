"""What builds and checks the book; run as ``python -m tools.NAME`` from the root."""
