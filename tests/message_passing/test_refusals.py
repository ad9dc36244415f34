"""What message passing refuses: models, unaries and clamps that it cannot use."""

import math
from functools import partial

import pytest
import torch

from ebmtut.checks import InputError
from ebmtut.energies import BoltzmannMachine, Ising
from ebmtut.message_passing import (
    PersistentState,
    binary_convolution,
    clamp_unaries,
    deconvolve,
    exact_perturb_and_map,
    log_partition_bound,
    max_product,
    max_product_reference,
    mplp,
    persistent_perturb_and_max_product,
    perturb_and_coordinate_descent,
    perturb_and_map_lp,
    perturb_and_max_product,
    relax,
    sample_deconvolution,
    start_persistent,
)
from ebmtut.random import make_generator
from tests.shared import refusals

G = make_generator(0)
ONE = torch.zeros(1, 3)
MODEL = BoltzmannMachine(torch.zeros(3, 3), torch.zeros(3))
RUNS = {
    "max_product": lambda model: max_product(model, ONE, 1),
    "max_product_reference": lambda model: max_product_reference(model, ONE, 1),
    "mplp": lambda model: mplp(model, ONE),
    "relax": lambda model: relax(model, ONE),
    "clamp_unaries": lambda model: clamp_unaries(model, ONE, ONE),
    "pmp": lambda model: perturb_and_max_product(model, 1, 1, generator=G),
    "lp": lambda model: perturb_and_map_lp(model, 1, generator=G),
    "descent": lambda model: perturb_and_coordinate_descent(model, 1, 1, generator=G),
    "start": lambda model: start_persistent(model, 1, generator=G),
    "persistent": lambda model: persistent_perturb_and_max_product(
        model, PersistentState(*torch.zeros(3, 1, 3)), 1, rho=0, generator=G
    ),
}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_other_models_are_named(run):
    words = "^model must be BoltzmannMachine or .*, got Ising"
    with pytest.raises(InputError, match=words):
        run(Ising(torch.zeros(3, 3)))


@pytest.mark.parametrize(
    "name", sorted(set(RUNS) - {"clamp_unaries", "start", "persistent"})
)
@pytest.mark.parametrize("which", ["weight", "bias"])
def test_a_model_that_diverged_is_refused(name, which):
    model = BoltzmannMachine(torch.zeros(3, 3), torch.zeros(3))
    getattr(model, which).data[0] = math.inf
    with pytest.raises(InputError, match=f"{which} must be finite"):
        RUNS[name](model)


def persistent(n_messages):
    state = PersistentState(ONE, ONE, torch.zeros(1, 2, n_messages))
    return persistent_perturb_and_max_product(MODEL, state, 1, rho=0.5, generator=G)


IMAGES, S, W = torch.zeros(1, 4, 4), torch.zeros(1, 1, 3, 3), torch.zeros(1, 2, 2)
sampled = partial(sample_deconvolution, n_sweeps=1, generator=G)
CASES = {
    "unaries": (lambda: max_product(MODEL, ONE[:, :2], 1), "unaries"),
    "nan": (lambda: max_product(MODEL, ONE * math.nan, 1), "unaries must be finite"),
    "messages": (lambda: max_product(MODEL, ONE, 1, messages=ONE), "messages"),
    "persistent": (lambda: persistent(5), "state.messages must have shape"),
    "clamp": (lambda: clamp_unaries(MODEL, ONE, ONE + 0.5), "clamp"),
    "start": (
        lambda: perturb_and_coordinate_descent(MODEL, 2, 1, start=ONE, generator=G),
        "start",
    ),
    "noise": (lambda: log_partition_bound(MODEL, ONE.repeat(2, 1), ONE), "noise"),
    "sites": (
        lambda: exact_perturb_and_map(MODEL, 4, torch.zeros(1, 4)),
        "n_sites must be 3, .* got 4",
    ),
    "images": (lambda: sampled(IMAGES[0], 1, (2, 2)), "images"),
    "grey": (lambda: sampled(IMAGES + 0.5, 1, (2, 2)), ".*0 and 1"),
    "wide": (lambda: sampled(IMAGES, 1, (5, 2)), ".*side"),
    "side": (lambda: sampled(IMAGES, 1, 2), "feature_shape must be a sequence"),
    "places": (lambda: deconvolve(IMAGES, S[..., :2], W, 1), "location_unaries"),
    "convolution": (lambda: binary_convolution(S, W.repeat(2, 1, 1)), ".*must"),
}


test_refusals = refusals(CASES)
