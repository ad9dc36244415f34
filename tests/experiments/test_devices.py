"""What a row says of its devices is what its job can be told."""

import inspect

import pytest

from ebmtut.checks import InputError
from ebmtut.experiments import get_experiment
from ebmtut.experiments.registry import available


def test_rows_say_truly_where_they_run():
    """A job that is told no device computes on the CPU; others on what they say."""
    wrong = []
    for experiment in map(get_experiment, available()):
        told = "device" in inspect.signature(experiment.job).parameters
        if told != ("cuda" in experiment.devices):
            wrong.append(f"{experiment.id}: {experiment.devices}, {told=}")
    assert not wrong, "\n".join(wrong)


def test_a_row_of_the_cpu_refuses_a_gpu_before_any_work(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    ids = [id for id in available() if get_experiment(id).devices == ("cpu",)]
    assert ids
    for id in ids:
        with pytest.raises(InputError, match=f"device must be auto, cpu for {id}, got"):
            get_experiment(id).run(device="cuda")
        assert get_experiment(id).device("auto") == "cpu"
