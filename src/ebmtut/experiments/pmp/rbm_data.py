"""Which digits an RBM learns, and how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.functional import max_pool2d

from ebmtut.checks import check_choice, check_range
from ebmtut.data import digits_at_hand
from ebmtut.data.contours import SOURCES
from ebmtut.losses import check_rbm_method
from ebmtut.random import make_generator

__all__ = ["RBMConfig", "rbm_data"]


@dataclass(frozen=True)
class RBMConfig:
    """Which digits, how they are learned, and how the samples are judged.

    Parameters
    ----------
    methods
        Some of those that `learn_rbm` knows.
    samplers
        By which every learned model is sampled, some of those that `draw_rbm`
        knows; "own" is that of its learning.
    digit
        The only digit to learn, or -1 for all.
    source
        Where the digits come from, as for `ebmtut.data.digits_at_hand`.
    shrink
        Pixels a side that are pooled into one: 1 for 28x28.
    n_hidden, n_steps, learning_rate, optimizer, hidden, batch_size, n_chains
        As for `learn_rbm`.
    n_sweeps
        Sweeps a sample of learning takes.
    n_sweeps_of
        Other numbers of sweeps, by method.
    sweeps
        At which samples of the learned model are judged.
    n_judged
        Samples by which a model is judged.
    n_seeds
        Independent runs; run k has seed ``seed + k``.
    lp_shrink, lp_hidden, lp_steps, lp_chains
        The smaller problem on which linear programs are compared with PMP;
        ``lp_steps`` 0 leaves it out.
    """

    methods: tuple[str, ...] = ("PMP", "Gibbs-reset", "PCD-1", "PCD-100")
    samplers: tuple[str, ...] = ("own",)
    digit: int = -1
    source: str = "auto"
    shrink: int = 1
    n_hidden: int = 100
    n_steps: int = 1000
    learning_rate: float = 0.01
    optimizer: str = "adam"
    hidden: str = "mean"
    batch_size: int = 100
    n_chains: int = 50
    n_sweeps: int = 100
    n_sweeps_of: Mapping[str, int] = field(default_factory=dict)
    sweeps: tuple[int, ...] = (50, 100, 200, 2000)
    n_judged: int = 100
    n_seeds: int = 1
    lp_shrink: int = 4
    lp_hidden: int = 10
    lp_steps: int = 0
    lp_chains: int = 20

    def __post_init__(self) -> None:
        for method in (*self.methods, *self.n_sweeps_of):
            check_rbm_method("methods", method)
        for sampler in self.samplers:
            check_rbm_method("samplers", sampler, "own")
        check_choice("source", self.source, SOURCES)
        check_choice("optimizer", self.optimizer, ("adam", "sgd"))
        check_choice("hidden", self.hidden, ("mean", "sample"))
        check_range("digit", self.digit, low=-1, high=9, integer=True)
        for name in ("shrink", "lp_shrink"):
            check_range(name, getattr(self, name), low=1, high=28, integer=True)
        for name in (
            "n_hidden",
            "n_steps",
            "batch_size",
            "n_chains",
            "n_sweeps",
            "n_seeds",
            "lp_hidden",
            "lp_chains",
        ):
            check_range(name, getattr(self, name), low=1, integer=True)
        for k in (*self.sweeps, *self.n_sweeps_of.values()):
            check_range("sweeps", k, low=1, integer=True)
        check_range("lp_steps", self.lp_steps, low=0, integer=True)
        check_range("learning_rate", self.learning_rate, low=0, include_low=False)
        check_range("n_judged", self.n_judged, low=2, integer=True)


def rbm_data(config: RBMConfig, seed: int) -> tuple[Tensor, str]:
    """Return the digits as bits, (n, n_visible), in random order, and their source.

    A pixel is 1 above one half, a pooled one if any of its pixels is.
    """
    generator = make_generator(seed)
    data = digits_at_hand(config.source, generator=generator)
    images = data.images
    if config.digit >= 0:
        images = images[data.labels == config.digit]
    x = max_pool2d((images > 0.5).float()[:, None], config.shrink).flatten(1)
    return x[torch.randperm(len(x), generator=generator)], data.source
