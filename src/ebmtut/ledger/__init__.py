"""The ledger: published numbers, the package's own, and what is not run yet."""

from ebmtut.ledger.listing import (
    KINDS,
    Line,
    Row,
    ScaleState,
    counts,
    lines,
    rows,
    tally,
    text_table,
)
from ebmtut.ledger.page import STYLE, numbers_html, paper_html, rules_html, summary_html
from ebmtut.ledger.reference import Reference, reference_rows

__all__ = [
    "KINDS",
    "STYLE",
    "Line",
    "Reference",
    "Row",
    "ScaleState",
    "counts",
    "lines",
    "numbers_html",
    "paper_html",
    "reference_rows",
    "rows",
    "rules_html",
    "summary_html",
    "tally",
    "text_table",
]
