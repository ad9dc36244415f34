"""What the first page measures on a few spins, against enumeration and by hand."""

import math

import pytest
import torch

from ebmtut.experiments.pmp import small_models


def test_messages_on_a_chain_converge_to_the_map_state():
    chain = small_models.small_graph("chain of six")
    assert small_models.convergence(
        chain, 0.0, small_models.noise_for(chain, 500, 0)
    ).all()


def test_a_frustrated_ring_is_undecided_in_the_same_perturbations_with_damping():
    """Damping makes messages converge, and decides nothing that was undecided."""
    ring = small_models.small_graph("frustrated ring")
    noise = small_models.noise_for(ring, 1000, 0)
    converged, decided, right = small_models.convergence(ring, 0.0, noise)
    damped, damped_decided, _ = small_models.convergence(ring, 0.5, noise)
    assert torch.equal(converged, decided) and right[decided].all()
    assert damped.all() and torch.equal(damped_decided, decided)
    assert 0.5 < decided.double().mean() < 0.7


def test_the_table_has_all_graphs():
    table = small_models.convergence_table(0, n=20, n_models=2)
    assert len(table.rows) == 4 and table.rows[0][1:] == ("1",) * 4


def test_four_spins_by_hand():
    """At coupling theta all equal has the weight 2 exp(6 theta), among 16 states."""
    theta = 0.3
    alike, one, two = math.exp(6 * theta), 1.0, math.exp(-2 * theta)
    total = 2 * alike + 8 * one + 6 * two
    want = torch.tensor([alike, 4 * one, 6 * two, 4 * one, alike]) / total
    torch.testing.assert_close(small_models.exact_by_ones(theta).float(), want)
    x = torch.tensor([[0.0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 1, 0], [1, 0, 1, 1]])
    assert small_models.by_ones(x).tolist() == [0.25, 0.25, 0, 0.25, 0.25]
    assert small_models.magnetisation(x) == 0
    p, q = torch.tensor([0.5, 0.5]), torch.tensor([0.25, 0.75])
    assert small_models.divergence(p, q) == pytest.approx(0.5 * math.log(4 / 3))
