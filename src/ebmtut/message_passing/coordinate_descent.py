"""Perturb-and-coordinate-descent: perturb, then go downhill from a random state.

A competing method of perturb-and-max-product. It sets one site, or one layer of an
RBM, to its best value given the rest, and stops at the first local optimum.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import Count, InputError, Natural, checked
from ebmtut.energies import RBM, BoltzmannMachine
from ebmtut.random import bernoulli, logistic
from ebmtut.tensor_checks import check_bits, check_finite

__all__ = ["perturb_and_coordinate_descent"]


@checked
def perturb_and_coordinate_descent(
    model: BoltzmannMachine | RBM,
    n_samples: Count,
    n_steps: Natural,
    *,
    generator: torch.Generator,
    start: Float[Tensor, "n_samples ..."] | None = None,
) -> Float[Tensor, "n_samples n_units"]:
    """Sample by perturbing the biases and descending the perturbed energy.

    A step of an RBM sets all hidden units, then all visible ones; a step of a Boltzmann
    machine sets its sites in turn, with the same noise (Lazaro-Gredilla, Dedieu and
    George, 2021, Appendix B.4, on Ravanbakhsh, Greiner and Frey, 2014).

    Parameters
    ----------
    n_samples, n_steps
        Samples, each with its own perturbation, and steps of descent.
    start
        Initial bits, of a machine's sites or an RBM's visible units; random by default.

    Returns
    -------
    x
        Bits; of an RBM the visible units and then the hidden ones.
    """
    for name, parameter in model.named_parameters():
        check_finite(name, parameter)
    if start is not None:
        check_bits("start", start, model.n_sites)
        if len(start) != n_samples:
            raise InputError(
                f"start must have {n_samples} rows, one a sample, got {len(start)}"
            )
    weight = model.weight.detach()
    of: Any = {"dtype": weight.dtype, "device": weight.device}

    def noise(n: int) -> Tensor:
        return logistic((n_samples, n), generator=generator, **of)

    def coins() -> Tensor:
        half = weight.new_full((n_samples, model.n_sites), 0.5)
        return bernoulli(half, generator=generator)

    with torch.no_grad():
        if isinstance(model, RBM):
            to_visible, to_hidden = noise(model.n_visible), noise(model.n_hidden)
            v = coins() if start is None else start.to(weight)
            h = _on(model.hidden_logits(v) + to_hidden)
            for _ in range(n_steps):
                h = _on(model.hidden_logits(v) + to_hidden)
                v = _on(model.visible_logits(h) + to_visible)
            return torch.cat([v, h], dim=1)
        bias = model.bias + noise(model.n_sites)
        x = coins() if start is None else start.to(weight).clone()
        matrix = model.symmetric_weight
        for _ in range(n_steps):
            for i in range(model.n_sites):
                x[:, i] = _on(x @ matrix[i] + bias[:, i])
        return x


def _on(field: Tensor) -> Tensor:
    return (field > 0).to(field)
