"""Error over cost of many methods: the reader chooses problem, cost and methods."""

from collections.abc import Mapping, Sequence
from typing import Any

import anywidget
import traitlets

from ebmtut.checks import Probability, check_choice, check_range, checked
from ebmtut.widgets._sources import script, style

__all__ = ["ComparisonExplorer", "comparison_explorer"]


class ComparisonExplorer(anywidget.AnyWidget):
    """Curves of error over cost, with a line that names the best methods at a cost.

    Everything is drawn in the page. Make it by `comparison_explorer`.

    Attributes
    ----------
    problem
        Name of the problem. This and the next three follow the reader.
    cost
        "seconds" or "evaluations".
    asks
        Key of the filter; "" for all methods.
    budget
        Where the vertical line stands, 0 to 1 of the axis.
    curves
        The problems: name, measure, lines, and methods with their points.
    filters
        Words of each filter by its key.
    """

    _esm = script("comparison_explorer.js")
    _css = style("comparison_explorer.css")

    problem = traitlets.Unicode().tag(sync=True)
    cost = traitlets.Enum(("seconds", "evaluations"), "seconds").tag(sync=True)
    asks = traitlets.Unicode("").tag(sync=True)
    budget = traitlets.Float(0.5, min=0, max=1).tag(sync=True)
    curves: traitlets.List[dict[str, Any]] = traitlets.List().tag(sync=True)
    filters = traitlets.Dict().tag(sync=True)


@checked
def comparison_explorer(
    curves: Sequence[Mapping[str, Any]],
    filters: Mapping[str, str],
    problem: str,
    budget: Probability = 0.5,
) -> ComparisonExplorer:
    """Make the widget.

    Parameters
    ----------
    curves
        A dictionary for each problem: "name", "measure" (what the error is, and its
        unit in brackets), "per" (what evaluations are counted for), "lines" (levels
        by name: "exact" for exact samples, where a median error of at most twice theirs
        is near; any other is a baseline) and "methods", each with "name", "color",
        "dashed", "asks" (keys of ``filters``) and "points", rows of cost, median,
        lowest and highest error.
    filters, problem, budget
        Words of each filter; which problem is shown first, and where the vertical line
        stands at first, from 0 to 1 of the axis.
    """
    check_range("len(curves)", len(curves), low=1, integer=True)
    check_choice("problem", problem, tuple(c["name"] for c in curves))
    return ComparisonExplorer(
        curves=list(curves), filters=dict(filters), problem=problem, budget=budget
    )
