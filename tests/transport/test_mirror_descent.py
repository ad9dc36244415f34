import torch

from ebmtut.random import make_generator
from ebmtut.transport import accelerated_start, accelerated_step, mirror_step


def quadratic(seed: int = 0, n: int = 6):
    """A convex function on the simplex whose minimum lies inside it."""
    generator = make_generator(seed)
    root = torch.randn(n, n, generator=generator, dtype=torch.float64)
    matrix = root @ root.T / n + 0.05 * torch.eye(n, dtype=torch.float64)
    best = torch.rand(n, generator=generator, dtype=torch.float64) + 0.2
    best /= best.sum()
    return matrix, best


def test_mirror_step_minimises_its_model():
    """The step is the minimiser of s <gradient, y> + KL(y, x) over the simplex."""
    generator = make_generator(1)
    x = torch.rand(3, 5, generator=generator, dtype=torch.float64)
    x /= x.sum(1, keepdim=True)
    gradient = torch.randn(3, 5, generator=generator, dtype=torch.float64)

    def model(y):
        kl = torch.special.xlogy(y, y / x).sum(1)
        return 0.7 * (gradient * y).sum(1) + kl

    y = mirror_step(x, gradient, 0.7)
    torch.testing.assert_close(y.sum(1), torch.ones(3, dtype=torch.float64))
    for _ in range(20):
        other = torch.rand(3, 5, generator=generator, dtype=torch.float64)
        other /= other.sum(1, keepdim=True)
        for t in (1e-3, 0.1, 1.0):
            assert bool((model(y) <= model((1 - t) * y + t * other) + 1e-12).all())


def test_mirror_step_ignores_a_constant_and_keeps_zeros():
    x = torch.tensor([[0.0, 0.25, 0.75]])
    gradient = torch.tensor([[-5.0, 1.0, 2.0]])
    y = mirror_step(x, gradient, 1.0)
    torch.testing.assert_close(y, mirror_step(x, gradient + 3.0, 1.0))
    assert y[0, 0] == 0


def test_acceleration_needs_fewer_steps_than_mirror_descent():
    matrix, best = quadratic()

    def gradient(x):
        return (x - best) @ matrix

    def excess(x):
        return float(((x - best) * gradient(x)).sum()) / 2

    even = torch.full((1, 6), 1 / 6, dtype=torch.float64)
    plain, state = even, accelerated_start(even)
    for _ in range(300):
        plain = mirror_step(plain, gradient(plain), 0.5)
        state = accelerated_step(state, gradient(state.x), 0.5)
    assert excess(state.x) < 0.1 * excess(plain) < 0.1 * excess(even)


def test_rows_restart_alone_and_rows_are_independent():
    matrix, best = quadratic(2)
    start = torch.rand(4, 6, generator=make_generator(3), dtype=torch.float64)
    start /= start.sum(1, keepdim=True)
    together = accelerated_start(start)
    alone = accelerated_start(start[:1])
    counts = []
    for _ in range(60):
        together = accelerated_step(together, (together.x - best) @ matrix, 2.0)
        alone = accelerated_step(alone, (alone.x - best) @ matrix, 2.0)
        counts.append(together.count.flatten())
    torch.testing.assert_close(together.x[:1], alone.x)
    restarted = torch.stack(counts) == 0
    assert bool(restarted.any())
    assert bool((restarted.any(1) & ~restarted.all(1)).any())
    # A restart throws the momentum away.
    k = int(restarted[:, 0].nonzero()[0])
    state = accelerated_start(start)
    for _ in range(k + 1):
        state = accelerated_step(state, (state.x - best) @ matrix, 2.0)
    assert torch.equal(state.z[0], state.x[0])
