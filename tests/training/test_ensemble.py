"""Many energies trained as one batch are those trained one by one."""

import math
import threading
from functools import partial

import numpy as np
import pytest
import torch

from ebmtut.checks import DivergenceError, InputError
from ebmtut.deadlines import OutOfTime, deadline
from ebmtut.energies import MLPEnergy
from ebmtut.losses import Bernoulli, Grid, Pool, energy_discrepancy_loss
from ebmtut.random import make_generator
from ebmtut.states import enumerate_states
from ebmtut.training import TrainConfig, train, train_ensemble

CONFIG = TrainConfig(n_steps=12, batch_size=16, n_warmup=3, precision="float32")
DATA = enumerate_states(4, dtype=torch.float64)[[0, 3, 3, 5, 7, 7, 15]]


def draws_from(data):
    def sample(n, *, generator):
        return data[torch.randint(len(data), (n,), generator=generator)]

    return sample


sample = draws_from(DATA)
# Different data for each: more and more of the seven states.
SAMPLES = [draws_from(DATA[: k + 2]) for k in range(4)]


def discrepancy(perturbation, n_negatives, stabilizer, n_backward=None):
    how = {"n_negatives": n_negatives, "stabilizer": stabilizer}
    how |= {"perturbation": perturbation, "n_backward": n_backward}
    return partial(energy_discrepancy_loss, **how)


# Different noise, numbers of negatives and stabilisers: batches of different sizes,
# and both ways through the loss.
LOSSES = [
    discrepancy(Bernoulli(0.2), 8, 1.0, n_backward=2),
    discrepancy(Bernoulli(0.001, sparse=True), 4, 0.1),
    discrepancy(Grid(), 32, 1.0),
    discrepancy(Pool(2), 1, 10.0),
]


def networks(n=4):
    return [
        MLPEnergy(4, hidden=8, n_layers=3, generator=make_generator(k)).double()
        for k in range(n)
    ]


def generators(n=4):
    return [make_generator(10 + k) for k in range(n)]


def test_numbers_are_those_of_single_runs():
    energies, alone = networks(), networks()
    found = train_ensemble(energies, LOSSES, SAMPLES, CONFIG, generators=generators())
    for k, (loss, generator) in enumerate(zip(LOSSES, generators(), strict=True)):
        one = train(alone[k], loss, SAMPLES[k], CONFIG, generator=generator)
        assert np.allclose(found[k].losses, one.losses, rtol=1e-6)
        pairs = [(energies[k], alone[k]), (found[k].energy, one.energy)]
        for ours, theirs in pairs:
            for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
                torch.testing.assert_close(p, q, rtol=1e-9, atol=1e-12)
        assert not any(p.requires_grad for p in found[k].energy.parameters())
    assert threading.active_count() < 20  # no thread is left behind


def test_long_gradients_are_clipped_each_by_its_own_norm():
    def steep(factor):
        return lambda energy, x, *, generator: factor * energy(x).mean()

    losses = [steep(1e3), steep(1e-3)]
    energies, alone = networks(2), networks(2)
    train_ensemble(energies, losses, [sample] * 2, CONFIG, generators=generators(2))
    for k, generator in enumerate(generators(2)):
        train(alone[k], losses[k], sample, CONFIG, generator=generator)
        for p, q in zip(energies[k].parameters(), alone[k].parameters(), strict=True):
            torch.testing.assert_close(p, q, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("bad", [float("nan"), DivergenceError("too steep", 0)])
def test_one_that_diverges_leaves_the_others_alone(bad):
    calls = []

    def lost(energy, x, *, generator):
        calls.append(1)
        if len(calls) < 5:
            return LOSSES[0](energy, x, generator=generator)
        if isinstance(bad, Exception):
            raise bad
        return energy(x).mean() * bad

    losses = [LOSSES[0], lost, LOSSES[3]]
    how = {"generators": generators(3), "label": "three"}
    found = train_ensemble(networks(3), losses, [sample] * 3, CONFIG, **how)
    assert isinstance(found[1], DivergenceError)
    assert found[1].step == 4
    assert "three" in str(found[1]) and "step 4" in str(found[1])
    assert len(calls) == 5
    one = train(networks(3)[2], LOSSES[3], sample, CONFIG, generator=make_generator(12))
    assert np.allclose(found[2].losses, one.losses, rtol=1e-6)


def test_a_run_that_was_cut_off_goes_on_bit_for_bit(tmp_path):
    """Cut off after each of its steps, with one that diverges on the way."""

    def lost(energy, x, *, generator):
        lost.calls += 1
        bad = math.nan if lost.calls == 4 else 1.0
        return energy(x).mean() * bad

    def run(checkpoint=None, moment=None, identity="a"):
        energies, losses = networks(3), [LOSSES[0], lost, LOSSES[3]]
        how = {"checkpoint": checkpoint, "identity": {"name": identity}}
        what = energies, losses, SAMPLES[:3], CONFIG
        with deadline(moment):
            return energies, train_ensemble(*what, generators=generators(3), **how)

    lost.calls = 0
    energies, whole = run()
    lost.calls, file = 0, tmp_path / "state.safetensors"
    for _ in range(CONFIG.n_steps - 1):
        with pytest.raises(OutOfTime, match="training stopped after step"):
            run(file, moment=0)
    with pytest.raises(InputError, match="was made with"):
        run(file, identity="b")
    others, parts = run(file)
    assert lost.calls == 4  # none was made twice, none after it was lost
    assert str(parts[1]) == str(whole[1]) and parts[1].step == whole[1].step == 3
    for k in (0, 2):
        assert np.array_equal(parts[k].losses, whole[k].losses)
        ours, theirs = parts[k].energy.state_dict(), whole[k].energy.state_dict()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)
        ours, theirs = others[k].state_dict(), energies[k].state_dict()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    _, again = run(file)  # what has ended is only read
    assert np.array_equal(again[0].losses, whole[0].losses)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"samples": [sample, draws_from(DATA[:, :3])]},
            r"samples must be states of one shape for all energies, got \(3,\), \(4,\)",
        ),
        (
            {"energies": [*networks(1), MLPEnergy(4, hidden=9)]},
            "energies must be of one class and size, got MLPEnergy, MLPEnergy",
        ),
        (
            {"losses": [lambda energy, x, *, generator: energy(x)] * 2},
            r"loss\(energy, x\) must have shape",
        ),
    ],
)
def test_input_is_refused(changes, message):
    arguments = {
        "energies": networks(2),
        "losses": LOSSES[:2],
        "samples": [sample] * 2,
        "config": CONFIG,
        "generators": generators(2),
    }
    with pytest.raises(InputError, match=message):
        train_ensemble(**{**arguments, **changes})
