"""The floor that knows the papers: their facts, our experiments, the verdicts."""

from ebmtut.experiments.facts import Fact, Paper, PublishedTable, facts, get_fact
from ebmtut.experiments.registry import available, get_experiment
from ebmtut.experiments.verdicts import Verdict, claim, compare

__all__ = [
    "Fact",
    "Paper",
    "PublishedTable",
    "Verdict",
    "available",
    "claim",
    "compare",
    "facts",
    "get_experiment",
    "get_fact",
]
