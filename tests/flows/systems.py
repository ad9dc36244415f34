"""Small systems whose distributions, flows and rate matrices are known exactly."""

import math

import torch
from torch import nn

from ebmtut import flows
from ebmtut.energies import Energy
from ebmtut.states import enumerate_states, states_to_index
from tests.shared import normal


class TableEnergy(Energy):
    """Any energy of a few sites, given as a table over all states."""

    def __init__(self, table, n_sites, n_states=2):
        super().__init__()
        self.table = table
        self.n_sites = n_sites
        self.n_states = n_states

    def forward(self, x):
        return self.table[states_to_index(x, self.n_states)].to(x)


def random_energy(n_sites, n_states=2, seed=0, scale=1.0):
    table = normal(n_states**n_sites, seed=seed)
    return TableEnergy(scale * table, n_sites, n_states)


class TableNetwork(nn.Module):
    """G for every pair of neighbours, and time, from a table: exact flows."""

    def __init__(self, tables, n_sites, n_states=2):
        super().__init__()
        # (n_times, n_all, n_sites[, n_states]), interpolated linearly in time.
        self.tables = tables
        self.n_sites, self.n_states = n_sites, n_states

    def forward(self, x, t):
        place = t.double().clamp(0, 1) * (len(self.tables) - 1)
        low = place.long().clamp(max=len(self.tables) - 2)
        index = states_to_index(x, self.n_states)
        share = (place - low).reshape(-1, *[1] * (self.tables.ndim - 2))
        value = (1 - share) * self.tables[low, index]
        return (value + share * self.tables[low + 1, index]).to(x)


def neighbors(n_sites, n_states=2):
    """Index of every neighbour: (n_all, n_sites, n_states)."""
    x = enumerate_states(n_sites, n_states)
    index = states_to_index(x, n_states)
    place = n_states ** torch.arange(n_sites - 1, -1, -1)
    shift = torch.arange(n_states)[None, None] - x.long()[..., None]
    return index[:, None, None] + shift * place[:, None]


def random_odd_tables(n_sites, n_states=2, seed=0, n_times=2):
    """G(x -> y) = A[x, y] with antisymmetric A, at a few times."""
    n_all = n_states**n_sites
    a = normal(n_times, n_all, n_all, seed=seed)
    a = a - a.transpose(1, 2)
    index = neighbors(n_sites, n_states)
    rows = torch.arange(n_all)[:, None, None].expand_as(index)
    g = a[:, rows, index]
    if n_states == 2:
        x = enumerate_states(n_sites).long()
        return g.gather(3, (1 - x)[None, ..., None].expand(n_times, -1, -1, 1))[..., 0]
    return g


def rate_matrix(flow, t):
    """Columns are left, rows are entered: d p / dt = R p."""
    path = flow.path
    x = enumerate_states(path.n_sites, path.n_states)
    outward = flow.terms(x, t).outward.detach().double()
    index = neighbors(path.n_sites, path.n_states)
    n_all = len(x)
    if path.n_states == 2:
        index = index.gather(2, (1 - x.long())[..., None])
        outward = outward[..., None]
    matrix = torch.zeros(n_all, n_all, dtype=torch.float64)
    rows = torch.arange(n_all)[:, None, None].expand_as(index)
    matrix.index_put_((index, rows), outward, accumulate=True)
    matrix.diagonal().sub_(matrix.sum(0))
    return matrix


def distributions(path, times):
    """Exact p_t and log Z_t of every time."""
    x = enumerate_states(path.n_sites, path.n_states)
    log_p = torch.stack([path.log_density(x, float(t)) for t in times])
    return log_p.softmax(1), log_p.logsumexp(1)


def networks(n_states=2, dtype=torch.float64):
    """One of every network, of 9 sites where it is a lattice, else of 5."""
    made = {
        "leMLP": flows.HollowMLP(5, n_states=n_states, width=8),
        "leAttn": flows.HollowAttention(5, n_states=n_states, width=8, n_heads=2),
        "leConv": flows.HollowConvolution(3, n_states=n_states, width=8),
        "leTF": flows.HollowTransformer(
            5, n_states=n_states, width=8, n_layers=2, n_heads=2
        ),
    }
    if n_states == 2:
        made["odd"] = flows.OddLatticeNetwork(3, width=4, n_hidden=8)
        made["odd, window 2"] = flows.OddLatticeNetwork(
            4, width=4, window=3, n_hidden=8
        )
    return {name: net.to(dtype) for name, net in made.items()}


class SolvedNetwork(nn.Module):
    """G that carries a path of a few bits exactly, with the least squared flow.

    The flow f(x -> y) = phi(x) - phi(y) between neighbours is to leave behind
    -d p_t / dt: a Laplace equation on the hypercube.
    """

    def __init__(self, path, rates, factor=1.0):
        super().__init__()
        self.path, self.rates, self.factor = path, rates, factor
        self.n_sites, self.n_states = path.n_sites, 2

    def forward(self, x, t):
        everything = enumerate_states(self.n_sites)
        index = neighbors(self.n_sites).gather(2, (1 - everything.long())[..., None])[
            ..., 0
        ]
        n_all = len(everything)
        laplace = torch.zeros(n_all, n_all, dtype=torch.float64)
        rows = torch.arange(n_all)[:, None].expand_as(index)
        laplace[rows, index] = -1
        laplace.diagonal().add_(self.n_sites)
        g = x.new_empty(x.shape, dtype=torch.float64)
        for time in t.unique():
            slope = self.path.time_derivative(everything)
            p = self.path.log_density(everything, float(time)).softmax(0)
            change = p * (slope - (p * slope).sum())
            phi = torch.linalg.lstsq(laplace, -change[:, None], driver="gelsd").solution
            flow = phi - phi[:, 0][index]
            here, there = p[:, None].expand_as(flow), p[index]
            if self.rates == "one_way":
                table = flow / torch.where(flow > 0, here, there)
            else:
                table = flow * (here + there) / (here * there)
            at = t == time
            g[at] = self.factor * table[states_to_index(x[at])]
        return g


def independence_metropolis(log_weights, *, generator):
    """Run Metropolis-Hastings whose proposals are the samples in their order.

    A proposal is accepted with probability min(1, w' / w) (Hastings 1970), which leaves
    the target invariant if the weights have the mean Z_1 / Z_0 over paths. Return the
    index of the sample that the chain holds after each step.
    """
    u = torch.rand(len(log_weights), generator=generator, dtype=torch.float32)
    held, current = 0, -math.inf
    chain = []
    for k, (value, log_u) in enumerate(
        zip(log_weights.tolist(), u.double().log().tolist(), strict=True)
    ):
        # A state of weight 0 is left at once.
        if current == -math.inf or value - current >= log_u:
            held, current = k, value
        chain.append(held)
    return torch.tensor(chain)
