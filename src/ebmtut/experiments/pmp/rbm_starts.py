"""Learning an RBM by max-product from both starts of the messages."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ebmtut.checks import check_counts
from ebmtut.experiments.pmp.rbm_digits import (
    RBMConfig,
    distances,
    distances_of_data,
    rbm_data,
    reference,
)
from ebmtut.experiments.verdicts import mean_and_stderr
from ebmtut.losses import draw_rbm, learn_rbm
from ebmtut.message_passing import STARTS
from ebmtut.random import make_generator
from ebmtut.results.tables import Cell, Table

__all__ = ["learn_from_starts", "starts_table"]

_NAMES = dict(zip(STARTS, ("N = 0", "N = W/2"), strict=True))
_NULL, _DATA = "independent pixels", "fresh data (expected)"


def learn_from_starts(
    config: RBMConfig, n_sweeps: Sequence[int], seeds: Sequence[int]
) -> dict[str, dict[str, list[float]]]:
    """Learn and draw with PMP from either start, and judge the draws.

    Parameters
    ----------
    config
        Data, model and steps of learning.
    n_sweeps
        Sweeps of learning and of drawing, one run each.
    seeds
        Of data, learning and draws; both starts get the same.

    Returns
    -------
    scores
        Scores by `distances`, a value a seed, by "start, sweeps"; at the end those of
        independent pixels and what a perfect sampler can expect.
    """
    for k in n_sweeps:
        check_counts(n_sweeps=k)
    runs = [(k, init) for k in n_sweeps for init in STARTS]
    rows: dict[str, list[dict[str, float]]] = {}
    for seed in seeds:
        x, _ = rbm_data(config, seed)
        data = reference(x)
        for k, init in runs:
            generator = make_generator(seed + 1)
            learned = learn_rbm(
                x,
                "PMP",
                n_hidden=config.n_hidden,
                n_steps=config.n_steps,
                n_sweeps=k,
                batch_size=config.batch_size,
                n_chains=config.n_chains,
                learning_rate=config.learning_rate,
                init=init,
                generator=generator,
            ).model
            drawn = draw_rbm(
                "PMP", learned, config.n_judged, (k,), init=init, generator=generator
            )[k]
            name = f"{_NAMES[init]}, {k} sweep{'s' * (k > 1)}"
            found = distances(drawn[:, : x.shape[1]], data)
            rows.setdefault(name, []).append(found)
        coins = torch.rand(config.n_judged, x.shape[1], generator=make_generator(seed))
        rows.setdefault(_NULL, []).append(distances((coins < x.mean(0)).to(x), data))
        rows.setdefault(_DATA, []).append(distances_of_data(x, config.n_judged))
    ends = {name: rows.pop(name) for name in (_NULL, _DATA)}
    return {
        name: {measure: [row[measure] for row in found] for measure in found[0]}
        for name, found in (rows | ends).items()
    }


def starts_table(scores: dict[str, dict[str, list[float]]]) -> Table:
    """Tabulate the scores of `learn_from_starts`, as means over seeds.

    With the mean of the differences of both starts, seed by seed.
    """
    rows: dict[str, dict[str, list[float]]] = {}
    zero, symmetric = _NAMES.values()
    for name, row in scores.items():
        rows[name] = row
        if name.startswith(symmetric):
            other = scores[name.replace(symmetric, zero)]
            rows[name.replace(symmetric, "difference")] = {
                measure: [b - a for a, b in zip(other[measure], found, strict=True)]
                for measure, found in row.items()
            }

    def column(measure: str) -> list[Cell]:
        found = [mean_and_stderr(row[measure]) for row in rows.values()]
        return [mean if error is None else (mean, error) for mean, error in found]

    n_seeds = len(next(iter(rows.values()))["sharp"])
    return Table(
        {
            "messages from": list(rows),
            "log MMD²": column("log_mmd2"),
            "sharp": column("sharp"),
        },
        caption=f"Means and standard errors of {n_seeds} seeds; lower is better.",
        kinds=[""] * (len(rows) - 2) + ["null", "exact"],
    )
