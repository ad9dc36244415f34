"""Towers by tables: torch's own units, and gradients right up to their roundings."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.func import functional_call

from ebmtut.energies import MLPEnergy
from ebmtut.energies import _silu_tower as tower
from ebmtut.random import make_generator

UNIT = 2.0**-8  # largest relative error of a rounding to eight binary digits
SINGLE = 2.0**-24  # and to those of single precision

LEAST = 2.0**-126  # numbers below are rounded absolutely, or lost

SIZES = {
    "batch": st.integers(0, 40),
    "n_sites": st.integers(1, 20),
    "hidden": st.integers(1, 70),
    "n_layers": st.integers(2, 5),
    "seed": st.integers(0, 2**32),
}


def autocast():
    return torch.autocast("cpu", torch.bfloat16, cache_enabled=False)


def problem(batch, n_sites, hidden, n_layers, seed):
    """A network, whose weights are larger than first ones, bits and slopes."""
    generator = make_generator(seed)
    energy = MLPEnergy(n_sites, hidden, n_layers, generator=generator)
    with torch.no_grad():
        for parameter in energy.parameters():
            parameter *= 2
    x = torch.randint(2, (batch, n_sites), generator=generator).float()
    return energy, x, torch.randn(batch, generator=generator)


def slope_of(z):
    gate = z.sigmoid()
    return gate + z * gate * (1 - gate)


def sums_of(energy, x):
    """Weights, inputs and sums of the hidden layers by torch's own operations."""
    found = []
    with torch.no_grad(), autocast():
        for k, layer in enumerate(energy.net[:-1]):
            if k % 2 == 0:
                weight = layer.weight.bfloat16()
                found.append((weight, x.bfloat16(), layer(x)))
            x = layer(found[-1][2]) if k % 2 else x
    return found


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture
def found_by_tables(monkeypatch):
    """Count the calls that the tables answer."""
    calls, own = [], tower._forward

    def forward(x, parameters):
        calls.append(x)
        return own(x, parameters)

    monkeypatch.setattr(tower, "_forward", forward)
    return calls


def test_tables_hold_every_number():
    every = torch.arange(2**16, dtype=torch.int32).to(torch.uint16)
    z = every.view(torch.bfloat16)
    silu, slopes = tower._tables()
    want = nn.functional.silu(z).view(torch.uint16).numpy()
    assert np.array_equal(silu, want)
    z = z.double()
    slope = slope_of(z)
    # Eight roundings in double precision are nothing beside that to single.
    near = 1.001 * SINGLE * slope.abs() + LEAST
    error = (torch.from_numpy(slopes).double() - slope).abs()
    assert bool((error <= near)[z.isfinite()].all())
    assert np.isnan(slopes[~z.isfinite().numpy()]).all()


def test_words_are_rounded_as_torch_rounds():
    every = np.arange(2**16, dtype=np.uint16)
    numbers = torch.from_numpy(every).view(torch.bfloat16).float()
    ordinary = numbers.isfinite().numpy()
    above = numbers.view(torch.int32)
    near = torch.cat([above + k for k in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)])
    near = near[torch.from_numpy(np.tile(ordinary, 6))].view(torch.float32)
    want = near.bfloat16().view(torch.uint16).numpy()
    # Slopes of one and a weight of one: what comes back is only rounded.
    back, ones = np.zeros((len(near), 1), np.uint16), np.ones(2**16, np.float32)
    z, column = np.zeros_like(back), np.ones(1, np.float32)
    spare = np.zeros(1, np.float32), np.zeros(1, np.float32)
    words = np.zeros(2**16, np.uint16)
    tower._read_back(near.numpy(), column, words, z, ones, back, *spare)
    assert np.array_equal(back[:, 0], want)


@settings(deadline=None, max_examples=40)
@given(**SIZES)
def test_energies_are_torchs_up_to_the_last_sum(batch, n_sites, hidden, n_layers, seed):
    """The units are equal bit for bit; n terms are summed in single precision."""
    energy, x, _ = problem(batch, n_sites, hidden, n_layers, seed)
    parameters = [*energy.parameters()]
    own = tower._forward(x, parameters)
    for kept, want in zip(zip(*own[1:], strict=True), sums_of(energy, x), strict=True):
        for ours, theirs in zip(kept, want, strict=True):
            assert torch.equal(ours, theirs)
    plain = tower.plain_tower(x, *parameters).detach()
    last, bias = parameters[-2:]
    units = nn.functional.silu(own[3][-1]).double()
    size = units.abs() @ last[0].double().abs() + bias.double().abs()
    n = hidden + 1
    bound = 2 * n * SINGLE / (1 - n * SINGLE) * size
    assert bool(((own[0] - plain).abs() <= bound.detach()).all())


def gradients_and_bounds(energy, x, g):
    """Gradients in double precision at the same units, and bounds of the errors.

    The gradient of a layer's sums is rounded once, and so are the gradient of its
    inputs and the gradient of its weight; sums are in single precision.
    """
    n = max(len(x), energy.net[0].out_features) + 4
    single = n * SINGLE / (1 - n * SINGLE)
    last = energy.net[-1].weight.detach().double()
    g = g.double()
    layers = sums_of(energy, x)
    units = nn.functional.silu(layers[-1][2]).double()
    found = [(g.sum().view(1), single * g.abs().sum()), (g[None] @ units, None)]
    found[1] = found[1][0], single * (g[None].abs() @ units.abs())
    back, error = g[:, None] * last, single * g[:, None].abs() * last.abs()
    for weight, h, z in reversed(layers):
        weight, h, z = weight.double(), h.double(), z.double()
        slope = slope_of(z)  # itself rounded to single precision, as a product is
        error = (error + 3 * SINGLE * (back.abs() + error)) * slope.abs()
        back = back * slope
        summed = error + single * (back.abs() + error)
        found.append((back.sum(0), summed.sum(0)))
        error = error + UNIT * (back.abs() + error)
        products = (back.abs() + error).T @ h.abs()
        bound = error.T @ h.abs() + single * products
        value = back.T @ h
        found.append((value, bound + UNIT * (value.abs() + bound)))
        sent = error @ weight.abs() + single * ((back.abs() + error) @ weight.abs())
        back = back @ weight
        error = sent + UNIT * (back.abs() + sent)
    return found[::-1]


@settings(deadline=None, max_examples=40)
@given(**SIZES)
def test_gradients_are_right_up_to_their_roundings(
    batch, n_sites, hidden, n_layers, seed
):
    energy, x, g = problem(batch, n_sites, hidden, n_layers, seed)
    with autocast():
        assert tower.runs_by_tables(energy.net, x)
        energies = energy(x)
    energies.backward(g)
    wanted = gradients_and_bounds(energy, x, g)
    for parameter, (want, bound) in zip(energy.parameters(), wanted, strict=True):
        off = (parameter.grad.double() - want).abs()
        assert bool((off <= bound + LEAST).all())


def test_layout_of_states_and_slopes_does_not_matter():
    energy, x, g = problem(12, 6, 9, 3, 1)
    parameters = [*energy.parameters()]
    with autocast():
        straight = torch.autograd.grad(energy(x), parameters, g)
        turned = x.T.contiguous().T
        strided = torch.stack([g, -g], 1)[:, 0].requires_grad_()
        other = torch.autograd.grad(energy(turned), parameters, strided)
    for ours, theirs in zip(straight, other, strict=True):
        assert torch.equal(ours, theirs)


def test_frozen_layers_get_no_gradient():
    energy, x, g = problem(12, 6, 9, 4, 1)
    with autocast():
        full = torch.autograd.grad(energy(x), [*energy.parameters()], g)
    energy.net[2].requires_grad_(False)
    with autocast():
        energy(x).backward(g)
    for k, (parameter, want) in enumerate(zip(energy.parameters(), full, strict=True)):
        if k in (2, 3):
            assert parameter.grad is None
        else:
            assert torch.equal(parameter.grad, want)


def test_second_derivatives_are_torchs():
    energy, x, g = problem(12, 6, 9, 3, 1)
    energy.net[2].bias.requires_grad_(False)
    parameters = [*energy.parameters()]
    asked = [p for p in parameters if p.requires_grad]

    def second(energies):
        first = torch.autograd.grad(energies, asked, g, create_graph=True)
        size = sum((slope**2).sum() for slope in first)
        return [*first, *torch.autograd.grad(size, asked, materialize_grads=True)]

    with autocast():
        ours = energy(x)
    theirs = tower.plain_tower(x, *parameters)
    for one, other in zip(second(ours), second(theirs), strict=True):
        assert torch.equal(one, other)


# What changes an energy, or its surroundings, so that the tables do not know it.
CHANGES = {
    "two threads": lambda _, patch: patch.setattr(torch, "get_num_threads", lambda: 2),
    "traced": lambda _, patch: patch.setattr(
        torch.compiler, "is_compiling", lambda: True
    ),
    "hook": lambda net, _: net[1].register_forward_hook(lambda *_: None),
    "another layer": lambda net, _: setattr(net, "1", nn.GELU()),
    "no bias": lambda net, _: setattr(net, "2", nn.Linear(9, 9, bias=False)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_the_tables_do_not_know_goes_through_torch(
    change, monkeypatch, found_by_tables
):
    energy, x, _ = problem(12, 6, 9, 3, 1)
    change(energy.net, monkeypatch)
    with autocast():
        value, units = energy(x), energy.net[:-1](x).float()
    assert not found_by_tables
    assert torch.equal(value, energy.net[-1](units).squeeze(-1))


def test_states_that_ask_for_a_gradient_get_it(found_by_tables):
    energy, x, g = problem(12, 6, 9, 3, 1)
    x.requires_grad_()
    with autocast():
        (slope,) = torch.autograd.grad(energy(x), x, g, create_graph=True)
        assert not found_by_tables
        assert slope.requires_grad
        with torch.no_grad():
            energy(x)
    assert len(found_by_tables) == 1


def test_weights_may_be_others_than_the_networks_own(found_by_tables):
    energy, x, g = problem(12, 6, 9, 3, 1)
    other, _, _ = problem(12, 6, 9, 3, 2)
    weights = dict(other.named_parameters())
    with autocast():
        called = functional_call(energy, weights, (x,))
        own = other(x)
    assert len(found_by_tables) == 2
    parameters = [*other.parameters()]
    slopes = torch.autograd.grad(called, parameters, g)
    for one, want in zip(slopes, torch.autograd.grad(own, parameters, g), strict=True):
        assert torch.equal(one, want)
