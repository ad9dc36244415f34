"""Where things lie in the repository and in its build folder."""

from pathlib import Path

__all__ = [
    "BOOK",
    "BUILD",
    "EXECUTED",
    "HTML",
    "ROOT",
    "book_notebooks",
    "book_pages",
]

ROOT = Path(__file__).resolve().parents[1]
BOOK = ROOT / "book"
BUILD = ROOT / "_build"
EXECUTED = BUILD / "executed"
HTML = BUILD / "html"


def book_notebooks(root: Path = ROOT) -> list[Path]:
    """Every notebook of the book, as sorted absolute paths.

    Parameters
    ----------
    root
        A folder that holds ``book/``: the repository, or a copy of it.

    Returns
    -------
    list of Path
        Checkpoints of editors and folders that start with ``_`` are left out.
    """
    book = root / "book"
    return sorted(
        path
        for path in book.rglob("*.ipynb")
        if not any(part[0] in "._" for part in path.relative_to(book).parts)
    )


def book_pages(root: Path = ROOT) -> list[Path]:
    """Every notebook and Markdown page of the book, as sorted absolute paths.

    Parameters
    ----------
    root
        As `book_notebooks` has it.
    """
    book = root / "book"
    pages = [
        path
        for path in book.rglob("*.md")
        if not any(part[0] in "._" for part in path.relative_to(book).parts)
    ]
    return sorted(book_notebooks(root) + pages)
