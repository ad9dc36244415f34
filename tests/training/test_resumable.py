"""A loop of several learners: stopped anywhere, it goes on bit for bit."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from ebmtut import deadlines
from ebmtut.checks import InputError
from ebmtut.deadlines import OutOfTime, deadline
from ebmtut.experiments.registry import get_experiment
from ebmtut.random import make_generator
from ebmtut.results.checkpoints import load_checkpoint, save_checkpoint
from ebmtut.training import ResumableLoop


@pytest.fixture
def clock(monkeypatch):
    """Time that passes by one with every look at it, from 0."""
    looks = SimpleNamespace(n=0)

    def now():
        looks.n += 1
        return float(looks.n - 1)

    monkeypatch.setattr(deadlines, "time", SimpleNamespace(time=now))
    return looks


def walk(checkpoint=None, n_steps=7, every=3):
    """Two stretches of a noisy descent, and which steps were taken."""
    generator = make_generator(0)
    net = nn.Linear(3, 1, bias=False)
    with torch.no_grad():
        net.weight.fill_(0.5)
    adam = torch.optim.Adam(net.parameters(), 0.1)
    rate = torch.optim.lr_scheduler.CosineAnnealingLR(adam, n_steps)
    held = {"sum": torch.zeros(())}
    loop = ResumableLoop(
        checkpoint,
        {"n_steps": n_steps},
        {"net": net, "adam": adam, "rate": rate},
        generator=generator,
        held=held,
        every=every,
    )
    taken = []
    for length in (n_steps, 4):
        for step in loop.steps(length):
            loss = net(torch.randn(5, 3, generator=generator)).square().mean()
            adam.zero_grad()
            loss.backward()
            adam.step()
            if length == n_steps:
                rate.step()
            held["sum"] = held["sum"] + loss.detach()
            taken.append(step)
    return taken, net.weight.detach(), held["sum"], loop.seconds


@pytest.mark.parametrize("moment", range(10))
def test_a_loop_goes_on_from_where_it_was_stopped(tmp_path, clock, moment):
    whole = walk()
    file = tmp_path / "loop.safetensors"
    with deadline(moment), pytest.raises(OutOfTime):
        walk(file)
    before = load_checkpoint(file)[1]
    # At the end of a stretch it goes on to the next.
    assert before["taken"] == moment + 1 + (moment == 6)
    taken, weight, total, seconds = walk(file)
    assert [*range(7), *range(4)][before["taken"] :] == taken
    assert torch.equal(weight, whole[1]) and torch.equal(total, whole[2])
    assert seconds > before["seconds"]
    assert walk(file)[0] == []


def test_a_killed_loop_goes_on_from_its_last_checkpoint(tmp_path):
    file = tmp_path / "loop.safetensors"
    kept = []
    replaced = walk.__globals__["ResumableLoop"]._save

    def saves(loop, path):
        replaced(loop, path)
        kept.append(path.read_bytes())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ResumableLoop, "_save", saves)
        whole = walk(file)
    assert len(kept) == 5  # after 3, 6, 7, then 3 and 4 steps
    for content in kept:
        file.write_bytes(content)
        assert torch.equal(walk(file)[1], whole[1])


def test_another_loops_checkpoint_is_refused(tmp_path):
    file = tmp_path / "loop.safetensors"
    walk(file)
    with pytest.raises(InputError, match=r"loop.safetensors was made with .*7.* not"):
        walk(file, n_steps=8)
    with pytest.raises(InputError, match=r"loop.safetensors needs an identity"):
        ResumableLoop(file, None, {}, generator=make_generator(0))
    save_checkpoint(file, {}, {"step": 1})
    with pytest.raises(InputError, match="was made with None"):
        walk(file)


_PLANE = {"n_bits": 2, "n_energy_steps": 5, "n_samples": 20, "n_time_steps": 3}
_JOINT = {
    "densities": ("moons",),
    "n_bits": 2,
    "n_steps": 6,
    "n_last": 4,
    "n_samples": 16,
    "n_reused": 3,
    "n_time_steps": 3,
    "gflownet": {"n_steps": 6, "n_last": 4, "n_samples": 8},
}
_SPINS = {"problems": ((3, 0.1),), "n_data": 10, "n_sweeps": 2}
_LEARNING = {**_SPINS, "n_steps": 6, "n_samples": 16, "n_time_steps": 2}
_ZEROS = {"shrink": 7, "n_steps": 6, "n_chains": 5, "n_sweeps": 2, "n_judged": 20}
_GLASS = {"sizes": (4,), "n_data": 20, "n_steps": 6, "n_chains": 5, "n_judged": 20}
_RBM = {
    "shrink": 7,
    "n_hidden": 3,
    "n_steps": 6,
    "batch_size": 10,
    "n_chains": 5,
    "n_sweeps": 2,
    "sweeps": (2,),
    "n_judged": 20,
}
#: A row, its scale, what is cut, a cell of it, and when it is stopped.
JOBS = {
    "flow": ("dnfs/pretrained-ebm", "quick", {**_PLANE, "n_steps": 6}, "DNFS", 4),
    "joint, at last": ("dnfs/ebm-table", "quick", _JOINT, "DNFS", 7),
    "joint, EB-GFN at last": ("dnfs/ebm-training", "quick", _JOINT, "EB-GFN", 7),
    "couplings": ("dnfs/ising-learning", "quick", _LEARNING, "DNFS", 4),
    "couplings by discrepancy": (
        "ed/ising-rmse",
        "quick",
        {**_SPINS, "penalties": (1.0, 5.0), "train": {"n_steps": 6, "batch_size": 4}},
        "ED-Grid",
        3,
    ),
    "zeros, PMP": ("pmp/zeros-mmd", "quick", _ZEROS, "PMP", 3),
    "glass, noise that is kept": ("pmp/persistent", "quick", _GLASS, "4", 3),
    "RBM, PCD": ("pmp/rbm", "quick", _RBM, "PCD-1", 3),
}


@pytest.mark.parametrize("name", JOBS)
def test_a_job_that_a_deadline_stops_goes_on_to_the_bit(name, tmp_path, clock):
    row, scale, cuts, method, moment = JOBS[name]
    row = get_experiment(row) if isinstance(row, str) else row
    cells = row.cells(row.config(scale, **cuts))
    job = {(k if isinstance(k, str) else k[0]): cell for k, cell in cells.items()}[
        method
    ]
    whole = row.job(**job, seed=3)
    file = tmp_path / "job.safetensors"
    with deadline(clock.n + moment), pytest.raises(OutOfTime):
        row.job(**job, seed=3, checkpoint=file)
    assert [*tmp_path.glob("job*.safetensors")]  # one, or one a penalty
    again = row.job(**job, seed=3, checkpoint=file)
    timed = {k for k in whole.scalars if k.endswith(("cpu s", "seconds"))}
    assert whole.scalars.keys() == again.scalars.keys()
    for key in whole.scalars.keys() - timed:
        assert again.scalars[key] == whole.scalars[key], key
    assert whole.arrays.keys() == again.arrays.keys()
    for key, value in whole.arrays.items():
        assert (again.arrays[key] == value).all(), key
