"""What every sampler promises: its randomness, its outputs, its refusals."""

import numpy as np
import pytest
import torch

from ebmtut import samplers
from ebmtut.checks import InputError
from ebmtut.energies import Ising, LatticeIsing, lattice_coloring
from ebmtut.random import make_generator

SIDE = 3
N_SITES = SIDE * SIDE


def lattice(scale=1.0):
    return LatticeIsing(SIDE, 0.1 * scale, 0.05 * scale)


def dense(scale=1.0):
    generator = make_generator(1)
    coupling = torch.randn(N_SITES, N_SITES, generator=generator)
    return Ising(0.2 * scale * coupling, torch.randn(N_SITES, generator=generator))


# Each takes an energy to a kernel.
SAMPLERS = {
    "gibbs-random": samplers.gibbs,
    "gibbs-systematic": lambda e: samplers.gibbs(e, "systematic"),
    "color_gibbs": lambda e: samplers.color_gibbs(e, lattice_coloring(SIDE)),
    "gwg": samplers.gwg,
    "gwg-exact": lambda e: samplers.gwg(e, "barker", "exact"),
    "dmala": lambda e: samplers.dmala(e, 0.5),
    "dmala-exact": lambda e: samplers.dmala(e, 0.5, "exact"),
    "dula": lambda e: samplers.dula(e, 0.5),
}


def by_chain(make):
    def draw(x, n_steps, generator, scale=1.0):
        sampler = make(lattice(scale))
        return samplers.run_chain(sampler, x, n_steps, generator=generator).x_final

    return draw


# Each takes a start, a number of steps and a generator to new states.
DRAWS = {name: by_chain(make) for name, make in SAMPLERS.items()} | {
    f"{run.__name__}-{make.__name__}": (
        lambda x, n, g, scale=1.0, run=run, make=make: run(
            make(scale), x, n, generator=g
        )
    )
    for run in (samplers.ising_gibbs, samplers.ising_gibbs_reference)
    for make in (lattice, dense)
}

every_draw = pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
every_sampler = pytest.mark.parametrize("make", SAMPLERS.values(), ids=SAMPLERS)


def start(batch=70, dtype=torch.float64):
    bits = torch.rand(batch, N_SITES, generator=make_generator(9)) < 0.5
    return bits.to(dtype)


@every_draw
def test_the_seed_decides_and_nothing_else(draw):
    x = start()
    first = draw(x, 12, make_generator(7))
    torch.manual_seed(123)
    np.random.seed(123)  # noqa: NPY002
    assert torch.equal(first, draw(x, 12, make_generator(7)))
    assert not torch.equal(first, draw(x, 12, make_generator(8)))
    assert torch.equal(x, start())


@every_draw
@pytest.mark.parametrize("batch", [0, 1, 5])
def test_bits_stay_bits_of_their_dtype(draw, batch):
    x = draw(start(batch, torch.float32), 10, make_generator(0))
    assert x.shape == (batch, N_SITES)
    assert x.dtype == torch.float32
    assert ((x == 0) | (x == 1)).all()


@every_draw
def test_zero_steps_return_the_start(draw):
    assert torch.equal(draw(start(), 0, make_generator(0)), start())


@every_draw
@pytest.mark.parametrize("scale", [1e4, -1e4, 1e30])
def test_extreme_logits(draw, scale):
    x = draw(start(dtype=torch.float32), 20, make_generator(0), scale)
    assert ((x == 0) | (x == 1)).all()


@every_sampler
@pytest.mark.parametrize("scale", [1e4, -1e4, 1e30])
def test_extreme_logits_leave_no_nan_in_states(make, scale):
    sampler = make(lattice(scale))
    state = sampler.init(start(dtype=torch.float32))
    generator = make_generator(0)
    for _ in range(20):
        state, info = sampler.step(state, generator=generator)
        parts = [part for part in state if isinstance(part, torch.Tensor)]
        for part in [*parts, *info]:
            assert part.isfinite().all()
        assert ((info.acceptance >= 0) & (info.acceptance <= 1)).all()


@every_sampler
def test_steps_are_pure(make):
    sampler = make(lattice())
    state = sampler.init(start())
    before = [p.clone() if isinstance(p, torch.Tensor) else p for p in state]
    one, _ = sampler.step(state, generator=make_generator(2))
    two, _ = sampler.step(state, generator=make_generator(2))
    assert torch.equal(one.x, two.x)
    for was, part in zip(before, state, strict=True):
        assert torch.equal(was, part) if isinstance(was, torch.Tensor) else was == part


@every_sampler
def test_no_graph_is_kept(make):
    energy = dense().requires_grad_() if make is not SAMPLERS["color_gibbs"] else None
    sampler = make(energy or lattice())
    state, info = sampler.step(sampler.init(start()), generator=make_generator(0))
    parts = [part for part in (*state, *info) if isinstance(part, torch.Tensor)]
    assert not any(part.requires_grad for part in parts)


BAD_STARTS = {
    "vector": (start()[0], "shape"),
    "spins": (2 * start() - 1, "only 0 and 1, got -1"),
    "halves": (start() / 2, "only 0 and 1, got 0.5"),
}


@every_draw
@pytest.mark.parametrize("x, words", BAD_STARTS.values(), ids=BAD_STARTS)
def test_bad_starts(draw, x, words):
    with pytest.raises(InputError, match=f"^x .*{words}"):
        draw(x, 1, make_generator(0))


@every_sampler
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_starts_of_no_finite_energy(make, value):
    with pytest.raises(InputError, match=r"^energy\(x\) must be finite"):
        make(lambda x: x.sum(1) + value).init(start())


@every_sampler
def test_a_start_of_another_size(make):
    twice = torch.cat([start(), start()], dim=1)
    with pytest.raises(InputError, match=r"^x must have shape \(any, 9\), got .* 18\)"):
        make(lattice()).init(twice)
