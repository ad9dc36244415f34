"""Small transport problems that the tests share."""

import pytest
import torch

from ebmtut.random import make_generator


def problem(m1, m2, *, batch=(), zeros=0.0, forbidden=0.0, seed=0, dtype=torch.float64):
    """Random masses and costs; some zero, some infinite, always feasible."""
    generator = make_generator(seed)

    def uniform(*shape):
        return torch.rand(shape, generator=generator, dtype=dtype)

    def masses(m):
        x = (0.1 + uniform(*batch, m)) * (uniform(*batch, m) >= zeros)
        # What row and column 0 take in keeps a problem with infinities feasible.
        x[..., 0] += x[..., 1:].sum(-1) if forbidden else 0.1
        return x / x.sum(-1, keepdim=True)

    p, q = masses(m1), masses(m2)
    cost = uniform(m1, m2)
    cost[uniform(m1, m2) < forbidden] = torch.inf
    cost[0], cost[:, 0] = 0.5, 0.5
    return p, q, cost


@pytest.fixture(name="problem", scope="session")
def problem_fixture():
    return problem
