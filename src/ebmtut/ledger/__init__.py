"""The ledger: every published number beside ours, and what is not run yet."""

from ebmtut.ledger.listing import Row, ScaleState, counts, rows, text_table
from ebmtut.ledger.page import (
    STYLE,
    paper_html,
    rules_html,
    summary_html,
    verdicts_html,
)
from ebmtut.ledger.reference import Reference, reference_rows

__all__ = [
    "STYLE",
    "Reference",
    "Row",
    "ScaleState",
    "counts",
    "paper_html",
    "reference_rows",
    "rows",
    "rules_html",
    "summary_html",
    "text_table",
    "verdicts_html",
]
