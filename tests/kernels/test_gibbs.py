"""Counter-based random numbers: samples of plain torch with them, and the kernels."""

import pytest
import torch

from ebmtut.energies import LatticeIsing, PairwiseGraph, lattice_coloring
from ebmtut.kernels import graph_classes as classes
from ebmtut.kernels import lattice_words as lattice
from ebmtut.kernels.philox import philox
from ebmtut.random import make_generator
from ebmtut.samplers import boltzmann_gibbs, ising_gibbs
from ebmtut.states import enumerate_states
from tests.samplers.systems import distribution_p, swept_distribution

CPU = torch.device("cpu")


def random_bits(n_chains, n_sites, seed=0):
    return (torch.rand(n_chains, n_sites, generator=make_generator(seed)) < 0.5).float()


def uneven_graph(n=9):
    """Unlike degrees, couplings and fields; one site alone."""
    generator = make_generator(3)
    first, second = torch.triu_indices(n - 1, n - 1, 1)
    there = torch.rand(len(first), generator=generator) < 0.4
    edges = torch.stack([first, second])[:, there]
    weight = torch.randn(edges.shape[1], generator=generator)
    return PairwiseGraph(edges, weight, torch.randn(n, generator=generator))


@pytest.mark.parametrize(
    ("counters", "key", "n_rounds", "want"),
    [
        ((0,) * 4, 0, 7, "5f6fb709 0d893f64 4f121f81 4f730a48"),
        ((0,) * 4, 0, 10, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ((2**32 - 1,) * 4, 2**64 - 1, 10, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            0x299F31D0A4093822,
            10,
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_philox_matches_published_values(counters, key, n_rounds, want):
    """The known answers that its authors ship (Random123)."""
    words = philox(key, tuple(torch.tensor([c]) for c in counters), n_rounds)
    assert " ".join(f"{int(word):08x}" for word in words) == want


@pytest.mark.parametrize(("side", "n_chains"), [(3, 2), (6, 2), (64, 1), (128, 2)])
def test_every_site_is_redrawn_once_a_sweep_and_sees_its_neighbors(side, n_chains):
    """P(1) = 1 with all four neighbours set, else 0: one sweep as rolls do."""
    bits = random_bits(n_chains, side * side).logical_or(random_bits(1, side * side, 1))
    plan = lattice.plan_for(side, n_chains, CPU)
    certain = torch.zeros(48, 5, dtype=torch.int32)
    certain[:, 4] = 1
    words = lattice.pack(bits.float(), side, plan)
    words = lattice.plain_word_sweeps(words, plan, certain, 0, 1)
    grid = bits.reshape(n_chains, side, side)
    colors = lattice_coloring(side).reshape(side, side)
    for color in range(int(colors.max()) + 1):
        rolls = [grid.roll(step, dim) for dim in (1, 2) for step in (-1, 1)]
        grid = torch.where(colors == color, torch.stack(rolls).all(0), grid)
    swept = lattice.unpack(words, side, n_chains, plan)
    assert torch.equal(swept.reshape(n_chains, side, side).bool(), grid)


@pytest.mark.parametrize("n_sweeps", [1, 2])
def test_packed_lattices_have_the_exact_distribution(n_sweeps):
    """All 512 states of a lattice of three colours, after one sweep and after two."""
    energy, n_chains = LatticeIsing(3, 0.15, 0.2), 50_000
    start = torch.tensor([1.0, 0, 0, 1, 1, 0, 0, 1, 0], dtype=torch.float64)
    order = torch.argsort(lattice_coloring(3), stable=True)
    distribution = swept_distribution(energy, start, order.repeat(n_sweeps))
    plan = lattice.plan_for(3, n_chains, CPU)
    words = lattice.pack(start.repeat(n_chains, 1), 3, plan)
    digits = lattice.digits_of(energy.sigma, energy.bias, CPU)
    words = lattice.plain_word_sweeps(words, plan, digits, 5, n_sweeps)
    x = lattice.unpack(words, 3, n_chains, plan).double()
    assert distribution_p(x, distribution) > 1e-4


@pytest.mark.parametrize("n_sweeps", [1, 2])
def test_graphs_have_the_exact_distribution(n_sweeps):
    graph, n_chains = uneven_graph(), 50_000
    start = (torch.arange(9) % 3 == 0).double()
    order = torch.argsort(graph.coloring(), stable=True)
    distribution = swept_distribution(graph.double(), start, order.repeat(n_sweeps))
    plan = classes.classes_of(graph, CPU)
    states = start[plan.order].to(torch.int8)[:, None].repeat(1, n_chains)
    states = classes.plain_class_sweeps(states, plan, 7, n_sweeps)
    x = torch.empty(n_chains, 9, dtype=torch.float64)
    x[:, plan.order] = states.T.double()
    assert distribution_p(x, distribution) > 1e-4


def test_words_that_settle_together_are_independent(monkeypatch):
    """Four words of unlike probabilities that share all of their coins."""
    monkeypatch.setattr(lattice, "OWN_CALLS", 0)
    plan = lattice.plan_for(3, 1, CPU)._replace(n_pooled=4)
    digits = lattice.digits_of(0.15, 0.2, CPU).long()
    # Words of a block: 32 without a neighbour that is 1, 32 with one, and so on.
    n_up = torch.arange(128) // 32
    at_least = [torch.where(n_up >= k, 2**32 - 1, 0) for k in (1, 2, 3, 4)]
    at_least = [words.expand(60, -1) for words in at_least]
    words = lattice._redrawn(at_least, 0, plan, digits, 11, 0)
    lanes = words.view(60, 4, 32, 1) >> torch.arange(32) & 1
    chance = torch.sigmoid(4 * 0.15 * (2 * torch.arange(4.0).double() - 4) + 0.4)
    states = enumerate_states(4).double()
    distribution = (states * chance + (1 - states) * (1 - chance)).prod(1)
    x = lanes.permute(0, 2, 3, 1).reshape(-1, 4).double()
    assert distribution_p(x, distribution) > 1e-4


# Of each word's own, and how many words share what comes after.
COINS = [(2, 1), (2, 4), (0, 4)]


@pytest.mark.parametrize(
    ("side", "n_chains", "own_calls", "n_pooled"),
    [(3, 33, *coins) for coins in COINS] + [(18, 2, *COINS[1]), (64, 1, *COINS[2])],
)
def test_the_lattice_kernel_draws_what_plain_torch_draws(
    side, n_chains, own_calls, n_pooled, device, monkeypatch
):
    """Where one program does all sweeps, and where each class is a launch.

    A program has more than one block to do where words are many.
    """
    from ebmtut.kernels import gibbs_triton as kernels

    for module in (lattice, kernels):
        monkeypatch.setattr(module, "OWN_CALLS", own_calls)
    monkeypatch.setattr(kernels, "_MOST", 1)
    plan = lattice.plan_for(side, n_chains, device)._replace(n_pooled=n_pooled)
    bits = random_bits(n_chains, side * side).to(device)
    words = lattice.pack(bits, side, plan)
    digits = lattice.digits_of(0.2, 0.1, device)
    seed = 2**62 + 12345
    want = lattice.plain_word_sweeps(words, plan, digits, seed, 2)
    assert not torch.equal(want, words)
    kernels.word_sweeps(words, plan, digits, seed, 2)
    assert torch.equal(words, want)


@pytest.mark.usefixtures("any_order")
def test_a_clock_on_the_device_counts_steps(device, monkeypatch):
    """Five sweeps are two, twice, and one; on a GPU twenty pairs are replayed."""
    from ebmtut.kernels import gibbs_triton as kernels

    monkeypatch.setattr(kernels, "_SWEEPS", 2)
    n_sweeps = 41 if device.type == "cuda" else 5
    plan = lattice.plan_for(3, 2, device)._replace(n_pooled=2)
    words = lattice.pack(random_bits(2, 9).to(device), 3, plan)
    digits = lattice.digits_of(0.2, 0.1, device)
    want = lattice.plain_word_sweeps(words, plan, digits, 2**62 + 5, n_sweeps)
    kernels.word_sweeps(words, plan, digits, 2**62 + 5, n_sweeps)
    assert torch.equal(words, want)
    monkeypatch.setattr(kernels, "_SMALL", 0)
    plan = classes.classes_of(uneven_graph(), device)
    states = random_bits(6, 9).to(device).T.to(torch.int8).contiguous()
    want = classes.plain_class_sweeps(states, plan, 2**62 + 5, n_sweeps)
    kernels.class_sweeps(states, plan, 2**62 + 5, n_sweeps)
    assert torch.equal(states, want)


@pytest.mark.parametrize(("small", "n_chains"), [(0, 70), (4096, 10)])
def test_the_graph_kernel_draws_what_plain_torch_draws(
    small, n_chains, device, monkeypatch
):
    """To the last bit; a uniform number within 1e-7 of its probability would show.

    Each program has 64 chains or four, of which the last has fewer.
    """
    from ebmtut.kernels import gibbs_triton as kernels

    monkeypatch.setattr(kernels, "_SMALL", small)
    plan = classes.classes_of(uneven_graph(), device)
    states = random_bits(n_chains, 9).to(device).T.to(torch.int8).contiguous()
    want = classes.plain_class_sweeps(states, plan, 2**62 + 5, 2)
    assert not torch.equal(want, states)
    kernels.class_sweeps(states, plan, 2**62 + 5, 2)
    assert torch.equal(states, want)


def star(n, weight=1.0):
    """One site joined to all others, which are joined to nothing else."""
    edges = torch.stack([torch.zeros(n - 1).long(), torch.arange(1, n)])
    return PairwiseGraph(edges, torch.full((n - 1,), weight), torch.zeros(n))


def test_a_hub_takes_no_more_memory_than_its_edges(device):
    """Filled up to the longest list, those of 5000 sites would hold 25 million."""
    plan = classes.classes_of(star(5000), device)
    assert len(plan.neighbor) == len(plan.weight) == 2 * 4999
    starts = plan.start.cpu().diff()
    for begin, end in zip(plan.first, plan.first[1:], strict=False):
        assert (starts[begin:end].diff() >= 0).all()


def test_the_kernel_draws_a_star_as_plain_torch_does(device, monkeypatch):
    from ebmtut.kernels import gibbs_triton as kernels

    monkeypatch.setattr(kernels, "_SMALL", 0)
    plan = classes.classes_of(star(40, 0.1), device)
    states = random_bits(9, 40).to(device).T.to(torch.int8).contiguous()
    want = classes.plain_class_sweeps(states, plan, 5, 2)
    kernels.class_sweeps(states, plan, 5, 2)
    assert torch.equal(states, want)


def test_the_plan_of_a_graph_is_made_once(monkeypatch):
    """And anew for other edges; weights and biases are those of the call."""
    graph = uneven_graph()
    made, layout = [], classes._layout

    def noted(*arguments):
        made.append(arguments)
        return layout(*arguments)

    monkeypatch.setattr(classes, "_layout", noted)
    plans = [classes.classes_of(graph, CPU)]
    with torch.no_grad():
        graph.weight.mul_(2)
        graph.bias.sub_(1)
    plans.append(classes.classes_of(graph, CPU))
    assert len(made) == 1 and plans[0].order is plans[1].order
    assert torch.equal(plans[1].weight, 2 * plans[0].weight)
    assert torch.equal(plans[1].bias, plans[0].bias - 1)
    other = uneven_graph()
    other.edges.copy_(8 - graph.edges.flip(0))
    graph.load_state_dict(other.state_dict())
    changed, fresh = (classes.classes_of(g, CPU) for g in (graph, other))
    assert len(made) == 3 and torch.equal(changed.neighbor, fresh.neighbor)
    with torch.inference_mode():  # whose tensors do not tell whether they changed
        for _ in range(2):
            classes.classes_of(uneven_graph(), CPU)
    assert len(made) == 5


def test_public_doors_lead_to_the_kernels(device, by_kernel):
    """The same seed twice; a chain that goes on from where another's sweeps ended."""
    by_kernel("ebmtut.kernels.gibbs")
    for run, model in (
        (ising_gibbs, LatticeIsing(4, 0.1)),
        (boltzmann_gibbs, uneven_graph()),
    ):
        x = random_bits(5, model.n_sites).to(device)
        runs = [
            run(model.to(device), x, 1, generator=make_generator(s, device))
            for s in (0, 0, 1)
        ]
        assert torch.equal(runs[0], runs[1]) and not torch.equal(runs[0], runs[2])
        assert runs[0].dtype == x.dtype and ((runs[0] == 0) | (runs[0] == 1)).all()
        still = run(model, x, 0, generator=make_generator(0, device))
        assert torch.equal(still, x)
