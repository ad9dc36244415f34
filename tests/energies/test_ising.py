import pytest
import torch

from ebmtut.checks import InputError
from ebmtut.energies import Energy, Ising
from ebmtut.random import bernoulli, make_generator
from ebmtut.states import bits_to_spins, enumerate_states


def random_tensor(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=make_generator(seed))


def test_energy_by_loops():
    coupling, bias = random_tensor(4, 4), random_tensor(4, seed=1)
    energy = Ising(coupling, bias)
    x = enumerate_states(4)
    for state, got in zip(x, energy(x), strict=True):
        s = [2 * float(b) - 1 for b in state]
        want = -sum(s[i] * float(bias[i]) for i in range(4))
        for i in range(4):
            for j in range(4):
                if i != j:  # the diagonal is dropped
                    want -= s[i] * float(coupling[i, j]) * s[j]
        assert float(got) == pytest.approx(want, abs=1e-12)


def test_each_edge_counts_twice():
    coupling = torch.tensor([[0.0, 0.3], [0.3, 0.0]], dtype=torch.float64)
    energies = Ising(coupling)(enumerate_states(2))
    assert energies.tolist() == pytest.approx([-0.6, 0.6, 0.6, -0.6])


def test_raw_coupling_is_symmetrised_without_diagonal():
    raw = random_tensor(5, 5)
    energy = Ising(raw)
    assert torch.equal(energy.coupling, raw)
    symmetric = energy.symmetric_coupling
    assert torch.equal(symmetric, symmetric.T)
    assert (symmetric.diagonal() == 0).all()
    assert torch.allclose(symmetric.triu(1), ((raw + raw.T) / 2).triu(1))
    # Copied: a later change of the argument changes nothing.
    raw.zero_()
    assert energy.coupling.abs().sum() > 0


def test_no_field_is_a_zero_field():
    coupling = random_tensor(4, 4)
    x = enumerate_states(4)
    without, zero = Ising(coupling), Ising(coupling, torch.zeros(4).double())
    assert torch.equal(without(x), zero(x))
    assert torch.equal(without.flip_log_ratios(x), zero.flip_log_ratios(x))
    # Without a field the distribution is symmetric under a flip of all spins.
    assert torch.allclose(without(x), without(1 - x))


def test_learnable_gradient_is_minus_the_statistics():
    energy = Ising(random_tensor(4, 4), random_tensor(4), learnable=True)
    x = bernoulli(torch.full((6, 4), 0.5).double(), generator=make_generator(2))
    energy(x).sum().backward()
    s = bits_to_spins(x)
    pairs = (s.T @ s).fill_diagonal_(0)
    assert torch.allclose(energy.coupling.grad, -pairs)
    assert torch.allclose(energy.bias.grad, -s.sum(0))


def test_gradcheck():
    energy = Ising(random_tensor(3, 3), random_tensor(3), learnable=True)
    x = enumerate_states(3)[1:5]

    def forward(coupling, bias):
        parameters = {"coupling": coupling, "bias": bias}
        return torch.func.functional_call(energy, parameters, (x,))

    inputs = (energy.coupling, energy.bias)
    assert torch.autograd.gradcheck(forward, inputs)


def test_parameters_ask_for_gradients_only_when_learnable():
    assert not any(p.requires_grad for p in Ising(torch.zeros(2, 2)).parameters())
    learnable = Ising(torch.zeros(2, 2), torch.zeros(2), learnable=True)
    assert [p.requires_grad for p in learnable.parameters()] == [True, True]
    assert isinstance(learnable, Energy)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dtype_follows_the_states(dtype):
    energy = Ising(random_tensor(4, 4), random_tensor(4))
    x = enumerate_states(4, dtype=dtype)
    assert energy(x).dtype == dtype
    assert energy.flip_log_ratios(x).dtype == dtype


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_the_gpu():
    energy = Ising(random_tensor(4, 4), random_tensor(4))
    x = enumerate_states(4)
    on_cpu = energy(x)
    energy = energy.cuda()
    assert torch.allclose(energy(x.cuda()).cpu(), on_cpu)
    assert energy.flip_log_ratios(x.cuda()).device.type == "cuda"


@pytest.mark.parametrize(
    ("coupling", "bias", "message"),
    [
        (torch.zeros(3), None, r"coupling must have shape \(any, any\), got \(3,\)"),
        (torch.zeros(3, 2), None, r"coupling must have shape \(3, 3\), got \(3, 2\)"),
        (torch.full((2, 2), torch.nan), None, "coupling must be finite"),
        (torch.zeros(2, 2), torch.zeros(3), r"bias must have shape \(2,\), got \(3,\)"),
        (torch.zeros(2, 2), torch.full((2,), torch.inf), "bias must be finite"),
        (torch.zeros(2, 2).long(), None, "coupling must be a floating .* torch.int64"),
        (torch.zeros(2, 2), torch.ones(2).int(), "bias must be a floating .*int32"),
    ],
)
def test_bad_input(coupling, bias, message):
    with pytest.raises(InputError, match=message):
        Ising(coupling, bias)


def test_states_of_another_width_are_refused():
    energy = Ising(torch.zeros(3, 3))
    for method in (energy, energy.flip_log_ratios):
        with pytest.raises(
            InputError, match=r"x must have shape \(any, 3\), got \(2, 4"
        ):
            method(torch.zeros(2, 4))
