"""Learning restricted Boltzmann machines: Algorithm 1, and competing methods.

Source: Lázaro-Gredilla, Dedieu and George (2021), Algorithm 1 and Section 5.4. The
methods differ in one line, where samples of the current model come from.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut._progress import counted
from ebmtut.checks import (
    Count,
    InputError,
    Natural,
    NonNegative,
    check_choice,
    check_type,
    checked,
)
from ebmtut.energies import RBM
from ebmtut.losses.loops import LoopMaker, counting
from ebmtut.message_passing import (
    STARTS,
    perturb_and_coordinate_descent,
    perturb_and_map_lp,
    perturb_and_max_product,
)
from ebmtut.random import bernoulli, check_generator
from ebmtut.samplers import block_gibbs
from ebmtut.tensor_checks import check_bits

__all__ = ["RBM_METHODS", "LearnedRBM", "draw_rbm", "learn_rbm", "random_rbm"]

#: Where samples of the model come from, by the name that figures give it. Chains
#: of "Gibbs-reset" start at random at each update, those of "CD-k" at the minibatch,
#: those of "PCD-k" where they were; the latter two make k sweeps, any k from 1 on.
RBM_METHODS = (
    *("PMP", "Gibbs-reset", "PCD-1", "PCD-100"),
    *("CD-1", "coordinate descent", "LP"),
)


class LearnedRBM(NamedTuple):
    """A learned model, and whether learning stopped before its end."""

    model: RBM
    diverged: bool


@checked
def learn_rbm(
    x: Float[Tensor, "n_data n_visible"],
    method: str,
    *,
    n_hidden: Count,
    n_steps: Natural,
    n_sweeps: Count,
    batch_size: Count = 100,
    n_chains: Count = 100,
    learning_rate: NonNegative = 0.01,
    optimizer: Literal["adam", "sgd"] = "adam",
    hidden: Literal["mean", "sample"] = "mean",
    init: str = "symmetric",
    on_step: Callable[[int, RBM], None] | None = None,
    progress: bool = False,
    generator: torch.Generator,
    loop: LoopMaker = counting,
) -> LearnedRBM:
    """Learn by the difference of two averages of h v': data's minus model's.

    Given v the hidden units are independent, so that the positive phase of Algorithm 1
    is an exact sample.

    Parameters
    ----------
    method
        One of `RBM_METHODS`, or "PCD-k" or "CD-k": what makes the negative samples.
    n_hidden, n_steps, n_sweeps
        Hidden units, updates, and sweeps a sample; "PCD-k" and "CD-k" have their own.
    batch_size, n_chains
        Data and samples an update; "CD-k" has a sample for each datum.
    learning_rate, optimizer
        Of Adam or of plain gradient descent.
    hidden
        "sample": hidden units are sampled, as in Algorithm 1; "mean": their means given
        v.
    init
        Initial messages of "PMP", one of `message_passing.STARTS`.
    loop
        Makes what counts the updates, see `persistent_match_moments`.

    Returns
    -------
    learned
        Learning stops early, and says so, once a weight is not finite.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.losses import learn_rbm
    >>> from ebmtut.random import make_generator
    >>> x = torch.tensor([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]).repeat(50, 1)
    >>> learned = learn_rbm(
    ...     x, "CD-1", n_hidden=2, n_steps=20, n_sweeps=1, generator=make_generator(0)
    ... )
    >>> learned.model.weight.shape
    torch.Size([2, 3])
    """
    check_bits("x", x)
    check_rbm_method("method", method)
    check_choice("init", init, STARTS)
    check_generator(generator, x.device)
    if batch_size > len(x):
        raise InputError(f"batch_size must be at most {len(x)}, got {batch_size}")
    x = x.float()
    model = random_rbm(n_hidden, x.shape[1], generator=generator)
    kind = torch.optim.Adam if optimizer == "adam" else torch.optim.SGD
    optim = kind(model.parameters(), lr=learning_rate)
    k = _sweeps_of_chain(method)
    held = {}
    if method.startswith("PCD-"):
        held["chains"] = _coins(n_chains, x.shape[1], generator)
    updates = loop({"model": model, "optimizer": optim}, held=held)
    steps = updates.steps(n_steps)
    for step in counted(
        steps, n_steps, taken=updates.taken, label=method, progress=progress
    ):
        pick = torch.randint(
            len(x), (batch_size,), generator=generator, device=x.device
        )
        with torch.no_grad():
            v = x[pick]
            h = torch.sigmoid(model.hidden_logits(v))
            if hidden == "sample":
                h = bernoulli(h, generator=generator)
            if k is None:
                drawn = _draw(method, model, n_chains, (n_sweeps,), init, generator)
                sampled = drawn[n_sweeps]
            else:
                start = held.get("chains", v)
                sampled = block_gibbs(model, start, k, generator=generator)
                if held:
                    held["chains"] = sampled[:, : model.n_visible]
            v_model, h_model = sampled.split([model.n_visible, n_hidden], dim=1)
            if hidden == "mean":
                h_model = torch.sigmoid(model.hidden_logits(v_model))
            gradients = (
                h_model.T @ v_model / len(v_model) - h.T @ v / batch_size,
                h_model.mean(0) - h.mean(0),
                v_model.mean(0) - v.mean(0),
            )
        for parameter, gradient in zip(model.parameters(), gradients, strict=True):
            parameter.grad = gradient
        optim.step()
        if not model.weight.isfinite().all():
            return LearnedRBM(model, diverged=True)
        if on_step is not None:
            on_step(step, model)
    return LearnedRBM(model, diverged=False)


@checked
def draw_rbm(
    method: str,
    model: RBM,
    n: Count,
    sweeps: Sequence[Natural],
    *,
    init: str = "symmetric",
    generator: torch.Generator,
) -> dict[int, Float[Tensor, "n n_units"]]:
    """Sample from scratch, and return the samples after each number of sweeps.

    Parameters
    ----------
    method
        One of `RBM_METHODS`, "PCD-k" or "CD-k"; all chains start at random here.
    n, sweeps, init
        Samples, when to return them, and initial messages of "PMP".

    Returns
    -------
    seen
        Bits, visible units first. Perturbed methods run anew for each number of sweeps.
    """
    check_rbm_method("method", method)
    check_choice("init", init, STARTS)
    check_generator(generator, model.weight.device)
    return _draw(method, model, n, sweeps, init, generator)


def _draw(
    method: str,
    model: RBM,
    n: int,
    sweeps: Sequence[int],
    init: str,
    generator: torch.Generator,
) -> dict[int, Tensor]:
    """Do what `draw_rbm` does."""
    if method == "PMP":
        return {
            k: perturb_and_max_product(model, n, k, init=init, generator=generator)
            for k in sweeps
        }
    if method == "coordinate descent":
        return {
            k: perturb_and_coordinate_descent(model, n, k, generator=generator)
            for k in sweeps
        }
    if method == "LP":
        # The solver goes to the end, whatever the number of sweeps.
        relaxed = perturb_and_map_lp(model, n, generator=generator)
        return dict.fromkeys(sweeps, relaxed.x.float())
    v, done = _coins(n, model.n_visible, generator), 0
    seen = {}
    for k in sorted(sweeps):
        seen[k] = block_gibbs(model, v, k - done, generator=generator)
        v, done = seen[k][:, : model.n_visible], k
    return seen


@checked
def random_rbm(
    n_hidden: Count,
    n_visible: Count,
    *,
    scale: float = 0.01,
    generator: torch.Generator,
) -> RBM:
    """Sample a learnable model: weights N(0, scale^2), biases N(0, 1).

    Examples
    --------
    >>> from ebmtut.losses import random_rbm
    >>> from ebmtut.random import make_generator
    >>> random_rbm(3, 4, generator=make_generator(0)).n_sites
    4
    """
    check_type("generator", generator, torch.Generator)

    def normal(*shape: int) -> Tensor:
        return torch.randn(
            *shape, generator=generator, device=generator.device, dtype=torch.float32
        )

    weight = scale * normal(n_hidden, n_visible)
    return RBM(weight, normal(n_hidden), normal(n_visible), learnable=True)


def check_rbm_method(name: str, method: str, *others: str) -> None:
    """Require one of `RBM_METHODS`, "PCD-k", "CD-k" or another that is named."""
    if _sweeps_of_chain(method) is None:
        check_choice(name, method, (*RBM_METHODS, *others))


def _sweeps_of_chain(method: str) -> int | None:
    """Return the k of "PCD-k" and of "CD-k", None for others."""
    found = re.fullmatch(r"P?CD-([1-9]\d*)", str(method))
    return int(found[1]) if found else None


def _coins(n: int, n_sites: int, generator: torch.Generator) -> Tensor:
    half = torch.full((n, n_sites), 0.5, device=generator.device, dtype=torch.float32)
    return bernoulli(half, generator=generator)
