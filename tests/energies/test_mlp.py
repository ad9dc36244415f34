import torch

from ebmtut.energies import MLPEnergy
from ebmtut.states import enumerate_states


def test_forward_by_hand():
    energy = MLPEnergy(3, hidden=4, n_layers=2).double()
    x = enumerate_states(3)
    first, _, last = energy.net
    h = x @ first.weight.T + first.bias
    want = (h * torch.sigmoid(h)) @ last.weight[0] + last.bias
    assert torch.allclose(energy(x), want)


def test_base_is_a_bernoulli_distribution():
    probs = torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64)
    plain = MLPEnergy(3, hidden=4).double()
    based = MLPEnergy(3, hidden=4, base_probs=probs).double()
    x = enumerate_states(3)
    log_base = torch.where(x == 1, probs, 1 - probs).log().sum(1)
    extra = plain(x) - based(x) - log_base
    # Equal up to the base's constant; logits are stored in single precision.
    assert torch.allclose(extra, extra[:1].expand(8), atol=1e-6)
    assert "base_logits" in based.state_dict()
    assert "base_logits" not in dict(based.named_parameters())


def test_autocast_leaves_the_energy_unrounded():
    energy = MLPEnergy(16, hidden=32, base_probs=torch.full((16,), 1e-3))
    x = torch.zeros(4, 16)
    x[:, :3] = torch.tensor([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]])
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        rough = energy(x)
    assert rough.dtype == torch.float32
    # The base alone adds up to 20.7, of which bfloat16 would keep 8 bits, that
    # is 0.06; only the hidden units, of size below one, may be rounded.
    with torch.no_grad():
        assert (rough - energy(x)).abs().max() < 0.01
