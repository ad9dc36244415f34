"""Where things lie in the repository and in its build folder."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BOOK = ROOT / "book"
BUILD = ROOT / "_build"
EXECUTED = BUILD / "executed"
HTML = BUILD / "html"


def _files(root: Path, *suffixes: str) -> list[Path]:
    book = root / "book"
    return sorted(
        path
        for path in book.rglob("*")
        if path.suffix in suffixes
        and not any(part[0] in "._" for part in path.relative_to(book).parts)
    )


def book_notebooks(root: Path = ROOT) -> list[Path]:
    """Every notebook of the book, as sorted absolute paths."""
    return _files(root, ".ipynb")


def book_pages(root: Path = ROOT) -> list[Path]:
    """Every notebook and Markdown page of the book, as sorted absolute paths."""
    return _files(root, ".ipynb", ".md")
