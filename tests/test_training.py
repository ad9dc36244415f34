"""The training loop: determinism, checkpoints, averages, and Theorem 1 at work."""

import dataclasses
import math
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from ebmtut.checks import DivergenceError, InputError
from ebmtut.energies import Ising, MLPEnergy
from ebmtut.exact import exact_probabilities
from ebmtut.losses import (
    Bernoulli,
    Grid,
    PersistentChains,
    contrastive_divergence_loss,
    energy_discrepancy_loss,
)
from ebmtut.random import make_generator
from ebmtut.results.checkpoints import load_checkpoint
from ebmtut.samplers import gwg
from ebmtut.states import enumerate_states
from ebmtut.training import TrainConfig, bfloat16_is_fast, loop, train

CONFIG = TrainConfig(n_steps=24, batch_size=16, n_warmup=3, precision="float32")
DATA = enumerate_states(3, dtype=torch.float32)[[0, 3, 3, 5, 7, 7, 7]]


def sample(n, *, generator):
    return DATA[torch.randint(len(DATA), (n,), generator=generator)]


discrepancy = partial(
    energy_discrepancy_loss, perturbation=Bernoulli(0.2), n_negatives=8, n_backward=2
)


def network(seed=0):
    return MLPEnergy(3, hidden=8, n_layers=3, generator=make_generator(seed))


def run(
    config=CONFIG, *, seed=0, energy=None, loss=discrepancy, data=sample, **arguments
):
    energy = network() if energy is None else energy
    arguments = {"identity": {}, "generator": make_generator(seed)} | arguments
    return train(energy, loss, data, config, **arguments)


def weights(module):
    return torch.cat([p.detach().flatten() for p in module.parameters()]).clone()


class Slope(nn.Module):
    """One weight of which the loss is a given multiple."""

    def __init__(self, dtype=torch.float64):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3, dtype=dtype))


def slope_loss(factor):
    return lambda energy, x, *, generator: factor * energy.weight.sum()


def test_the_seed_decides():
    state = torch.get_rng_state()
    one, same, other = run(seed=1), run(seed=1), run(seed=2)
    assert torch.equal(weights(one.energy), weights(same.energy))
    assert np.array_equal(one.losses, same.losses)
    assert not torch.equal(weights(one.energy), weights(other.energy))
    assert torch.equal(torch.get_rng_state(), state)


def test_the_energy_is_trained_in_place_and_the_average_is_a_copy():
    energy = network()
    before = weights(energy)
    result = run(energy=energy)
    assert result.energy is not energy
    assert not torch.equal(weights(energy), before)
    assert not torch.equal(weights(energy), weights(result.energy))
    assert not any(p.requires_grad for p in result.energy.parameters())
    assert result.losses.shape == (24,)
    assert np.isfinite(result.losses).all()


@pytest.mark.parametrize("decay", ["cosine", "constant"])
def test_steps_follow_the_schedule(decay):
    """Adam's step is the learning rate itself where the gradient is constant."""
    config = TrainConfig(20, learning_rate=0.1, n_warmup=4, decay=decay, ema_decay=0)
    energy, seen = Slope(), []

    def on_step(step, averaged):
        seen.append(energy.weight.detach().clone())

    run(config, energy=energy, loss=slope_loss(1.0), on_step=on_step)
    moves = -torch.diff(torch.stack([torch.ones(3).double(), *seen]), dim=0)
    for step, move in enumerate(moves):
        want = 0.1 * min(1, (step + 1) / 5)
        if decay == "cosine":
            want *= (1 + math.cos(math.pi * step / 20)) / 2
        assert config.learning_rate_at(step) == pytest.approx(want, rel=1e-12)
        # Adam divides by |g| + 1e-8, and g is 1 / sqrt(3) or more.
        assert move.tolist() == pytest.approx([want] * 3, rel=1e-6)


@pytest.mark.parametrize(("factor", "norm"), [(100.0, 2.0), (0.5, 0.5 * 3**0.5)])
def test_long_gradients_are_clipped(factor, norm):
    config = dataclasses.replace(CONFIG, clip_norm=2.0)
    energy = Slope()
    run(config, energy=energy, loss=slope_loss(factor))
    assert float(energy.weight.grad.norm()) == pytest.approx(norm, rel=1e-5)


@pytest.mark.parametrize("ema_decay", [0.9, 0.3])
def test_the_average_is_an_exponential_one_with_a_short_start(ema_decay):
    config = dataclasses.replace(CONFIG, ema_decay=ema_decay)
    energy, got, raw = network().double(), [], []

    def on_step(step, averaged):
        got.append(weights(averaged))
        raw.append(weights(energy))

    average = weights(energy)

    def double_sample(n, *, generator):
        return sample(n, generator=generator).double()

    result = run(config, energy=energy, data=double_sample, on_step=on_step)
    for step in range(config.n_steps):
        decay = min(ema_decay, (step + 1) / (step + 10))
        average = decay * average + (1 - decay) * raw[step]
        assert torch.allclose(got[step], average, atol=1e-14)
    assert torch.equal(weights(result.energy), got[-1])
    assert not torch.allclose(got[-1], raw[-1], atol=1e-6)


class Stop(Exception):
    pass


def stop_at(k):
    def on_step(step, averaged):
        if step == k:
            raise Stop

    return on_step


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("k", [3, 4, 17, 23])
def test_a_resumed_run_equals_the_unbroken_one_bit_for_bit(tmp_path, k, precision):
    config = dataclasses.replace(CONFIG, precision=precision)
    unbroken_energy, path = network(), tmp_path / "run.safetensors"
    unbroken = run(config, seed=5, energy=unbroken_energy)

    arguments = {"checkpoint": path, "checkpoint_every": 5}
    with pytest.raises(Stop):
        run(config, seed=5, on_step=stop_at(k), **arguments)
    assert path.exists() == (k > 4)
    if path.exists():
        assert load_checkpoint(path)[1]["step"] == k // 5 * 5
    # A new process starts from the same seed and the same initial weights;
    # where there is a checkpoint, not even those matter.
    seed, energy = (99, network(seed=7)) if path.exists() else (5, network())
    steps = []
    arguments["on_step"] = lambda step, averaged: steps.append(step)
    resumed = run(config, seed=seed, energy=energy, **arguments)
    assert steps == list(range(k // 5 * 5, 24))
    assert torch.equal(weights(energy), weights(unbroken_energy))
    assert torch.equal(weights(resumed.energy), weights(unbroken.energy))
    assert np.array_equal(resumed.losses, unbroken.losses)


def test_the_chains_of_a_loss_are_resumed_too(tmp_path):
    def persistent():
        chains = PersistentChains(DATA.repeat(3, 1), n_steps=2, restart_probability=0.1)

        def loss(energy, x, *, generator):
            x_model = chains.advance(gwg(energy), x, generator=generator)
            return contrastive_divergence_loss(energy, x, x_model)

        return {"loss": loss, "buffers": {"chains": chains.x}}

    unbroken_parts = persistent()
    unbroken = run(seed=5, **unbroken_parts)
    arguments = {"checkpoint": tmp_path / "run.safetensors", "checkpoint_every": 5}
    with pytest.raises(Stop):
        run(seed=5, on_step=stop_at(12), **arguments, **persistent())
    parts = persistent()
    resumed = run(seed=99, **arguments, **parts)
    assert torch.equal(weights(resumed.energy), weights(unbroken.energy))
    assert np.array_equal(resumed.losses, unbroken.losses)
    chains = parts["buffers"]["chains"]
    assert torch.equal(chains, unbroken_parts["buffers"]["chains"])


@pytest.mark.parametrize("checkpoint_every", [8, 7, 1000])  # of 24 steps
def test_a_finished_run_is_not_run_again(tmp_path, checkpoint_every):
    arguments = {"checkpoint": tmp_path / "run.safetensors"}
    arguments["checkpoint_every"] = checkpoint_every
    first = run(**arguments)

    def loss(energy, x, *, generator):
        raise AssertionError("a step was made")

    again = run(loss=loss, **arguments)
    assert torch.equal(weights(again.energy), weights(first.energy))
    assert np.array_equal(again.losses, first.losses)


def test_a_checkpoint_of_another_configuration_is_refused(tmp_path):
    arguments = {"checkpoint": tmp_path / "run.safetensors", "checkpoint_every": 8}
    run(**arguments)
    other = dataclasses.replace(CONFIG, learning_rate=1e-4)
    message = r"checkpoint=run.safetensors was made with .*0.002.*, not with .*0.0001"
    with pytest.raises(InputError, match=message) as error:
        run(other, **arguments)
    assert "\n" not in str(error.value)


def test_a_checkpoint_of_another_network_is_refused(tmp_path):
    arguments = {"checkpoint": tmp_path / "run.safetensors", "checkpoint_every": 8}
    run(**arguments)
    wider = MLPEnergy(3, hidden=9, n_layers=3, generator=make_generator(0))
    before = weights(wider)
    with pytest.raises(InputError, match=r"holds the weights .*8\).*, not .*9\)") as e:
        run(energy=wider, **arguments)
    assert "\n" not in str(e.value)
    assert torch.equal(weights(wider), before)


def test_a_checkpoint_of_another_loss_is_refused(tmp_path):
    arguments = {"checkpoint": tmp_path / "run.safetensors", "checkpoint_every": 8}
    first = run(identity={"eps": 0.2, "n_backward": None}, **arguments)
    message = r"run.safetensors was made with \{'eps': 0.2.*, not with \{'eps': 0.3"
    for other in ({"eps": 0.3, "n_backward": None}, {"eps": 0.3}):
        with pytest.raises(InputError, match=message):
            run(identity=other, **arguments)
    with pytest.raises(InputError, match=r"not with \{\}"):
        run(**arguments)
    again = run(identity={"eps": 0.2, "n_backward": None}, **arguments)
    assert np.array_equal(again.losses, first.losses)


def test_a_checkpoint_needs_an_identity(tmp_path):
    """Without one another seed, loss or data would go on from it in silence."""
    path = tmp_path / "run.safetensors"
    message = r"^checkpoint=run.safetensors needs an identity, got None: name the "
    with pytest.raises(InputError, match=message):
        run(checkpoint=path, identity=None, checkpoint_every=2)
    assert not path.exists()


@pytest.mark.parametrize(
    ("bad", "what"),
    [(math.nan, "loss nan"), (math.inf, "loss inf"), (-math.inf, "loss -inf")],
)
def test_a_loss_that_is_not_finite_stops_the_run(bad, what):
    energy, calls = Slope(), []

    def loss(energy, x, *, generator):
        calls.append(energy.weight.detach().clone())
        return energy.weight.sum() * (bad if len(calls) == 7 else 1.0)

    message = rf"^moons diverged at step 6: {what}, gradient norm .*learning_rate"
    with pytest.raises(DivergenceError, match=message) as error:
        run(energy=energy, loss=loss, label="moons")
    assert error.value.step == 6
    assert torch.equal(energy.weight, calls[-1])  # the bad step was not made
    assert "\n" not in str(error.value)


def test_bfloat16_computes_otherwise_and_agrees():
    """Products carry 8 bits: the losses agree to some per cent, not exactly."""
    narrow, steps = [], CONFIG.n_steps

    def loss(energy, x, *, generator):
        narrow.append(energy.net[0](x).dtype)
        return discrepancy(energy, x, generator=generator)

    single = run(loss=loss)
    assert narrow == [torch.float32] * steps
    half = run(dataclasses.replace(CONFIG, precision="bfloat16"), loss=loss)
    assert narrow[steps:] == [torch.bfloat16] * steps
    assert not np.array_equal(single.losses, half.losses)
    assert abs(single.losses - half.losses).max() < 0.05
    assert next(half.energy.parameters()).dtype == torch.float32


def test_every_layer_learns_in_bfloat16():
    """Weights cast without gradients and kept would cut the backward pass."""
    energy = network()
    config = dataclasses.replace(CONFIG, n_steps=1, precision="bfloat16")
    run(config, energy=energy)
    single = network()
    run(dataclasses.replace(CONFIG, n_steps=1), energy=single)
    pairs = list(zip(energy.parameters(), single.parameters(), strict=True))
    for got, want in pairs[:-1]:  # the last bias is a constant: no force
        # 8 bits a product, of which a few errors add up.
        norm = float(want.grad.norm())
        assert norm > 1e-3
        assert float((got.grad - want.grad).norm()) < 0.1 * norm


@pytest.mark.parametrize(
    ("amx", "avx", "maker", "fast"),
    [
        (True, True, "GenuineIntel", True),
        (False, True, "GenuineIntel", False),
        (False, True, "AuthenticAMD", True),
        (False, False, "AuthenticAMD", False),
        (False, True, "", False),
    ],
)
def test_a_processor_may_know_bfloat16_and_be_slow(monkeypatch, amx, avx, maker, fast):
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: avx)
    monkeypatch.setattr(loop, "_maker", lambda: maker)
    assert bfloat16_is_fast(torch.device("cpu")) is fast


@pytest.mark.parametrize("value", [torch.ones(3), 1.0])
def test_a_loss_that_is_no_scalar_is_refused(value):
    with pytest.raises(InputError, match=r"^loss\(energy, x\) must .* shape \(\), got"):
        run(loss=lambda energy, x, *, generator: value)


def test_training_recovers_the_distribution_of_the_data():
    """Four spins, ED-Grid summed exactly, w = 0: the minimiser is the distribution.

    U = Phi theta with spins and pairs as features. At the minimum one data
    point's gradient is Phi(x) - E[Phi|y]; its covariance is the Hessian
    H = E_y Cov(Phi|y) (Lemma 2), so that the best estimate from n points has
    covariance H^-1 / n (the sandwich H^-1 H H^-1). Annealed Adam is not an
    optimal average: the tolerance is five standard errors of each log-probability,
    for the best estimate from a tenth of the data.
    """
    config = TrainConfig(1200, 256, learning_rate=0.02, precision="float32")
    generator = make_generator(3)
    coupling = torch.randn(4, 4, generator=generator, dtype=torch.float64) / 4
    bias = torch.randn(4, generator=generator, dtype=torch.float64) / 2
    states = enumerate_states(4)
    log_p = exact_probabilities(Ising(coupling, bias), 4)

    def draw(n, *, generator):
        return states[log_p.exp().multinomial(n, True, generator=generator)]

    exact = {"perturbation": Grid(exact=True), "stabilizer": 0.0}
    loss = partial(energy_discrepancy_loss, **exact)
    zeros = torch.zeros(4, 4).double()
    start = Ising(zeros, zeros[0], learnable=True)
    result = train(start, loss, draw, config, generator=make_generator(4))
    got = exact_probabilities(result.energy, 4)

    s = 2 * states - 1
    pairs = torch.combinations(torch.arange(4)).T
    phi = torch.cat([s, s[:, pairs[0]] * s[:, pairs[1]]], 1)
    distance = (states[:, None] != states).sum(-1)
    joint = (distance == 1) / 4 * log_p.exp()[:, None]  # of (x, y)
    mean = (joint.T @ phi) / joint.sum(0)[:, None]
    centred = phi[:, None] - mean  # (x, y, feature)
    hessian = torch.einsum("xy,xya,xyb->ab", joint, centred, centred)
    slope = phi - log_p.exp() @ phi  # of -log p in theta
    n = config.n_steps * config.batch_size / 10
    variance = torch.einsum("xa,ab,xb->x", slope, hessian.inverse(), slope) / n
    assert ((got - log_p).abs() < 5 * variance.sqrt()).all()
    # The bound can fail: it is far tighter than the start.
    uniform = torch.full_like(log_p, -4 * math.log(2))
    assert (uniform - log_p).abs().max() > 20 * variance.sqrt().max()
