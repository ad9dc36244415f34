"""What the samplers refuse beyond the ranges that their signatures declare."""

import copy

import torch

from ebmtut import energies
from ebmtut.random import make_generator
from ebmtut.samplers import (
    ConditionalChain,
    adapt_step_size,
    block_gibbs,
    boltzmann_gibbs,
    boltzmann_gwg,
    color_gibbs,
    deconvolution_gibbs,
    denoised,
    dmala,
    draw_samples,
    hmc,
    inpaint,
    ising_gibbs,
    langevin,
    progressive_samples,
    repair_independent_set,
)
from tests.samplers.gaussian_chain import CHAIN, NOISE, energy, white
from tests.shared import refusals

G = make_generator(0)
LATTICE, X = energies.LatticeIsing(3, 0.1), torch.zeros(2, 9)
GRAPH = energies.PairwiseGraph(torch.tensor([[0], [1]]), torch.ones(1), torch.zeros(2))
PATH = energies.GraphBatch.from_edges([(2, [(0, 1)])])


MACHINE = energies.BoltzmannMachine(torch.ones(9, 9), torch.zeros(9))
ISING, NAN = energies.Ising(torch.ones(9, 9)), r"\w+ of the model must be finite, got"
LAYERS = energies.RBM(torch.ones(2, 9), torch.zeros(2), torch.zeros(9))


def broken(model):
    model = copy.deepcopy(model)
    next(v for v in model.state_dict().values() if v.is_floating_point())[0] = torch.nan
    return model


def colored(colors):
    return color_gibbs(LATTICE, colors).init(X)


def adapted():
    def make(step_size):
        return hmc(lambda x: x.sum(1) * 0, step_size)

    adapt_step_size(make, X, 0.1, generator=G, n_rounds=3)


def inpainted(mask):
    inpaint(energy, NOISE, white(3), mask, CHAIN, generator=G)


def deconvolved(locations, features):
    images = torch.zeros(1, 1, 4)
    deconvolution_gibbs(images, locations, features, 1, generator=G)


CASES = {
    "step": (lambda: dmala(LATTICE, -0.1), "step_size .*-0.1"),
    "steps": (lambda: langevin(energy, torch.tensor([0.1, 0.0])), "step_size must be"),
    "no step": (adapted, "n_rounds must be larger: after 3 .*1.00"),
    "colour count": (lambda: colored(torch.arange(8)), "colors .*shape.*9"),
    "two colours on an odd side": (
        lambda: colored(torch.arange(9) % 2),
        r"colors .*interact.*\[0, 2, 4, 6, 8\]",
    ),
    "fast sites": (lambda: ising_gibbs(LATTICE, X[:, :4], 1, generator=G), "x .*9.*4"),
    "fast energy": (
        lambda: ising_gibbs(energies.MLPEnergy(9), X, 1, generator=G),
        "energy .*Ising.*MLPEnergy",
    ),
    "a graph is sent to its own sampler": (
        lambda: ising_gibbs(GRAPH, X[:, :2], 1, generator=G),
        "energy must be Ising or LatticeIsing, got PairwiseGraph: use boltzmann",
    ),
    "machine": (
        lambda: boltzmann_gwg(energies.Ising(torch.zeros(9, 9)), X, 1, generator=G),
        "model must be BoltzmannMachine",
    ),
    "noisy starts": (
        lambda: ConditionalChain(start="noisy", n_starts=2),
        "n_starts must be 1 with start='noisy', got 2",
    ),
    "tested averages": (lambda: ConditionalChain(averaged=True), "averaged must be"),
    "levels": (lambda: ConditionalChain(1, (0.1,)).step_sizes(NOISE), "step_size must"),
    "nothing seen": (
        lambda: progressive_samples(
            energy, NOISE, white(3), ConditionalChain(0), generator=G
        ),
        "n_steps must be >= 1",
    ),
    "mask": (lambda: inpainted(X), r"free must have shape \(3, 2\), got \(2, 9\)"),
    "features": (
        lambda: deconvolved(torch.zeros(1, 1, 1, 3), torch.full((1, 1, 2), 0.5)),
        ".*W must hold",
    ),
    "sites": (lambda: draw_samples(LATTICE, 2, generator=G, n_sites=8), "n_sites must"),
    "sites of a function": (
        lambda: draw_samples(lambda x: x.sum(1), 2, generator=G),
        "n_sites must be given",
    ),
    "rows": (lambda: draw_samples(LATTICE, 3, generator=G, start=X), "start must have"),
    "broken machine": (lambda: boltzmann_gwg(broken(MACHINE), X, 1, generator=G), NAN),
    "broken graph": (lambda: boltzmann_gibbs(broken(GRAPH), X, 1, generator=G), NAN),
    "broken Ising": (lambda: ising_gibbs(broken(ISING), X, 1, generator=G), NAN),
    "broken layers": (lambda: block_gibbs(broken(LAYERS), X, 1, generator=G), NAN),
    "slope": (
        lambda: denoised(
            lambda x, level: energy(x, level) * torch.nan, NOISE, white(3)
        ),
        "the gradient of energy",
    ),
    "set": (lambda: repair_independent_set(PATH, X[:, :2] + 2), "x must hold only 0"),
}


test_refusals = refusals(CASES)
