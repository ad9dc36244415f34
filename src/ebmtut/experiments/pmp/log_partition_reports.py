"""Figure and verdicts of the log-partition experiment."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from ebmtut.experiments.verdicts import Verdict, claim
from ebmtut.plotting import COLORS, TEXT_WIDTH
from ebmtut.results import Result

__all__ = ["check_log_partition", "draw_log_partition"]

# Where methods agree, the wide lines can be seen below the narrow ones.
_STYLES: dict[str, dict[str, Any]] = {
    "MPLP": {"color": COLORS["MPLP"], "lw": 4.0},
    "PMP": {"color": COLORS["PMP"], "lw": 2.6},
    "PMP symmetric": {"color": COLORS["PMP symmetric"], "lw": 1.6, "ls": "--"},
    "exact": {"color": COLORS["exact"], "lw": 1.2, "ls": ":"},
}


def draw_log_partition(result: Result) -> Figure:
    """Draw the error over the size.

    The band is one standard deviation over dense models, and two standard
    errors of the one lattice.
    """
    table = result.scalars["table"]
    n_rows = -(-len(table) // 2)
    figure, axes = plt.subplots(
        n_rows, 2, figsize=(TEXT_WIDTH, 2.7 * n_rows + 0.4), squeeze=False
    )
    for ax in axes.flat[len(table) :]:
        ax.set_axis_off()
    for ax, (ensemble, methods) in zip(axes.flat, table.items(), strict=False):
        ax.axhline(0, color="0.8", lw=0.8)
        for method, style in _STYLES.items():
            if method not in methods:
                continue
            cells = methods[method]
            sizes = [int(size) for size in cells]
            mean = [cell["mean"] for cell in cells.values()]
            lattice = ensemble.startswith("lattice")
            band = [
                2 * cell["stderr"] if lattice else cell["sd"] for cell in cells.values()
            ]
            low = [m - s for m, s in zip(mean, band, strict=True)]
            high = [m + s for m, s in zip(mean, band, strict=True)]
            ax.plot(sizes, mean, label=method, **style)
            ax.fill_between(sizes, low, high, color=style["color"], alpha=0.12, lw=0)
        ax.set_xticks(sizes)
        ax.set(title=ensemble, xlabel="side of the lattice" if lattice else "sites")
    for ax in axes[:, 0]:
        ax.set_ylabel("estimate − log Z (nats)")
    # One legend for all panels; every method is in the dense one.
    handles, labels = axes.flat[min(1, len(table) - 1)].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return figure


def check_log_partition(result: Result) -> list[Verdict]:
    """On dense models PMP errs by less than MPLP, at every size."""
    verdicts = []
    for ensemble, methods in result.scalars["table"].items():
        if not ensemble.startswith("dense"):
            continue
        for size, ours in methods["PMP"].items():
            ratio = ours["abs"] / methods["MPLP"][size]["abs"]
            name = f"{ensemble}, {size} sites: error of PMP over that of MPLP"
            verdicts.append(claim(name, ratio, "at most", 1.0))
    return verdicts
