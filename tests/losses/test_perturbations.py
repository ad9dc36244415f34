"""Negative samples tested against the distributions that the channels prescribe."""

import math
from itertools import product

import pytest
import torch
from scipy.stats import chisquare

from ebmtut.exact import (
    bernoulli_channel,
    contrastive_potential,
    grid_channel,
    pooling_channel,
)
from ebmtut.losses import Bernoulli, DirectedNeighborhood, Grid, Pool
from ebmtut.random import bernoulli, make_generator
from ebmtut.states import enumerate_states, states_to_index

# An asymmetric graph: neither the numbers of neighbours nor those of inverse
# neighbours agree, and no edge between 0 and 3 or 1 and 2 goes both ways.
NEIGHBORS = ((1,), (0, 2, 3), (3, 1), (0, 1))
DIRECTED = DirectedNeighborhood(enumerate_states(2), NEIGHBORS, states_to_index)


def directed_channel():
    """Eq. 7, by loops."""
    log_q = torch.full((4, 4), -math.inf).double()
    for x, near in enumerate(NEIGHBORS):
        for y in near:
            log_q[x, y] = -math.log(len(near))
    return log_q


CASES = {
    "bernoulli": (Bernoulli(0.2), bernoulli_channel(3, 0.2), 3),
    "bernoulli-over-half": (Bernoulli(0.7), bernoulli_channel(3, 0.7), 3),
    "bernoulli-rare": (Bernoulli(0.015, sparse=True), bernoulli_channel(3, 0.015), 3),
    "bernoulli-most": (Bernoulli(0.985, sparse=True), bernoulli_channel(3, 0.985), 3),
    "grid": (Grid(exact=False), grid_channel(4), 4),
    "pool": (Pool(2), pooling_channel(4, 2), 4),
    "pool-whole": (Pool(4), pooling_channel(4, 4), 4),
    "directed": (DIRECTED, directed_channel(), 2),
}
every_case = pytest.mark.parametrize(
    ("perturbation", "log_q", "n_sites"), CASES.values(), ids=CASES
)


def assert_distribution(counts, probs):
    """Pearson's test of counts against exact probabilities, p > 1e-4."""
    counts, probs = counts.flatten().double(), probs.flatten()
    assert float(probs.sum()) == pytest.approx(1)
    assert not counts[probs == 0].any()
    counts, probs = counts[probs > 0], probs[probs > 0]
    expected = probs * counts.sum()
    assert expected.min() >= 5  # below, Pearson's statistic is not chi-square
    if len(counts) > 1:
        assert chisquare(counts.numpy(), expected.numpy()).pvalue > 1e-4


def way_back(log_q, weighted):
    """Distribution of x' given y, (n_y, n_x): posterior of a flat prior, or uniform."""
    back = (log_q.isfinite().double() if weighted else log_q.exp()).T
    return back / back.sum(1, keepdim=True).clamp_min(1e-300)


def bits(*shape, dtype=torch.float64, seed=0):
    return torch.randint(2, shape, generator=make_generator(seed)).to(dtype)


@every_case
def test_pairs_of_negatives_have_the_distribution_of_the_channel(
    perturbation, log_q, n_sites
):
    """P(x'_1, x'_2 | x) = sum_y q(y|x) r(x'_1|y) r(x'_2|y).

    The joint distribution sees that the negatives of a data point share its y.
    """
    n = 8000
    back = way_back(log_q, perturbation is DIRECTED)
    for start in enumerate_states(n_sites)[1:4]:
        x = start.expand(n, -1)
        negatives = perturbation.negatives(x, 2, generator=make_generator(3)).x
        first, second = states_to_index(negatives.flatten(0, 1)).view(n, 2).T
        n_x = len(log_q)
        counts = torch.bincount(first * n_x + second, minlength=n_x**2)
        q = log_q[states_to_index(start[None])[0]].exp()
        joint = torch.einsum("y,ya,yb->ab", q, back, back)
        # Rare pairs are one cell, so that every cell is expected five times.
        rare = (joint.flatten() > 0) & (joint.flatten() * n < 5)
        common = torch.where(rare, 0, joint.flatten())
        probs = torch.cat([common, joint.flatten()[rare].sum()[None]])
        tail = torch.where(rare, counts, 0).sum()
        counts = torch.cat([torch.where(rare, 0, counts), tail[None]])
        if 0 < probs[-1] * n < 5:
            pytest.fail("choose a larger n")
        assert_distribution(counts, probs)


@pytest.mark.parametrize("eps", [0.001, 0.02, 0.1, 0.5, 0.98, 0.999])
def test_bernoulli_takes_a_number_per_bit_at_every_eps(eps):
    """No value of eps switches to another random stream: sparse alone does."""
    x = bits(50, 6)
    generator = make_generator(3)
    found = Bernoulli(eps).negatives(x, 4, generator=make_generator(3)).x
    y = (x - bernoulli(torch.full_like(x, eps), generator=generator)).abs()
    back = y[:, None].expand(-1, 4, -1)
    flips = bernoulli(torch.full(back.shape, eps).to(x), generator=generator)
    assert torch.equal(found, (back - flips).abs())


def test_grid_exact_lists_all_neighbours_of_one_neighbour():
    n, d = 6000, 5
    x = bits(n, d)
    negatives = Grid(exact=True).negatives(x, 1, generator=make_generator(2)).x
    assert negatives.shape == (n, d, d)
    y = (negatives - torch.eye(d)).abs()  # undo the flip of each
    assert (y == y[:, :1]).all()
    moved = (y[:, 0] != x).long()
    assert (moved.sum(1) == 1).all()
    assert_distribution(moved.sum(0), torch.full((d,), 1 / d).double())


@pytest.mark.parametrize(
    ("exact", "n_negatives", "n_returned"),
    [(None, 5, 5), (None, 32, 5), (None, 4, 4), (True, 1, 5), (False, 32, 32)],
)
def test_grid_sums_exactly_where_it_costs_no_more(exact, n_negatives, n_returned):
    x, generator = bits(3, 5), make_generator(0)
    negatives = Grid(exact).negatives(x, n_negatives, generator=generator)
    assert negatives.x.shape == (3, n_returned, 5)
    assert negatives.log_weight is None


def test_pool_in_two_dimensions_is_uniform_over_both_blocks():
    """Blocks with two bits of four each: 36 arrangements of the pair."""
    x = torch.tensor([[1.0, 1, 0, 1], [0, 0, 1, 0]]).view(1, 8)
    pool = Pool((2, 2), (2, 4))
    negatives = pool.negatives(x, 20_000, generator=make_generator(4)).x[0]
    left, right = negatives.view(-1, 2, 2, 2).permute(2, 0, 1, 3).flatten(2)
    assert (left.sum(1) == 2).all()
    assert (right.sum(1) == 2).all()
    index = states_to_index(left) * 16 + states_to_index(right)
    counts = torch.bincount(index, minlength=256)
    two = enumerate_states(4).sum(1) == 2
    assert_distribution(counts, (two[:, None] & two).double().flatten() / 36)


def test_pool_blocks_are_rectangles():
    height, width, h, w = 4, 6, 2, 3
    blocks = Pool((h, w), (height, width)).blocks(height * width)
    want = [
        [(top + i) * width + left + j for i, j in product(range(h), range(w))]
        for top, left in product(range(0, height, h), range(0, width, w))
    ]
    assert blocks.tolist() == want
    assert Pool(3).blocks(6).tolist() == [[0, 1, 2], [3, 4, 5]]


# Directed neighbourhoods, Appendix C.4


def test_directed_weights_are_the_ratio_of_neighbour_counts():
    """From state 0 the only y is 1, so the weights are 3 / K_x'."""
    x = enumerate_states(2)[:1]
    negatives = DIRECTED.negatives(x, 300, generator=make_generator(6))
    back = states_to_index(negatives.x[0])
    assert set(back.tolist()) == {0, 2, 3}  # who has 1 as a neighbour
    n_out = torch.tensor([len(near) for near in NEIGHBORS])
    assert torch.allclose(negatives.log_weight[0].exp(), 3 / n_out[back].double())


@pytest.mark.parametrize("start", range(4))
def test_directed_weights_make_the_estimate_unbiased(start):
    """E[weight exp(-U(x')) | x] = sum_y q(y|x) exp(-U_q(y)), within 5 SE."""
    u = torch.tensor([0.3, -1.0, 0.8, 1.5]).double()
    log_q = directed_channel()
    n = 20_000
    x = enumerate_states(2)[start].expand(n, -1)
    negatives = DIRECTED.negatives(x, 1, generator=make_generator(start))
    values = (negatives.log_weight[:, 0] - u[states_to_index(negatives.x[:, 0])]).exp()
    want = log_q[start].exp() @ (-contrastive_potential(u, log_q)).exp()
    error = float(values.std()) / math.sqrt(n)
    assert abs(float(values.mean() - want)) < 5 * error
    # The plain mean is another number, far outside that band.
    plain = (-u[states_to_index(negatives.x[:, 0])]).exp().mean()
    assert abs(float(plain - want)) > 10 * error


every_perturbation = pytest.mark.parametrize(
    "perturbation",
    [Bernoulli(0.3), Grid(False), Grid(True), Pool(4), Pool((2, 2), (2, 4))],
    ids=repr,
)


@every_perturbation
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_the_dtype_of_the_data_is_kept(perturbation, dtype):
    x = bits(5, 8, dtype=dtype)
    negatives = perturbation.negatives(x, 3, generator=make_generator(0)).x
    assert negatives.dtype == dtype
    assert ((negatives == 0) | (negatives == 1)).all()


@pytest.mark.cuda
@every_perturbation
def test_the_device_of_the_data_is_kept(perturbation):
    x = bits(5, 8).cuda()
    generator = make_generator(0, "cuda")
    negatives = perturbation.negatives(x, 3, generator=generator).x
    assert negatives.device == x.device
    assert ((negatives == 0) | (negatives == 1)).all()
