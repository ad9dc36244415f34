"""What captions say of runs."""

from ebmtut.results import Result

__all__ = ["means_of"]


def means_of(result: Result) -> str:
    """Return a sentence on the errors in a table, nothing for a single run."""
    n_seeds = result.config["n_seeds"]
    return f" Means of {n_seeds} runs and their standard errors." if n_seeds > 1 else ""
