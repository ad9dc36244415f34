"""Find words that are not the field's, by the table of terms in ``book/style.md``.

Searched are pages (prose, captions, alternative texts, code), docstrings, comments and
strings of several words in Python files, and the whole text of other files. A file that
still has such words is listed with their number in ``tests/book/not_yet_plain.txt``.
That list may only become shorter.

    python -m tools.terms                       # the number of places for each file
    python -m tools.terms book/ed/index.ipynb   # the places
    python -m tools.terms --update              # drop what has been rewritten
"""

import argparse
import io
import json
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tools.paths import BOOK, ROOT

STYLE = BOOK / "style.md"
NOT_YET = ROOT / "tests" / "book" / "not_yet_plain.txt"
HEAD = """\
# Files with words that book/style.md replaces, and the number of places.
# What is left are names in stored results and stored outputs, which are not edited.
# This list only becomes shorter: python -m tools.terms --update"""
SUFFIXES = {".py", ".md", ".ipynb", ".yaml", ".yml", ".js", ".css", ".toml", ".bib"}
# Other people's text, stored results, and the two files that must name the terms.
LEFT_OUT = (
    *("book/_static/vendor/", "book/references.bib", "book/style.md"),
    *("benchmarks/results/", "results/", "requirements.txt"),
    "tests/book/test_terms.py",
)


class Term(NamedTuple):
    """A phrase to avoid, what to write instead, and phrases that may contain it."""

    phrase: str
    instead: str
    allowed: tuple[str, ...] = ()


class Place(NamedTuple):
    """Where a term stands: its surroundings, and what to write instead."""

    term: Term
    around: str


@cache
def terms() -> tuple[Term, ...]:
    """Read the phrases in code style from the table of terms."""
    section = STYLE.read_text("utf-8").partition("## Terms")[2].partition("\n## ")[0]
    found = []
    for line in section.splitlines():
        if line.startswith("|") and "`" in line:
            avoid, instead, allowed = line.strip("|").split("|")
            found += [
                Term(phrase, instead.strip(), tuple(_phrases(allowed)))
                for phrase in _phrases(avoid)
            ]
    return tuple(found)


def _phrases(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


@cache
def _pattern() -> re.Pattern[str]:
    """Match any term, in the group of its number; an allowed phrase has no group."""

    def escape(phrase: str) -> str:
        return re.escape(phrase).replace(r"\ ", r"\s+")

    allowed = [escape(phrase) for term in terms() for phrase in term.allowed]
    # The longest first, so that a phrase does not hide one that contains it.
    numbered = sorted(enumerate(terms()), key=lambda item: -len(item[1].phrase))
    groups = [rf"(?P<t{number}>{escape(t.phrase)}s?)" for number, t in numbered]
    return re.compile(rf"\b(?:{'|'.join(allowed)}|{'|'.join(groups)})\b", re.IGNORECASE)


def places(text: str) -> list[Place]:
    """Find the terms in a text."""
    return [
        Place(
            terms()[int(match.lastgroup[1:])],
            " ".join(text[max(0, match.start() - 35) : match.end() + 35].split()),
        )
        for match in _pattern().finditer(text)
        if match.lastgroup
    ]


def prose_of(path: Path) -> str:
    """Return what of a file is prose and must be in plain words."""
    text = path.read_text("utf-8")
    if path.suffix == ".py":
        return "\n".join(_python_prose(text))
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        return "\n".join(part for cell in cells for part in _cell_prose(cell))
    return text


def _python_prose(source: str) -> Iterator[str]:
    """Yield comments and strings; a string of one word is a key, not prose."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string.lstrip("#: ")
        elif token.type in (tokenize.STRING, _FSTRING_MIDDLE):
            word = token.string.strip("rbfuRBFU\"'")
            if re.search(r"\s", word) or word.startswith("--"):
                yield token.string


# Since Python 3.12 an f-string is several tokens.
_FSTRING_MIDDLE = getattr(tokenize, "FSTRING_MIDDLE", -1)


def _cell_prose(cell: dict[str, Any]) -> Iterator[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] != "code":
        yield source
        return
    yield from _python_prose(source)
    about = cell["metadata"].get("mystnb", {})
    yield about.get("figure", {}).get("caption", "")
    yield about.get("image", {}).get("alt", "")


def searched_files() -> list[Path]:
    """Return the files of the repository that are held to the table."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.check_output(command, cwd=ROOT, text=True).split("\0")
    names = [name for name in sorted({*listed}) if not name.startswith(LEFT_OUT)]
    paths = [ROOT / n for n in names if Path(n).suffix in SUFFIXES or n == "Makefile"]
    return [path for path in paths if path.is_file()]


def read_list() -> dict[str, int]:
    """Return the files that are not yet in plain words, with their places."""
    lines = NOT_YET.read_text("utf-8").splitlines()
    pairs = [line.rsplit(maxsplit=1) for line in lines if line and line[0] != "#"]
    return {name: int(number) for name, number in pairs}


def count() -> dict[str, int]:
    """Count the places in each file that has any."""
    return {
        path.relative_to(ROOT).as_posix(): number
        for path in searched_files()
        if (number := len(places(prose_of(path))))
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description="Find words that are not the field's (see book/style.md)."
    )
    parser.add_argument("files", nargs="*", type=Path, help="show the places in these")
    parser.add_argument(
        "--update",
        action="store_true",
        help="remove rewritten files from the list and lower the numbers of others",
    )
    options = parser.parse_args(arguments)
    if options.files:
        for path in options.files:
            for place in places(prose_of(path.resolve())):
                print(f"{path}: ...{place.around}... -> {place.term.instead}")
        return 0
    counts = count()
    if options.update:
        known = read_list()
        kept = [f"{n} {min(counts[n], known[n])}" for n in sorted({*known} & {*counts})]
        NOT_YET.write_text("\n".join([HEAD, *kept, ""]), "utf-8")
    else:
        for name, number in counts.items():
            print(f"{number:5}  {name}")
    print(f"{sum(counts.values())} places in {len(counts)} files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
