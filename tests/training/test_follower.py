"""A flow that follows an energy: it learns, keeps up, and draws when it should."""

import pytest
import torch

from ebmtut.checks import DivergenceError, InputError
from ebmtut.energies import Ising, TableEnergy, lattice_adjacency
from ebmtut.flows import Flow, HollowMLP, dmala_kernel, effective_sample_size, simulate
from ebmtut.paths import AnnealingPath
from ebmtut.random import make_generator
from ebmtut.training import FlowFollower, follower

SIZES = {"n_trajectories": 64, "n_time_steps": 16, "learning_rate": 5e-3}


def new_follower(
    energy: Ising, *, max_log_ratio: float | None = None, **options
) -> FlowFollower:
    path = AnnealingPath(energy)
    network = HollowMLP(9, width=32, generator=make_generator(0))
    flow = Flow(path, network, max_log_ratio=max_log_ratio)
    kernel = dmala_kernel(path, 0.3)
    return FlowFollower(flow, kernel, **SIZES | options)


def share(flow: Flow) -> float:
    found = simulate(flow, 1000, 32, generator=make_generator(1))
    return effective_sample_size(found.log_weights)


def test_it_learns_and_keeps_up_when_the_energy_changes() -> None:
    """The flow reads the energy as it is: one sign of J after the other."""
    energy = Ising(0.2 * lattice_adjacency(3))
    followed, generator = new_follower(energy), make_generator(2)
    untrained = share(followed.flow)
    followed.fit(200, generator=generator)
    learned = share(followed.flow)
    assert learned > 0.8 > untrained
    with torch.no_grad():
        energy.coupling.neg_()
    changed = share(followed.flow)
    followed.fit(100, generator=generator)
    followed.fit(100, generator=generator, share=0.3)
    assert share(followed.flow) > 0.8 > changed


def test_portions_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """One rollout every three steps, however the steps are called for."""
    drawn = []

    def counted(*args, **options):
        drawn.append(1)
        return simulate(*args, **options)

    monkeypatch.setattr(follower, "simulate", counted)
    energy = Ising(0.2 * lattice_adjacency(3))
    whole = new_follower(energy, inner_steps=3)
    whole.fit(7, generator=make_generator(4))
    assert len(drawn) == 3
    parts, generator = new_follower(energy, inner_steps=3), make_generator(4)
    for n_steps in (1, 4, 0, 2):
        parts.fit(n_steps, generator=generator)
    assert len(drawn) == 6
    for p, q in zip(
        whole.flow.network.parameters(), parts.flow.network.parameters(), strict=True
    ):
        assert torch.equal(p, q)


def test_every_call_requires_a_generator() -> None:
    """Also one that makes no rollout, which would refuse it."""
    followed = new_follower(Ising(0.2 * lattice_adjacency(3)), inner_steps=3)
    followed.fit(1, generator=make_generator(0))
    with pytest.raises(InputError, match=r"^generator must be .*Generator.* got None$"):
        followed.fit(1, generator=None)
    assert followed.state_dict()["n_taken"] == 1


def test_cut_ratios_are_counted_and_kept() -> None:
    """Each batch meets 8 times, 16 rows and 9 sites."""
    energy = Ising(0.2 * lattice_adjacency(3))
    whole = new_follower(energy)
    whole.fit(4, generator=make_generator(5))
    assert (whole.n_clipped, whole.n_ratios) == (0, 4 * 8 * 16 * 9)
    cut = new_follower(energy, max_log_ratio=0.3)
    assert cut.clipped_share == 0
    cut.fit(4, generator=make_generator(5))
    assert cut.n_ratios == whole.n_ratios
    assert 0 < cut.clipped_share == cut.n_clipped / cut.n_ratios < 1
    kept = cut.state_dict()
    again = new_follower(energy, max_log_ratio=0.3)
    again.load_state_dict(kept)
    assert (again.n_clipped, again.n_ratios) == (cut.n_clipped, cut.n_ratios)
    again.fit(4, generator=make_generator(6))
    assert again.n_ratios == 2 * whole.n_ratios == 2 * int(kept["counts"][1])
    # One of a run that began before they were counted.
    del kept["counts"]
    again.load_state_dict(kept)
    assert (again.n_clipped, again.n_ratios) == (0, 0)


def test_all_ratios_above_the_cut_are_counted() -> None:
    """Bits with a field alone: every zero's ratio is 2 t, and is cut where t > 1/2."""
    path = AnnealingPath(TableEnergy(torch.tensor([0.0, -2.0, -2.0, -4.0]), 2))
    flow = Flow(path, HollowMLP(2, width=4), max_log_ratio=1.0)
    counted = []
    cut = FlowFollower(flow, None, **SIZES)

    def noted(x, t):
        counted.append(int(((x == 0) & (t[:, None] > 0.5)).sum()))

    flow.network.register_forward_pre_hook(lambda module, given: noted(*given))
    cut.fit(3, generator=make_generator(0))
    # The first 17 looks are those of the rollout.
    assert cut.n_clipped == sum(counted[17:]) > 0


def test_a_rollout_that_diverges_names_the_step_of_the_training() -> None:
    followed = new_follower(Ising(0.2 * lattice_adjacency(3)), inner_steps=3)
    generator = make_generator(5)
    followed.fit(6, generator=generator)
    with torch.no_grad():
        for p in followed.flow.network.parameters():
            p.fill_(torch.nan)
    with pytest.raises(DivergenceError, match="flow diverged at step 6: its") as error:
        followed.fit(3, generator=generator)
    assert error.value.step == 6
