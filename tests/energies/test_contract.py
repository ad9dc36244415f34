"""What every energy refuses: states that it would read wrongly or not at all."""

import copy

import pytest
import torch

from ebmtut import energies
from ebmtut.checks import InputError
from ebmtut.exact import exact_probabilities
from ebmtut.states import enumerate_states

N_SITES = 9
SQUARE = torch.full((N_SITES, N_SITES), 0.3)
LINE = torch.full((N_SITES,), 0.1)
RING = torch.stack([torch.arange(N_SITES), (torch.arange(N_SITES) + 1) % N_SITES])
GRAPH = energies.GraphBatch.from_edges([(N_SITES, RING.T.tolist())])

ENERGIES = {
    "Ising": energies.Ising(SQUARE),
    "LatticeIsing": energies.LatticeIsing(3, 0.2),
    "BoltzmannMachine": energies.BoltzmannMachine(SQUARE, LINE),
    "PairwiseGraph": energies.PairwiseGraph(RING, LINE, LINE),
    "MaxCut": energies.MaxCut(GRAPH),
    "MaxIndependentSet": energies.MaxIndependentSet(GRAPH),
    "RBM": energies.RBM(SQUARE[:4], LINE[:4], LINE),
    "MLPEnergy": energies.MLPEnergy(N_SITES, 8, 2),
    "TableEnergy": energies.TableEnergy(torch.zeros(8), N_SITES),
}
METHODS = {
    f"{name}.{method}": getattr(energy, method)
    for name, energy in ENERGIES.items()
    for method in ("forward", "flip_log_ratios", "hidden_logits")
    if hasattr(energy, method)
}
every_method = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)


@every_method
@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool])
def test_integer_bits_are_refused(method, dtype):
    """Couplings of 0.3 would become integers, 0, or -1 would wrap to 255."""
    with pytest.raises(InputError, match=rf"^[xv] must be a floating .*{dtype}$"):
        method(torch.ones(2, N_SITES, dtype=dtype))


@every_method
@pytest.mark.parametrize("shape", [(2, N_SITES + 1), (2, 2 * N_SITES), (N_SITES,)])
def test_states_of_another_shape_are_refused(method, shape):
    with pytest.raises(InputError, match=rf"^[xv] must have shape \(any, {N_SITES}\)"):
        method(torch.ones(shape))


def test_hidden_units_of_another_kind_are_refused():
    rbm = ENERGIES["RBM"]
    with pytest.raises(InputError, match=r"^h must have shape \(any, 4\), got \(2, 5"):
        rbm.visible_logits(torch.ones(2, 5))
    with pytest.raises(InputError, match=r"^h must be a floating"):
        rbm.visible_logits(torch.ones(2, 4).int())


def test_a_network_names_the_dtype_that_it_wants():
    """Both defaults go together; another dtype is refused with the way out."""
    energy = ENERGIES["MLPEnergy"]
    message = r"x must have the dtype of the weights, torch.float32, got torch.float64"
    with pytest.raises(InputError, match=message) as error:
        exact_probabilities(energy, N_SITES, dtype=torch.float64)
    assert "\n" not in str(error.value)
    single = exact_probabilities(energy, N_SITES)
    double = exact_probabilities(
        energies.MLPEnergy(N_SITES, 8, 2).to(torch.float64), N_SITES
    )
    # Energies of order one carry 24 bits.
    assert torch.allclose(single, double, atol=1e-5)


@pytest.mark.cuda
@pytest.mark.parametrize("method", METHODS)
def test_on_the_gpu(method):
    name, method = method.split(".")
    energy = copy.deepcopy(ENERGIES[name]).double()
    x = enumerate_states(N_SITES)
    want = getattr(energy, method)(x)
    got = getattr(energy.cuda(), method)(x.cuda())
    assert got.device.type == "cuda"
    torch.testing.assert_close(got.cpu(), want)
