import math

import pytest
import torch

from ebmtut.energies import Ising, MLPEnergy
from ebmtut.exact import exact_log_partition, exact_mean, exact_probabilities
from ebmtut.random import make_generator
from ebmtut.states import bits_to_spins, enumerate_states, states_to_index


def random_ising(n_sites, learnable=False):
    generator = make_generator(0)
    coupling = torch.randn(n_sites, n_sites, dtype=torch.float64, generator=generator)
    bias = torch.randn(n_sites, dtype=torch.float64, generator=generator)
    return Ising(coupling, bias, learnable=learnable)


def test_independent_spins():
    bias = torch.tensor([0.3, -1.2, 2.0], dtype=torch.float64)
    energy = Ising(torch.zeros(3, 3).double(), bias)
    log_z = exact_log_partition(energy, 3)
    assert float(log_z) == pytest.approx(float(torch.log(2 * bias.cosh()).sum()))
    log_p = exact_probabilities(energy, 3)
    p_up = torch.sigmoid(2 * bias)
    x = enumerate_states(3)
    want = torch.where(x == 1, p_up, 1 - p_up).prod(1)
    assert torch.allclose(log_p.exp(), want)
    assert torch.allclose(exact_mean(energy, lambda x: x), p_up)


def test_probabilities_sum_to_one_in_any_scale():
    energy = random_ising(5)
    # A shift of 10**4 would overflow outside the log domain.
    log_p = exact_probabilities(lambda x: energy(x) - 1e4, 5)
    assert float(log_p.exp().sum()) == pytest.approx(1.0, abs=1e-12)
    assert torch.allclose(log_p, exact_probabilities(energy, 5), atol=1e-10)


def test_log_partition_streams():
    # 2**15 states are more than one block.
    table = torch.randn(2**15, dtype=torch.float64, generator=make_generator(1))
    sizes = []

    def energy(x):
        sizes.append(len(x))
        return table[states_to_index(x)]

    want = torch.logsumexp(-table, 0)
    assert torch.allclose(exact_log_partition(energy, 15), want)
    assert sum(sizes) == 2**15 and len(sizes) > 1


def test_mean_streams_and_keeps_shape():
    energy = Ising(torch.zeros(15, 15).double(), torch.full((15,), 0.4).double())

    def pairs(x):
        s = bits_to_spins(x)
        return s[:, :2, None] * s[:, None, :2]

    m = math.tanh(0.4)
    want = torch.tensor([[1.0, m * m], [m * m, 1.0]], dtype=torch.float64)
    assert torch.allclose(exact_mean(energy, pairs), want)


def test_gradient_of_log_partition_is_the_mean_statistic():
    energy = random_ising(4, learnable=True)
    exact_log_partition(energy, 4).backward()
    with torch.no_grad():
        mean = exact_mean(energy, bits_to_spins)
    assert torch.allclose(energy.bias.grad, mean)
    assert torch.autograd.gradcheck(
        lambda b: exact_log_partition(lambda x: -(x @ b).exp(), 3),
        torch.tensor([0.1, -0.4, 0.3], dtype=torch.float64, requires_grad=True),
    )


def test_networks_in_their_own_dtype():
    energy = MLPEnergy(4, hidden=8)
    with torch.no_grad():
        single = exact_log_partition(energy, 4, dtype=torch.float32)
        double = exact_log_partition(energy.double(), 4)
    assert single.dtype == torch.float64
    assert float(single) == pytest.approx(float(double), abs=1e-5)


def test_sites_of_a_plain_function():
    mean = exact_mean(lambda x: 0 * x.sum(1), lambda x: x.sum(1), n_sites=3)
    assert float(mean) == pytest.approx(1.5)


@pytest.mark.cuda
def test_on_the_gpu():
    energy = random_ising(5)
    on_cpu = exact_probabilities(energy, 5)
    on_gpu = exact_probabilities(energy.cuda(), 5, device="cuda")
    assert torch.allclose(on_gpu.cpu(), on_cpu)
