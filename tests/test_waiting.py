"""No step of an inner loop waits for a GPU: only what stands around the loop does."""

from functools import partial

import pytest
import torch

from ebmtut import energies, losses, samplers
from ebmtut.checks import DivergenceError, InputError
from ebmtut.flows import Flow, OddLatticeNetwork, gibbs_kernel, simulate
from ebmtut.losses.perturbations import Negatives
from ebmtut.message_passing import perturb_and_max_product
from ebmtut.noise import geometric_noise
from ebmtut.paths import AnnealingPath
from ebmtut.random import make_generator
from ebmtut.training import TrainConfig, train
from tests.pretended_gpu import pretended_gpu

discrepancy = partial(
    losses.energy_discrepancy_loss, perturbation=losses.Bernoulli(0.1), n_negatives=2
)


def of(value):
    """Data that are this value throughout."""

    def sample(n, *, generator):
        return torch.full((n, 4), value, device=generator.device)

    return sample


def zeros(n, *, generator):
    return torch.zeros(n, 2, device=generator.device)


def rollout(n_steps, device, sweeps=False):
    path = AnnealingPath(energies.LatticeIsing(3, 0.2).to(device))
    network = OddLatticeNetwork(3, width=2, n_hidden=2).to(device)
    refine = (
        gibbs_kernel(path, energies.lattice_coloring(3).to(device)) if sweeps else None
    )
    generator = make_generator(0, device)
    drawn = simulate(
        Flow(path, network), 4, n_steps, refine=refine, generator=generator
    )
    assert drawn.x.device.type == device


def langevin(n_steps, device, adjusted=True):
    generator = make_generator(0, device)
    energy = energies.FourierEnergy(2, 2, 4, 1, 2, generator=generator)
    noise = geometric_noise(2, 0.5, 2.0)
    start = torch.zeros(3, 2, device=device)
    chain = samplers.ConditionalChain(n_steps, adjusted=adjusted)
    samplers.progressive_samples(energy, noise, start, chain, generator=generator)


def glass(device):
    generator = make_generator(0)
    weight = torch.randn(5, 5, generator=generator)
    return energies.BoltzmannMachine(weight, torch.zeros(5)).to(device)


def messages(n_steps, device):
    generator = make_generator(0, device)
    perturb_and_max_product(glass(device), 3, n_steps, generator=generator)


def moves(n_steps, device, sampler):
    start = torch.zeros(3, 5, device=device)
    sampler(glass(device), start, n_steps, generator=make_generator(0, device))


def layers(n_steps, device, method):
    generator = make_generator(0, device)
    model = losses.random_rbm(3, 4, generator=generator)
    losses.draw_rbm(method, model, 2, (n_steps,), generator=generator)


RUNS = {
    "rollout": rollout,
    "rollout with sweeps": partial(rollout, sweeps=True),
    "langevin": langevin,
    "unadjusted langevin": partial(langevin, adjusted=False),
    "messages": messages,
    "visits": partial(moves, sampler=samplers.boltzmann_gibbs),
    "informed moves": partial(moves, sampler=samplers.boltzmann_gwg),
    "layers": partial(layers, method="Gibbs-reset"),
    "descent": partial(layers, method="coordinate descent"),
}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_no_step_waits(run):
    waits = []
    for n_steps in (2, 5):
        with pretended_gpu() as (device, waited):
            run(n_steps, device)
            waits.append(list(waited))
    assert waits[0] == waits[1]


def test_a_step_of_training_reads_once_what_became_of_it():
    """With it, whether its data are bits; the samples' number is none of it."""
    waits = []
    for n_steps in (2, 5):
        with pretended_gpu() as (device, waited):
            generator = make_generator(0, device)
            energy = energies.MLPEnergy(4, 3, 2, generator=generator)
            config = TrainConfig(n_steps, 6, precision="float32")
            train(energy, discrepancy, of(0.0), config, generator=generator)
            waits.append(list(waited))
    assert len(waits[1]) - len(waits[0]) == 3


def raising(energy, x, *, generator):
    value = discrepancy(energy, x, generator=generator)
    raise DivergenceError(f"lost at {value}", step=-1)


@pytest.mark.parametrize("loss", [discrepancy, raising])
@pytest.mark.parametrize("bad", [0.5, float("nan")])
def test_data_that_are_no_bits_are_named_before_they_do_harm(loss, bad, tmp_path):
    """Also where they make a loss that is not finite, or none at all."""
    with pretended_gpu() as (device, _):
        energy = energies.MLPEnergy(4, 3, 2, generator=make_generator(0, device))
        before = [p.detach().clone() for p in energy.parameters()]
        message = f"x must hold only 0 and 1, got {bad:g}"
        with pytest.raises(InputError, match=message):
            kept = {"checkpoint": tmp_path / "state.safetensors", "checkpoint_every": 1}
            kept |= {"identity": {"data": bad}, "generator": make_generator(0, device)}
            config = TrainConfig(5, 6, precision="float32")
            train(energy, loss, of(bad), config, **kept)
        after = [p.detach() for p in energy.parameters()]
        assert all(map(torch.equal, before, after))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("patient", [False, True])
@pytest.mark.parametrize("n_langevin", [1, 4])
def test_a_step_of_recovery_likelihood_reads_its_gaps_once(patient, n_langevin):
    """The loop reads what became of it, and whether its states are finite."""
    noise = geometric_noise(2, 0.5, 2.0)
    waits = []
    for n_steps in (2, 5):
        with pretended_gpu() as (device, waited):
            generator = make_generator(0, device)
            energy = energies.FourierEnergy(2, 2, 4, 1, 2, generator=generator).to(
                device
            )
            loss = losses.RecoveryLikelihood(
                noise,
                samplers.ConditionalChain(n_langevin, adjusted=False),
                trusted_gap=10.0,
                patient=patient,
            )
            config = TrainConfig(n_steps, 6, precision="float32")
            train(energy, loss, zeros, config, generator=generator)
            waits.append(list(waited))
            assert patient or float(loss.usual_gap) != 0  # which was watched
    alive, gaps, loop = 1, 1, 1
    assert len(waits[1]) - len(waits[0]) == 3 * (alive + gaps + loop)


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
        energy = energies.MLPEnergy(3, 4, 2, generator=make_generator(1)).to(device)
        generator = make_generator(2, device)
        value = losses.energy_discrepancy_loss(
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
