"""Two processes that train together do what one does with both their batches."""

import runpy
import sys
from pathlib import Path

import pytest
import torch
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from ebmtut.random import make_generator
from ebmtut.training import processes
from ebmtut.training.distributed import joined, own_file, worst_of_all

SCRIPT = """
import sys
from pathlib import Path

import torch

from ebmtut.checks import DivergenceError
from ebmtut.energies import FourierEnergy, at_level
from ebmtut.losses import RecoveryLikelihood
from ebmtut.noise import NoiseLevels
from ebmtut.random import make_generator
from ebmtut.samplers import ConditionalChain
from ebmtut.training import TrainConfig, processes, train

torch.set_num_threads(1)
folder = Path(sys.argv[1])
# Points and their noise: draws of a generator would differ with the batch's size.
points = torch.randn(20, 8, 4, dtype=torch.float64, generator=make_generator(0))


# Score matching, in which the energy's constant has no say.
def score(energy, x):
    noisy = (x[:, :2] + 0.5 * x[:, 2:]).requires_grad_()
    value = at_level(energy, 0)(noisy).sum()
    (slope,) = torch.autograd.grad(value, noisy, create_graph=True)
    return ((0.5 * slope - x[:, 2:]) ** 2).sum(1).mean()


def recovery():
    noise = NoiseLevels((0.5, 0.7), 0.2)
    chain = ConditionalChain(3, 0.3, adjusted=False, start="noisy")
    return RecoveryLikelihood(noise, chain, trusted_gap=30.0, regulariser=0.01)


# Of both processes, each with its random numbers: alone, one is asked for both.
RECOVERY = [recovery(), recovery()]
GENERATORS = [make_generator(0), make_generator(1)]


def both_recoveries(energy, x):
    halves = zip(RECOVERY, x[:, :2].chunk(2), GENERATORS, strict=True)
    return sum(loss(energy, half, generator=g) for loss, half, g in halves) / 2


LOSSES = {"score": score, "recovery": both_recoveries}


def run(count, rank, name="score", fails_at=None):
    step = 0

    def sample(n, *, generator):
        nonlocal step
        step += 1
        return points[step - 1][rank * n : (rank + 1) * n]

    def loss(energy, x, *, generator):
        if step - 1 == fails_at and rank == 1:
            raise DivergenceError("on purpose", step=-1)
        if name == "recovery" and count == 2:
            return RECOVERY[rank](energy, x[:, :2], generator=generator)
        return LOSSES[name](energy, x)

    # Other weights in every process: those of the first count.
    n_levels = 2 if name == "recovery" else 1
    made = make_generator(5 + rank)
    energy = FourierEnergy(2, n_levels, 8, 2, 4, generator=made).double()
    config = TrainConfig(20, 8 // count, precision="float32")
    generator = make_generator(rank)
    trained = train(
        energy,
        loss,
        sample,
        config,
        generator=generator,
        checkpoint=folder / f"state-{count}-{name}-{fails_at}",
        checkpoint_every=10,
        identity={},
    )
    return torch.cat([p.flatten() for p in trained.energy.parameters()])


with processes() as me:
    for name in LOSSES:
        found = run(me.n_processes, me.rank, name)
        torch.save(found, folder / f"{name}-{me.n_processes}-{me.rank}.pt")
    if me.n_processes == 2:
        try:
            run(2, me.rank, fails_at=7)
        except DivergenceError as error:
            (folder / f"{me.rank}.txt").write_text(f"{error.step} {error}")
"""


def test_two_processes_are_one_with_both_batches(tmp_path: Path, monkeypatch) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, "utf-8")
    monkeypatch.setattr(sys, "argv", [str(script), str(tmp_path)])

    def run() -> None:
        runpy.run_path(str(script))

    run()  # alone, in this process
    # As torchrun --standalone --nproc-per-node 2, in forks, which have imported torch.
    local = {"rdzv_backend": "c10d", "rdzv_endpoint": "localhost:0", "run_id": "test"}
    both = LaunchConfig(1, 1, 2, start_method="fork", max_restarts=0, **local)
    elastic_launch(both, run)()
    for name in ("score", "recovery"):
        one, first, second = (
            torch.load(tmp_path / f"{name}-{process}.pt")
            for process in ("1-0", "2-0", "2-1")
        )
        assert torch.equal(first, second)
        # Means of halves against the mean of all: the order of a sum in float64,
        # through twenty steps of Adam.
        assert torch.allclose(one, first, rtol=1e-9, atol=1e-9)
    files = {p.name for p in tmp_path.glob("state-2-score-None*")}
    assert files == {"state-2-score-None", "state-2-score-None.1"}
    # One process fails, and both stop at that step.
    assert (tmp_path / "1.txt").read_text().endswith("step 7: on purpose")
    assert (tmp_path / "0.txt").read_text().endswith("step 7: in another process")


def test_alone_the_loss_is_what_it_was() -> None:
    energy = torch.nn.Linear(3, 1)

    def loss(energy, x, *, generator):
        return energy(x).sum() + torch.rand((), generator=generator)

    x = torch.ones(2, 3)
    with processes() as me:
        assert (me.rank, me.n_processes, me.device.type) == (0, 1, "cpu")
        found = joined(energy, loss)(x, generator=make_generator(1))
        assert worst_of_all(1, me.device) == 1
        assert own_file(Path("a.safetensors")) == Path("a.safetensors")
    assert torch.equal(found, loss(energy, x, generator=make_generator(1)))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_is_taken_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    places = {"WORLD_SIZE": "1", "RANK": "0", "LOCAL_RANK": "0"}
    places |= {"MASTER_ADDR": "localhost", "MASTER_PORT": "29511"}
    for name, value in places.items():
        monkeypatch.setenv(name, value)
    with processes() as me:
        assert me.device == torch.device("cuda", 0)
