"""Losses of energies and couplings against slow formulas, enumeration and theory."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ebmtut.energies import Ising
from ebmtut.exact import (
    contrastive_potential,
    exact_energy_discrepancy,
    grid_channel,
    pooling_channel,
)
from ebmtut.kernels.coupling_flips import find_flips
from ebmtut.losses import (
    Bernoulli,
    Grid,
    Negatives,
    Pool,
    coupling_discrepancy_losses,
    energy_discrepancy_loss,
)
from ebmtut.losses.coupling_discrepancy import _differences, _moments
from ebmtut.random import make_generator
from ebmtut.states import bits_to_spins, enumerate_states, states_to_index
from tests.losses.test_perturbations import CASES, DIRECTED, bits
from tests.shared import normal

OURS = {k: CASES[k] for k in ("bernoulli", "grid", "pool", "pool-whole", "directed")}
OURS["grid-exact"] = Grid(exact=True), grid_channel(4), 4
every_case = pytest.mark.parametrize(
    ("perturbation", "log_q", "n_sites"), OURS.values(), ids=OURS
)


class Fixed:
    """Hands out given negatives, so that a test can list them."""

    def __init__(self, x, log_weight=None):
        self.given = Negatives(x, log_weight)

    def negatives(self, x, n_negatives, *, generator):
        return self.given


def table(values):
    """Any energy at all: one number a state."""
    return lambda x: values[states_to_index(x)]


def loss_of(values, perturbation, x, seed=0, **arguments):
    return energy_discrepancy_loss(
        table(values), x, perturbation, generator=make_generator(seed), **arguments
    )


def gradient_of(values, perturbation, x, seed=0, **arguments):
    values = values.clone().requires_grad_()
    loss = loss_of(values, perturbation, x, seed, **arguments)
    return torch.autograd.grad(loss, values)[0]


# Eq. 2


def slow_loss(u, x, negatives, w, m, log_weight=None):
    """Eq. 2 by loops, the ratio w / m kept where there are other negatives."""
    total = 0.0
    for i in range(len(x)):
        terms = [
            math.exp(
                float(u[states_to_index(x[i : i + 1])[0]])
                - float(u[states_to_index(negatives[i, j : j + 1])[0]])
                + (0.0 if log_weight is None else float(log_weight[i, j]))
            )
            for j in range(negatives.shape[1])
        ]
        total += math.log(w / m + sum(terms) / len(terms))
    return total / len(x)


@pytest.mark.parametrize("w", [0.0, 0.5, 1.0, 7.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_value_is_equation_2(w, weighted):
    u, x, negatives = normal(8), bits(6, 3), bits(6, 5, 3, seed=1)
    log_weight = normal(6, 5, seed=2) if weighted else None
    got = loss_of(u, Fixed(negatives, log_weight), x, n_negatives=5, stabilizer=w)
    want = slow_loss(u, x, negatives, w, 5, log_weight)
    assert float(got) == pytest.approx(want, abs=1e-12)


def test_exact_sums_keep_the_ratio_of_stabiliser_to_negatives():
    """Grid returns 3 neighbours where 32 were asked for: still w / 32."""
    u, x = normal(8), bits(6, 3)
    negatives = Grid().negatives(x, 32, generator=make_generator(0)).x
    want = slow_loss(u, x, negatives, 1.0, 32)
    assert float(loss_of(u, Grid(), x)) == pytest.approx(want, abs=1e-12)


@given(
    seed=st.integers(0, 1000),
    constant=st.floats(-1000, 1000),
    w=st.sampled_from([0.0, 1.0]),
    n_backward=st.sampled_from([None, 2]),
)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_a_constant_changes_nothing(seed, constant, w, n_backward):
    """Rounding of U + c to 53 bits leaves 1000 * 2**-52 * 2 an energy."""
    u, x = normal(16, seed=seed), bits(5, 4, seed=seed)
    arguments = {"stabilizer": w, "n_negatives": 6, "n_backward": n_backward}
    one = loss_of(u, Bernoulli(0.2), x, seed, **arguments)
    other = loss_of(u + constant, Bernoulli(0.2), x, seed, **arguments)
    assert float(other) == pytest.approx(float(one), abs=1e-12)


# Energy discrepancy by summation


def moments(u, log_q):
    """Given y: mean and mean square of v = weight exp(-U(x')), and of v 1[z].

    Weighted where the channel's columns do not sum to a constant and its
    negatives are uniform, which is the directed graph alone.
    """
    if len(u) == 4:
        support = log_q.isfinite().double()
        back = (support / support.sum(0)).T
        v = (support.sum(0)[:, None] * log_q.exp().T) * (-u).exp()
        v = torch.where(back > 0, v, 0)
    else:
        q = log_q.exp()
        q = q[:, q.sum(0) > 0]
        back, v = (q / q.sum(0)).T, (-u).exp()
    first, second = back * v, back * v**2
    return first, second


@every_case
def test_many_negatives_converge_to_energy_discrepancy(perturbation, log_q, n_sites):
    """Theorem 2, with the constant that a channel adds.

    Negatives are drawn from q(y|x') / c(y) with c(y) = sum_x' q(y|x'), so the
    loss estimates -log(sum_x' q(y|x') exp(-U(x')) / c(y)) instead of U_q(y):
    it lies E[log c(y)] below energy discrepancy. c is 1 for symmetric
    channels, the number of arrangements for pooling, and the weights take it
    in on a directed graph. At finite M the logarithm adds, to leading order,
    -E[Var(v|y) / E(v|y)^2] / 2M.
    """
    n, m = 3000, 400
    u = normal(2**n_sites, seed=1)
    log_p = torch.log_softmax(normal(2**n_sites, seed=2), 0)
    log_q = log_q[:, log_q.isfinite().any(0)]
    joint = (log_p[:, None] + log_q).exp()  # of (x, y)
    p_y = joint.sum(0)

    offset = p_y @ log_q.logsumexp(0)
    if perturbation is DIRECTED:
        offset = torch.zeros(())
    first, second = (f.sum(1) for f in moments(u, log_q))
    bias = -(p_y @ (second / first**2 - 1)) / (2 * m)
    if perturbation == Grid(exact=True):
        bias = torch.zeros(())
    exact = exact_energy_discrepancy(u, log_p, log_q)
    target = float(exact - offset + bias)

    # Variance of U(x) - U_q(y) + log c(y) over (x, y); the negatives add 1/M
    # of the variance of v / E(v|y).
    score = u[:, None] - contrastive_potential(u, log_q)
    if perturbation is not DIRECTED:
        score = score - log_q.logsumexp(0)
    mean = (joint * score).sum()
    variance = (joint * (score - mean) ** 2).sum() + 2 * abs(bias)
    error = math.sqrt(float(variance) / n)

    index = log_p.exp().multinomial(n, True, generator=make_generator(5))
    x = enumerate_states(n_sites)[index]
    got = loss_of(u, perturbation, x, n_negatives=m, stabilizer=0.0)
    assert abs(float(got) - target) < 5 * error + abs(float(bias))
    assert error < 0.05  # the tolerance can fail


def test_the_constant_of_pooling_counts_arrangements():
    """U = 0: exact energy discrepancy is E[log prod_b C(2, n_b)], not 0."""
    log_p = torch.log_softmax(normal(16, seed=2), 0)
    n_b = enumerate_states(4).view(16, 2, 2).sum(2)
    want = log_p.exp() @ (math.log(2) * (n_b == 1).double().sum(1))
    zero = torch.zeros(16).double()
    exact = exact_energy_discrepancy(zero, log_p, pooling_channel(4, 2))
    assert float(exact) == pytest.approx(float(want), abs=1e-12)
    loss = loss_of(zero, Pool(2), bits(5, 4), stabilizer=0.0)
    assert float(loss) == pytest.approx(0, abs=1e-14)


@every_case
def test_gradient_is_the_gradient_by_enumeration(perturbation, log_q, n_sites):
    """Lemma 1: dED/dU(z) = p(z) - sum_y p(y) p_U(z|y).

    The standard error comes from independent repeats. With finite M the
    responsibilities are ratios of means, whose bias is, to leading order,
    (R E[v^2|y] - E[v^2 1_z|y]) / (M E[v|y]^2), R = p_U(z|y).
    """
    n, m, repeats = 100, 64, 60
    u = normal(2**n_sites, seed=1)
    log_p = torch.log_softmax(normal(2**n_sites, seed=2), 0)
    log_q = log_q[:, log_q.isfinite().any(0)]
    p_y = (log_p[:, None] + log_q).exp().sum(0)
    posterior = torch.softmax(log_q - u[:, None], 0).T  # (n_y, n_x)
    want = log_p.exp() - p_y @ posterior

    by_autograd = u.clone().requires_grad_()
    exact_energy_discrepancy(by_autograd, log_p, log_q).backward()
    assert torch.allclose(by_autograd.grad, want, atol=1e-12)

    first, second = moments(u, log_q)
    total = first.sum(1, keepdim=True)
    bias = posterior * second.sum(1, keepdim=True) - second
    bias = -(p_y @ (bias / total**2)) / m
    if perturbation == Grid(exact=True):
        bias = torch.zeros(())
    generator = make_generator(7)
    draws = []
    for seed in range(repeats):
        index = torch.multinomial(log_p.exp(), n, replacement=True, generator=generator)
        x = enumerate_states(n_sites)[index]
        draws.append(
            gradient_of(u, perturbation, x, seed, n_negatives=m, stabilizer=0.0)
        )
    got = torch.stack(draws)
    error = got.std(0) / math.sqrt(repeats)
    assert ((got.mean(0) - want - bias).abs() < 5 * error + bias.abs() + 1e-12).all()


def test_grid_exact_has_no_noise_from_negatives():
    """Given x, the loss takes one value for each y: U(x) - U_q(y)."""
    u, x = normal(16, seed=3), bits(1, 4, seed=4)
    i = int(states_to_index(x)[0])
    potential = contrastive_potential(u, grid_channel(4))
    want = [float(u[i] - potential[i ^ flip]) for flip in (1, 2, 4, 8)]
    got = [float(loss_of(u, Grid(), x, seed, stabilizer=0.0)) for seed in range(60)]
    for value in got:
        assert min(abs(value - w) for w in want) < 1e-12
    assert len({round(value, 10) for value in got}) == 4
    sampled = [
        float(loss_of(u, Grid(False), x, seed, stabilizer=0.0)) for seed in range(60)
    ]
    assert len({round(value, 10) for value in sampled}) > 4


# A backward pass through few negatives


@pytest.mark.parametrize("perturbation", [Bernoulli(0.2), Grid(False), Pool(2)])
@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_subsampling_leaves_the_value_alone(perturbation, scale):
    u, x = scale * normal(16), bits(20, 4)
    full = loss_of(u, perturbation, x)
    for k in (1, 3):
        assert torch.equal(loss_of(u, perturbation, x, n_backward=k), full)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("k", "w"), [(1, 1.0), (3, 0.0)])
def test_subsampled_gradients_are_unbiased(weighted, k, w):
    u, x, negatives = 2 * normal(16), bits(6, 4), bits(6, 8, 4, seed=1)
    log_weight = normal(6, 8, seed=2) if weighted else None
    fixed = Fixed(negatives, log_weight)
    arguments = {"n_negatives": 8, "stabilizer": w}
    want = gradient_of(u, fixed, x, **arguments)
    repeats = 600  # in one batch, whose loss is the mean of theirs
    many = [
        part if part is None else part.repeat(repeats, *[1] * (part.ndim - 1))
        for part in (x, negatives, log_weight)
    ]
    got = gradient_of(u, Fixed(*many[1:]), many[0], n_backward=k, **arguments)
    # Rows are independent. In a row, negative j is drawn floor(n_j) or
    # ceil(n_j) times, n_j = k r_j / sum(r), and each time pulls by sum(r) / k.
    # Exact, because an empirical error is 0 for a negative never drawn.
    at = states_to_index(negatives.flatten(0, 1)).view(6, 8)
    v = (u[states_to_index(x)][:, None] - u[at]).exp()
    v = v if log_weight is None else v * log_weight.exp()
    r = v / (w + v.sum(1, keepdim=True))
    total = r.sum(1, keepdim=True)
    fraction = (k * r / total) % 1
    deviation = total / k * (fraction * (1 - fraction)).sqrt()
    by_state = torch.zeros(6, 16).double().scatter_add_(1, at, deviation)
    error = by_state.norm(dim=0) / 6 / math.sqrt(repeats)
    assert ((got - want).abs() < 5 * error + 1e-12).all()
    assert (error < 0.02).all()


def test_each_negative_is_drawn_in_proportion_up_to_one():
    """Systematic resampling: counts are the floor or ceiling of their mean."""
    k, u = 5, normal(8, seed=3)
    x, negatives = enumerate_states(3)[:1], enumerate_states(3)[None, 1:]
    share = torch.softmax(u[0] - u[1:], 0)  # w = 0: they sum to one
    for seed in range(30):
        gradient = gradient_of(
            u, Fixed(negatives), x, seed, stabilizer=0.0, n_backward=k
        )
        counts = -gradient[1:] * k
        assert torch.allclose(counts, counts.round(), atol=1e-10)
        assert (counts.round() >= (k * share).floor()).all()
        assert (counts.round() <= (k * share).ceil()).all()
        assert float(gradient[0]) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("n_backward", [None, 2])
@pytest.mark.parametrize("many", [True, False])
def test_a_negative_that_is_x_itself_costs_nothing(n_backward, many):
    """Its terms cancel; where it is one of 246, batches keep their size."""
    u, x = normal(16), bits(6, 4)
    negatives = bits(6, 8, 4, seed=1) if many else 1 - x[:, None].repeat(1, 41, 1)
    if many:
        negatives[:, :5] = x[:, None]
    else:
        negatives[0, 0] = x[0]
    m, seen = negatives.shape[1], []

    def energy(states):
        seen.append(len(states))
        return u[states_to_index(states)]

    arguments = {"n_negatives": m, "n_backward": n_backward}
    arguments["generator"] = make_generator(0)
    loss = energy_discrepancy_loss(energy, x, Fixed(negatives), **arguments)
    n_moved = int((negatives != x[:, None]).any(-1).sum())
    assert 0 < n_moved < 6 * m and seen[0] == 6 + (n_moved if many else 6 * m)
    want = slow_loss(u, x, negatives, 1.0, m)
    assert float(loss) == pytest.approx(want, abs=1e-12)


@pytest.mark.parametrize("k", [8, 9, 1000])
def test_as_many_as_there_are_is_the_full_loss(k):
    u, x, fixed = normal(16), bits(6, 4), Fixed(bits(6, 8, 4, seed=1))
    want = gradient_of(u, fixed, x, n_negatives=8)
    assert torch.equal(gradient_of(u, fixed, x, n_negatives=8, n_backward=k), want)


@pytest.mark.parametrize("w", [0.0, 1.0])
@pytest.mark.parametrize("n_backward", [None, 1, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "levels",
    [(0.0, 1e4), (1e4, 0.0), (-1e4, 1e4), (1e4, -1e4)],
    ids=["data-low", "data-high", "far-low", "far-high"],
)
def test_extreme_energies_stay_finite(w, n_backward, dtype, levels):
    """U(x) - U(x') of +-1e4 and 2e4: the value is max(difference, log ratio).

    A log-sum of size 2e4 is rounded to 2e4 eps, and so are the weights of the
    gradient, its exponentials.
    """
    low, high = levels
    x, negatives = torch.zeros(3, 1, dtype=dtype), torch.ones(3, 4, 1, dtype=dtype)
    u = torch.tensor([low, high], dtype=dtype)
    arguments = {"n_negatives": 4, "stabilizer": w, "n_backward": n_backward}
    got = loss_of(u, Fixed(negatives), x, **arguments)
    want = max(low - high, math.log(1 / 4) if w else -math.inf)
    assert float(got) == pytest.approx(want, rel=1e-6)
    gradient = gradient_of(u, Fixed(negatives), x, **arguments)
    tolerance = 2e4 * torch.finfo(dtype).eps
    pull = 0.0 if w and low < high else 1.0
    assert gradient.tolist() == pytest.approx([pull, -pull], abs=tolerance)


@pytest.mark.cuda
@pytest.mark.parametrize("n_backward", [None, 2])
def test_the_device_is_kept(n_backward):
    """The value on a GPU is Eq. 2 of the negatives that were drawn there."""
    u, x = normal(16).cuda(), bits(4, 4).cuda()
    negatives = Bernoulli(0.2).negatives(x, 8, generator=make_generator(0, "cuda")).x
    arguments = {"n_negatives": 8, "n_backward": n_backward}
    arguments["generator"] = make_generator(1, "cuda")
    got = energy_discrepancy_loss(table(u), x, Fixed(negatives), **arguments)
    assert got.device == x.device
    want = slow_loss(u.cpu(), x.cpu(), negatives.cpu(), 1.0, 8)
    assert float(got) == pytest.approx(want, abs=1e-12)


PERTURBATIONS = {
    "bernoulli": Bernoulli(0.2),
    "grid": Grid(),
    "grid-exact": Grid(exact=True),
    "pool": Pool(3),
    "pool-whole": Pool(9),
}
every_perturbation = pytest.mark.parametrize(
    "perturbation", PERTURBATIONS.values(), ids=PERTURBATIONS
)


def draw(n_models, n_sites, dtype, seed=0):
    generator = make_generator(seed)
    coupling = torch.randn(n_models, n_sites, n_sites, dtype=dtype, generator=generator)
    x = torch.randint(2, (17, n_sites), generator=generator).to(dtype)
    return coupling, x


@every_perturbation
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_each_model_has_its_own_loss_and_gradient(perturbation, dtype):
    """Those of `energy_discrepancy_loss`, which draws the same from the same seed.

    A loss is below 50 here, a gradient's entry a sum of some hundred products below
    1: in float32 they round by 50 * 2^-24 a term, so by 1e-4 at most.
    """
    coupling, x = draw(3, 9, dtype)
    raw = coupling.requires_grad_()
    settings = {"n_negatives": 12, "stabilizer": 0.5, "n_backward": 4}
    losses = coupling_discrepancy_losses(
        raw, x, perturbation, generator=make_generator(1), **settings
    )
    losses.sum().backward()
    near = {"rtol": 0, "atol": 1e-4 if dtype == torch.float32 else 1e-12}
    for k in range(3):
        energy = Ising(coupling[k].detach(), learnable=True)
        alone = energy_discrepancy_loss(
            energy, x, perturbation, generator=make_generator(1), **settings
        )
        alone.backward()
        assert torch.allclose(losses[k], alone, **near)
        assert torch.allclose(raw.grad[k], energy.coupling.grad, **near)
        # The models differ, so that one which took another's place would be told.
        assert not torch.allclose(losses[k], losses[k - 1], **near)


def draw_states(n_models, n_sites, seed):
    """Symmetric couplings, data, and other states, of which the first is the data."""
    coupling, x = draw(n_models, n_sites, torch.float32, seed)
    symmetric = (coupling + coupling.mT) / 2
    symmetric.diagonal(dim1=1, dim2=2).zero_()
    generator = make_generator(seed)
    other = torch.randint(2, (17, 5, n_sites), generator=generator).float()
    other[:, 0] = x
    return symmetric, x, other


def every_size(test):
    """Try many sizes; the first call compiles, so no time limit per example."""
    sizes = given(st.integers(1, 4), st.integers(1, 70), st.integers(0, 9999))
    return settings(deadline=None)(sizes(test))


@every_size
def test_flipped_spins_alone_tell_the_difference(n_models, n_sites, seed):
    """The compiled sum against energies of both states, in double precision.

    It adds n^2 products, each below 16 |J| and rounded n times at most.
    """
    symmetric, x, other = draw_states(n_models, n_sites, seed)
    found = _differences(symmetric, x, other, find_flips(x, other))

    def energies(states):
        s = bits_to_spins(states.double())
        return -torch.einsum("...i,kij,...j->k...", s, symmetric.double(), s)

    exact = energies(x)[:, :, None] - energies(other)
    bound = 16 * symmetric.abs().sum((1, 2)).amax() * n_sites * 2.0**-24
    assert (found - exact).abs().max() <= bound + 1e-30
    assert not found[:, :, 0].any()


@every_size
def test_flipped_spins_alone_tell_the_moments(n_models, n_sites, seed):
    """Twice the symmetric part against s's'' - ss', in double precision.

    An entry adds 17 states times 6 draws, each below 2 shares and rounded once a sum.
    """
    _, x, other = draw_states(n_models, n_sites, seed)
    generator = make_generator(seed)
    drawn = torch.randint(5, (n_models, 17, 6), generator=generator)
    share = torch.rand(n_models, 17, 6, generator=generator)
    found = _moments(x, other, drawn, share, find_flips(x, other))
    s = bits_to_spins(x.double())
    chosen = bits_to_spins(other.double())[torch.arange(17)[:, None], drawn]
    exact = torch.einsum("kbd,kbdi,kbdj->kij", share.double(), chosen, chosen)
    exact -= torch.einsum("kbd,bi,bj->kij", share.double(), s, s)
    terms = 17 * 6
    bound = terms * 2 * terms * 2.0**-24
    assert (found + found.mT - exact).abs().max() <= bound
