import copy
import math
import sys
from dataclasses import replace

import pytest
import torch

from ebmtut import transport
from ebmtut.checks import DivergenceError
from ebmtut.random import make_generator
from ebmtut.transport.wnmf.wasserstein_nmf import until_mixed

SMALL = transport.WNMFConfig(n_components=3, n_epochs=6, temperature=1e-4)


def images(n=8, side=6, seed=0, dtype=torch.float64):
    x = torch.rand(n, side, side, generator=make_generator(seed), dtype=dtype)
    return x.pow(4)


def test_one_component_is_the_barycentre():
    """Of two points, in squared distance, it is the point half way."""
    x = torch.zeros(2, 7, 7, dtype=torch.float64)
    x[0, 1, 1] = x[1, 3, 5] = 1
    config = transport.WNMFConfig(
        n_components=1, n_epochs=300, temperature=1e-3, n_hold=100, step_size=5.0
    )
    learned = transport.wasserstein_nmf(x, config, generator=make_generator(0))
    component = learned.dictionary[0]
    assert divmod(int(component.argmax()), 7) == (2, 3)
    assert component.max() > 0.9
    assert torch.equal(learned.memberships.x, torch.ones(2, 1, dtype=torch.float64))


def test_learning_lowers_the_transport_cost():
    ot = pytest.importorskip("ot")
    x = images(12, seed=1)
    data = transport.as_measures(x)
    matrix = transport.grid_cost(6, dtype=torch.float64).dense().contiguous().numpy()
    config = replace(SMALL, n_components=4, n_epochs=150, n_hold=50, temperature=1e-3)

    def mean_cost(state):
        return sum(
            ot.emd2(*(x.flatten().contiguous().numpy() for x in (p, q)), matrix)
            for p, q in zip(state.reconstruction, data, strict=True)
        ) / len(data)

    start = transport.wnmf_start(data, config, generator=make_generator(0))
    learned = transport.wasserstein_nmf(x, config, generator=make_generator(0))
    assert mean_cost(learned) < 0.5 * mean_cost(start)
    for part in (learned.dictionary.flatten(1), learned.memberships.x):
        torch.testing.assert_close(part.sum(1), torch.ones(len(part)).double())
        assert part.min() > 0


def tensors(state):
    return [state.dictionary, *state.memberships, state.U, *(state.mean or ())]


@pytest.mark.parametrize("n_average", [0, 5])
def test_a_run_resumes_bit_for_bit(n_average):
    x = images()
    config = replace(SMALL, n_average=n_average, average_every=3)
    whole = transport.wasserstein_nmf(x, config, generator=make_generator(1))
    generator = make_generator(1)
    half = transport.wasserstein_nmf(
        x,
        replace(config, n_epochs=2, n_average=max(0, n_average - 4)),
        generator=generator,
    )
    random = generator.get_state()

    generator = make_generator(9)
    generator.set_state(random)
    epochs = []
    again = transport.wasserstein_nmf(
        x,
        config,
        state=copy.deepcopy(half),
        on_epoch=lambda state: epochs.append(state.epoch),
        generator=generator,
    )
    assert epochs == [3, 4, 5, 6]
    assert half.epoch == 2 and whole.epoch == again.epoch == 6
    for tensor, same in zip(tensors(whole), tensors(again), strict=True):
        assert torch.equal(tensor, same)
    other = transport.wasserstein_nmf(x, config, generator=make_generator(2))
    assert not torch.equal(whole.dictionary, other.dictionary)


def test_batches_of_all_images_are_the_whole():
    x = images()
    whole = transport.wasserstein_nmf(x, SMALL, generator=make_generator(1))
    batches = transport.wasserstein_nmf(
        x, replace(SMALL, batch_size=8), generator=make_generator(1)
    )
    assert torch.equal(whole.dictionary, batches.dictionary)
    online = transport.wasserstein_nmf(
        x, replace(SMALL, batch_size=3), generator=make_generator(1)
    )
    assert online.n_passes >= 3 * SMALL.mixing_window
    assert not torch.equal(whole.dictionary, online.dictionary)


def test_late_models_become_their_means():
    """Epochs 1 to 3 as they are, 4 to 6 averaged, 7 the first of a new mean."""
    x = images()
    seen = []

    def look(state):
        seen.append((state.dictionary.clone(), state.memberships.x.clone()))

    def learn(n_epochs, n_average, on_epoch=None):
        config = replace(SMALL, n_epochs=n_epochs, n_average=n_average, average_every=3)
        generator = make_generator(1)
        return transport.wasserstein_nmf(
            x, config, on_epoch=on_epoch, generator=generator
        )

    learn(6, 0, look)
    learned = learn(6, 3)
    found = (learned.dictionary, learned.memberships.x)
    for part, parts in zip(found, zip(*seen[3:], strict=True), strict=True):
        torch.testing.assert_close(part, torch.stack(parts).mean(0))
    longer = learn(7, 4)
    assert longer.mean is not None
    assert torch.equal(longer.mean[0], longer.dictionary)


@pytest.mark.parametrize("accelerate", [False, True])
def test_an_epoch_moves_along_the_potentials(accelerate):
    """The updates are the two mirror steps with the potentials that came out."""
    data = transport.as_measures(images())
    state = transport.wnmf_start(data, SMALL, generator=make_generator(0))
    before = state.dictionary.flatten(1)
    cost = transport.grid_cost(6, dtype=torch.float64)
    config = replace(SMALL, accelerate=accelerate)
    transport.wnmf_epoch(state, data, cost, config, generator=make_generator(1))
    potentials = state.U.flatten(1)
    moved = before * torch.exp(-2.0 * potentials.sum(0) / 3)  # all beta are 1/3
    moved /= moved.sum(1, keepdim=True)
    torch.testing.assert_close(state.dictionary.flatten(1), moved)
    # The memberships' gradient is taken at the dictionary of before.
    slopes = potentials @ before.T
    z = torch.softmax(-2.0 / 3 * slopes, 1)
    y = torch.softmax(-2.0 * slopes, 1)
    expected = 0.75 * z + 0.25 * y if accelerate else torch.softmax(-100 * slopes, 1)
    torch.testing.assert_close(state.memberships.x, expected)


def test_temperature_falls_by_the_papers_factor():
    x = torch.zeros(2, 3, 4)
    x[0, 0, :3] = x[1, 1, :1] = 1
    data = transport.as_measures(x)  # m = 12, mbar = 2
    config = transport.WNMFConfig(temperature=1.0, n_hold=2, slowness=1.0)
    factor = 1 - math.sqrt(1 / 14)
    found = [transport.wnmf_temperature(data, config, epoch) for epoch in range(5)]
    assert found == pytest.approx([1, 1, 1, factor, factor**2])
    slow = replace(config, slowness=2.0)
    assert transport.wnmf_temperature(data, slow, 6) == pytest.approx(factor**2)


def test_the_oracle_stops_when_the_value_stops_increasing():
    data = transport.as_measures(images(8))
    p = transport.as_measures(images(8, seed=5))
    cost = transport.grid_cost(6, dtype=torch.float64)
    generator = make_generator(0)
    limits = (5, 1000, generator)
    U, value, n_cold = until_mixed(torch.zeros_like(p), p, data, cost, 1e-5, *limits)
    assert 10 < n_cold < 1000 and n_cold % 5 == 0
    U, again, n_warm = until_mixed(U, p, data, cost, 1e-5, *limits)
    assert n_warm < n_cold
    assert abs(again - value) < 0.1 * value
    # The value is none of a feasible pair: it lies above the bound.
    assert float(transport.grid_dual_value(U, p, data, cost).mean()) < again
    limits = (5, 7, generator)
    assert until_mixed(torch.zeros_like(p), p, data, cost, 1e-5, *limits)[2] == 7


def test_a_model_that_outruns_its_oracle_is_stopped(monkeypatch):
    module = sys.modules["ebmtut.transport.wnmf.wasserstein_nmf"]
    value = [1e-3]
    monkeypatch.setattr(module, "until_mixed", lambda U, *_: (U, value[0], 1))
    data = transport.as_measures(images())
    state = transport.wnmf_start(data, SMALL, generator=make_generator(0))
    cost = transport.grid_cost(6, dtype=torch.float64)
    for allowed in (1e-3, -1e-3):  # 2 T m is 0.0072
        value[0] = allowed
        transport.wnmf_epoch(state, data, cost, SMALL, generator=make_generator(1))
    for wrong in (-0.01, math.nan):
        value[0] = wrong
        with pytest.raises(DivergenceError, match="epoch"):
            transport.wnmf_epoch(state, data, cost, SMALL, generator=make_generator(1))
