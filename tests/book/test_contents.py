"""The table of contents leads through the chapters first and leaves no page out."""

from tools.paths import BOOK, ROOT, book_pages
from tools.prose import CHAPTERS, is_notes
from tools.render import toc_pages

FOR_AUTHORS = {"book/style"}


def test_every_page_has_one_place_in_the_contents():
    pages = [p.relative_to(ROOT).with_suffix("").as_posix() for p in book_pages()]
    # The pattern of the API pages matches their first page as well.
    placed = [page for page in toc_pages() if not page.startswith("book/api/")]
    placed.append("book/api/index")
    assert len(placed) == len(set(placed))
    assert set(pages) - FOR_AUTHORS == set(placed)


def test_the_front_page_leads_to_the_chapters_in_order():
    pages = toc_pages()
    basics = ["book/basics"] if (BOOK / "basics.ipynb").is_file() else []
    start = ["book/index", *basics, f"book/{CHAPTERS[0]}/index"]
    assert pages[: len(start)] == start
    first = [pages.index(f"book/{chapter}/index") for chapter in CHAPTERS]
    assert first == sorted(first)
    others = [p for p in pages[len(start) :] if p.split("/")[1] not in CHAPTERS]
    assert min(map(pages.index, others)) > first[-1]


def test_the_notes_are_the_last_page_of_their_chapter():
    pages = toc_pages()
    for chapter in CHAPTERS:
        inside = [page for page in pages if page.startswith(f"book/{chapter}/")]
        (notes,) = (page for page in inside if is_notes(BOOK.parent / page))
        assert inside[-1] == notes
