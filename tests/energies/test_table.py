"""A table of energies agrees with any energy that has the same values."""

import pytest
import torch

from ebmtut.checks import InputError
from ebmtut.energies import Ising, TableEnergy
from ebmtut.neighbors import neighbor_log_ratios
from ebmtut.random import make_generator
from ebmtut.states import enumerate_states


def test_a_table_has_the_energies_that_it_was_made_of():
    ising = Ising(torch.randn(4, 4, generator=make_generator(0)))
    x = enumerate_states(4).float()
    with torch.no_grad():
        table = ising(x)
    shuffled = torch.randperm(16, generator=make_generator(1))
    assert torch.equal(TableEnergy(table, 4)(x[shuffled]), table[shuffled])


def test_a_table_has_the_ratios_of_any_energy():
    table = torch.randn(16, generator=make_generator(0))
    energy = TableEnergy(table, 6)
    x = enumerate_states(6).float()
    want = neighbor_log_ratios(lambda y: energy(y), x)
    assert torch.equal(energy.flip_log_ratios(x), want)
    assert not want[:, 4:].any()


def test_a_table_of_another_size_is_refused():
    with pytest.raises(InputError, match=r"^table must have 2\*\*k entries, got 6$"):
        TableEnergy(torch.zeros(6), 3)
    with pytest.raises(InputError, match=r"^n_sites must be .* 3.*got 2$"):
        TableEnergy(torch.zeros(8), 2)
