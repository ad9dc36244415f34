"""A step that is recorded and replayed moves the weights as one that is not."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from ebmtut.checks import DivergenceError, InputError
from ebmtut.data import DENSITIES, DensityData
from ebmtut.deadlines import OutOfTime, deadline
from ebmtut.energies import MLPEnergy
from ebmtut.losses import Bernoulli, Grid, Pool, energy_discrepancy_loss
from ebmtut.random import make_generator
from ebmtut.training import TrainConfig, train_ensemble
from ebmtut.training._cuda_graph import N_EAGER
from tests.pretended_graphs import pretended_graphs

# Rates that float32 holds exactly: a recorded one is a tensor.
CONFIG = TrainConfig(
    n_steps=N_EAGER + 4,
    batch_size=6,
    learning_rate=2**-8,
    decay="constant",
    n_warmup=1,
    ema_decay=0.9,
    precision="float32",
)
PERTURBATIONS = {
    "Bernoulli": Bernoulli(0.1),
    "rare flips": Bernoulli(0.001),
    "Grid": Grid(),
    "Pool": Pool(4),
}


def discrepancy(perturbation, n_backward=None):
    def loss(energy, x, *, generator):
        return energy_discrepancy_loss(
            energy,
            x,
            perturbation,
            n_negatives=4,
            n_backward=n_backward,
            generator=generator,
        )

    return loss


LOSSES = [discrepancy(p, n) for p in PERTURBATIONS.values() for n in (None, 2)]
SAMPLES = [DensityData(name).sample_bits for name in (*DENSITIES, "moons")]


class Breaks:
    """A loss that is infinite from its fifth call on; the GPU counts them."""

    def __init__(self, device):
        self.n_calls = torch.zeros((), device=device)

    def __call__(self, energy, x, *, generator):
        self.n_calls += 1
        return energy(x).mean() / (self.n_calls < 5)


def trained(device, config=CONFIG, losses=LOSSES, samples=SAMPLES, **how):
    """The averaged weights, the losses, and where the generators end."""
    n = len(losses)
    energies = [
        MLPEnergy(32, 8, 3, generator=make_generator(k)).to(device) for k in range(n)
    ]
    generators = [make_generator(10 + k, device) for k in range(n)]
    results = train_ensemble(
        energies, losses, samples[:n], config, generators=generators, **how
    )
    told = [
        str(r)
        if isinstance(r, DivergenceError)
        else [r.losses, *(p.cpu().numpy() for p in r.energy.parameters())]
        for r in results
    ]
    kept = [p.detach().cpu().numpy() for e in energies for p in e.parameters()]
    return told, kept, [g.get_state().numpy() for g in generators]


def test_replayed_steps_are_those_of_the_plain_loop():
    """All densities and perturbations, to the bit; one recording, replayed."""
    with pretended_graphs() as (device, graphs):
        plain = trained(device)
        assert not graphs
        replayed = trained(device, cuda_graph=True)
        (graph,) = graphs
    assert graph.n_replays == CONFIG.n_steps - N_EAGER
    assert graph.tape
    np.testing.assert_equal(replayed, plain)


def test_one_that_breaks_is_left_out_and_the_others_are_recorded_anew():
    """Within the replays: what is recorded keeps the broken one still."""
    with pretended_graphs() as (device, graphs):

        def run(**how):
            losses = [LOSSES[0], Breaks(device), LOSSES[4]]
            config = replace(CONFIG, n_steps=2 * N_EAGER + 5)
            return trained(device, config, losses, **how)

        plain, replayed = run(), run(cuda_graph=True)
        # The fifth step is the second replay.
        assert [graph.n_replays for graph in graphs] == [5 - N_EAGER, 3]
    assert "diverged at step 4: loss -inf" in plain[0][1]
    np.testing.assert_equal(replayed, plain)
    assert all(np.isfinite(p).all() for p in replayed[1])


def test_a_run_goes_on_from_its_file(tmp_path):
    how = {
        "losses": LOSSES[:2],
        "checkpoint": tmp_path / "state.safetensors",
        "identity": {"losses": 2},
        "cuda_graph": True,
    }
    with pretended_graphs() as (device, _):
        whole = trained(device, losses=LOSSES[:2])
        with deadline(0), pytest.raises(OutOfTime, match="stopped after step 0"):
            trained(device, **how)
        np.testing.assert_equal(trained(device, **how), whole)


def assert_close(found, wanted, error):
    """Weights but the last biases, which are constants: only rounding moves them."""
    for one, other in zip(found[1], wanted[1], strict=True):
        assert one.shape == (1,) or abs(one - other).max() < error


def test_the_learning_rate_follows_its_schedule():
    """Up to the rounding of a rate: a replay reads it from a tensor of float32."""
    config = replace(CONFIG, decay="cosine", n_warmup=5, learning_rate=0.01)
    with pretended_graphs() as (device, _):
        plain = trained(device, config, LOSSES[:2])
        replayed = trained(device, config, LOSSES[:2], cuda_graph=True)
    assert_close(replayed, plain, 1e-6)


def test_bad_data_are_named_in_a_replay_too():
    class Data:
        """Bits until the fifth call, then 0.5."""

        def __init__(self, device):
            self.n_calls = torch.zeros((), device=device)

        def __call__(self, n, *, generator):
            self.n_calls += 1
            x = torch.zeros(n, 32, device=generator.device)
            return x + 0.5 * (self.n_calls >= 5)

    with pretended_graphs() as (device, graphs):
        with pytest.raises(InputError, match=r"x must hold only 0 and 1, got 0\.5"):
            trained(device, losses=LOSSES[:1], samples=[Data(device)], cuda_graph=True)
        assert graphs[0].n_replays == 5 - N_EAGER


def reads(energy, x, *, generator):
    return energy(x).mean() * float(x.mean() >= 0)


def copies(energy, x, *, generator):
    return energy(x).mean() * torch.tensor(1.0, device=x.device)


@pytest.mark.parametrize("loss", [reads, copies])
def test_a_loss_that_waits_for_the_gpu_is_refused(loss):
    with pretended_graphs() as (device, graphs):
        trained(device, losses=[loss])
        with pytest.raises(InputError, match="samples and losses that never wait"):
            trained(device, losses=[loss], cuda_graph=True)
        assert not graphs and torch.cuda.get_sync_debug_mode() == "default"


def test_the_processor_is_refused_before_any_work():
    def untouched(n, *, generator):
        raise AssertionError

    with pytest.raises(InputError, match=r"cuda_graph=True needs .* cuda, got cpu"):
        trained("cpu", losses=LOSSES[:1], samples=[untouched], cuda_graph=True)


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_replays_what_it_does_step_by_step():
    """Up to the rounding of sums, whose order a GPU chooses."""
    config = replace(CONFIG, n_steps=30)
    plain = trained("cuda", config)
    replayed = trained("cuda", config, cuda_graph=True)
    assert_close(replayed, plain, 1e-4)
    np.testing.assert_equal(replayed[2], plain[2])  # where the generators stand
