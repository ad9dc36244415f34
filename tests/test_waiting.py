"""No step of an inner loop waits for a GPU: only what stands around the loop does."""

import pytest
import torch

from ebmtut.energies import FourierEnergy, LatticeIsing, MLPEnergy, lattice_coloring
from ebmtut.flows import Flow, OddLatticeNetwork, gibbs_kernel, simulate
from ebmtut.losses import Bernoulli, RecoveryLikelihood, energy_discrepancy_loss
from ebmtut.losses.perturbations import Negatives
from ebmtut.noise import geometric_noise
from ebmtut.paths import AnnealingPath
from ebmtut.random import make_generator
from ebmtut.samplers import ConditionalChain, progressive_samples
from ebmtut.training import TrainConfig, train
from tests.pretended_gpu import pretended_gpu


def rollout(n_steps, device, sweeps=False):
    path = AnnealingPath(LatticeIsing(3, 0.2).to(device))
    network = OddLatticeNetwork(3, width=2, n_hidden=2).to(device)
    refine = gibbs_kernel(path, lattice_coloring(3).to(device)) if sweeps else None
    generator = make_generator(0, device)
    drawn = simulate(
        Flow(path, network), 4, n_steps, refine=refine, generator=generator
    )
    assert drawn.x.device.type == device


def rollout_with_sweeps(n_steps, device):
    rollout(n_steps, device, sweeps=True)


def langevin(n_steps, device, adjusted=True):
    generator = make_generator(0, device)
    energy = FourierEnergy(2, 2, 4, 1, 2, generator=generator)
    noise = geometric_noise(2, 0.5, 2.0)
    start = torch.zeros(3, 2, device=device)
    chain = ConditionalChain(n_steps, adjusted=adjusted)
    progressive_samples(energy, noise, start, chain, generator=generator)


def unadjusted_langevin(n_steps, device):
    langevin(n_steps, device, adjusted=False)


@pytest.mark.parametrize(
    "run", [rollout, rollout_with_sweeps, langevin, unadjusted_langevin]
)
def test_no_step_waits(run):
    waits = []
    for n_steps in (2, 5):
        with pretended_gpu() as (device, waited):
            run(n_steps, device)
            waits.append(list(waited))
    assert waits[0] == waits[1]


def test_a_step_of_training_reads_once_what_became_of_it():
    """And once whether its data are bits; the samples' number is none of it."""

    def loss(energy, x, *, generator):
        return energy_discrepancy_loss(
            energy, x, Bernoulli(0.1), n_negatives=2, generator=generator
        )

    def zeros(n, *, generator):
        return torch.zeros(n, 4, device=generator.device)

    waits = []
    for n_steps in (2, 5):
        with pretended_gpu() as (device, waited):
            generator = make_generator(0, device)
            energy = MLPEnergy(4, 3, 2, generator=generator)
            config = TrainConfig(n_steps, 6, precision="float32")
            train(energy, loss, zeros, config, generator=generator)
            waits.append(list(waited))
    assert len(waits[1]) - len(waits[0]) == 2 * 3


@pytest.mark.parametrize("patient", [False, True])
@pytest.mark.parametrize("n_langevin", [1, 4])
def test_a_step_of_recovery_likelihood_reads_its_gaps_once(patient, n_langevin):
    """The loop reads what became of it; the rest are checks of what was given."""

    def zeros(n, *, generator):
        return torch.zeros(n, 2, device=generator.device)

    noise = geometric_noise(2, 0.5, 2.0)
    waits = []
    for n_steps in (2, 5):
        with pretended_gpu() as (device, waited):
            generator = make_generator(0, device)
            energy = FourierEnergy(2, 2, 4, 1, 2, generator=generator).to(device)
            loss = RecoveryLikelihood(
                noise,
                ConditionalChain(n_langevin, adjusted=False),
                trusted_gap=10.0,
                patient=patient,
            )
            config = TrainConfig(n_steps, 6, precision="float32")
            train(energy, loss, zeros, config, generator=generator)
            waits.append(list(waited))
            assert patient or float(loss.usual_gap) != 0  # which was watched
    given = 4 + 3  # states that are finite, levels that there are
    alive, gaps, loop = 1, 1, 1
    assert len(waits[1]) - len(waits[0]) == 3 * (given + alive + gaps + loop)


@pytest.mark.parametrize("n_backward", [None, 1])
def test_the_loss_of_a_gpu_is_that_of_the_processor(n_backward):
    """Where all samples are evaluated, those that are the data count nothing, too."""
    x = torch.tensor([[0.0, 1, 0], [1, 1, 0], [0, 0, 1], [1, 0, 1]])
    back = x[:, None].repeat(1, 3, 1)
    back[:, 0, 1] = 1 - back[:, 0, 1]  # the others have not moved
    log_weight = torch.arange(12.0).reshape(4, 3) / 10

    class Given:
        def negatives(self, x, n_negatives, *, generator):
            where = x.device
            return Negatives(back.to(where), log_weight.to(where))

    def found(device):
        energy = MLPEnergy(3, 4, 2, generator=make_generator(1)).to(device)
        generator = make_generator(2, device)
        value = energy_discrepancy_loss(
            energy,
            x.to(device),
            Given(),
            n_negatives=3,
            n_backward=n_backward,
            generator=generator,
        )
        value.backward()
        slopes = [p.grad.cpu() for p in energy.parameters()]
        return [value.detach().cpu(), *slopes]

    ours = found("cpu")
    with pretended_gpu() as (device, _):
        theirs = found(device)
    torch.testing.assert_close(theirs, ours)
