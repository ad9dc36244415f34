"""What a row says of its devices is what its job can be told."""

import inspect

import numpy as np
import pytest
import torch

from ebmtut.checks import InputError
from ebmtut.energies import MLPEnergy
from ebmtut.experiments import get_experiment
from ebmtut.experiments.dnfs import ebm_training, networks, pretrained_ebm
from ebmtut.experiments.dnfs.graph_problems import OTHERS
from ebmtut.experiments.ed import recipes
from ebmtut.experiments.ed.images import METHODS as METHODS_OF_IMAGES
from ebmtut.experiments.ed.recipes import METHODS
from ebmtut.experiments.ed.variants import LIVE
from ebmtut.experiments.experiment import resolve_device, told
from ebmtut.experiments.got import coupling_1d
from ebmtut.experiments.pmp.chains import METHODS as METHODS_OF_ZEROS
from ebmtut.experiments.pmp.deconvolution import PROTOCOLS
from ebmtut.experiments.registry import available
from ebmtut.flows import flow_distributions
from ebmtut.losses import RBM_METHODS
from ebmtut.training import FlowConfig
from tests.experiments.cuts import FEW, NETWORKS, cut, in_two_steps
from tests.pretended_gpu import pretended_gpu


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


def test_float32_is_not_rounded_to_tf32_on_a_gpu(monkeypatch):
    """Convolutions do so by default, and an acceptance test is of float32."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    assert resolve_device("cpu") == "cpu" and torch.backends.cudnn.allow_tf32
    assert resolve_device("auto") == "cuda"
    assert not torch.backends.cudnn.allow_tf32
    assert not torch.backends.cuda.matmul.allow_tf32


#: What the jobs that can use a GPU do, in the name of one of their experiments: all
#: methods, on small problems.
SMALL = {
    "ed/ising-rmse": {"problems": ((3, 0.2),), "methods": METHODS[:3]},
    "ed/densities": {"methods": dict.fromkeys(METHODS, 1)},
    "ed/epsilon": {"variants": (cut(LIVE),)},
    "ed/images": {"methods": METHODS_OF_IMAGES},
    "drl/marginal-vs-recovery": {"densities": ("checkerboard",), "elsewhere": ()},
    "drl/fid": {
        "steps": (("recovery likelihood", 3), ("score matching", 3)),
        "n_draws": 1,
    },
    "drl/samples": {},
    "drl/langevin-steps": {},
    "drl/interpolation": {"n_points": 3},
    "drl/inpainting": {},
    "drl/long-run": {},
    "drl/likelihood": {},
    "pmp/wrong-model": {},
    "pmp/log-partition": {"sizes": (3,)},
    "pmp/zeros-mmd": {"methods": tuple(METHODS_OF_ZEROS), "shrink": 4},
    "pmp/structured": {
        "side": 3,
        "n_nodes": 6,
        "methods": ("PMP", "PMP symmetric", "Gibbs-reset", "GWG-reset"),
        "updates": (2,),
    },
    "pmp/rbm": {"methods": RBM_METHODS, "shrink": 7, "lp_shrink": 14},
    "pmp/deconvolution": {"grid": 4, "protocols": tuple(PROTOCOLS)},
    "pmp/persistent": {"sizes": (4,), "rhos": (0.9,)},
    "got/gibbs-bands": {"snapshots": (2, 3)},
    "got/coupling-1d": {"epsilons": (2.0,), "temperatures": (2.0,)},
    "got/coulomb": {"epsilons": (0.5,)},
    "got/temperature-bound": {"fractions": (0.5,)},
    "got/wnmf-digits": {"source": "drawn faces", "side": 8, "n_components": 2},
    "dnfs/ising": {
        "problems": ((3, 0.1, 3),),
        "methods": ("ours", "paper, leConv", "LEAPS, leConv", "untrained", "SMC"),
    },
    "dnfs/pretrained-ebm": {
        "methods": ("DNFS", "Taylor", "LEAPS, leConv", "GFlowNet"),
        "n_bits": 3,
    },
    "dnfs/ebm-training": {"methods": ("DNFS", "EB-GFN"), "n_bits": 2},
    "dnfs/ising-learning": {"problems": ((3, 0.1),)},
    "dnfs/max-independent-set": {"rivals": OTHERS},
    "dnfs/networks": {"side": 3},
    # The other estimator is that of the published recipe in dnfs/ising.
    "dnfs/control-variate": {"estimators": ("plain",), "side": 3, "n_steps": 100},
    "dnfs/ising-mcmc": {"side": 4},
}


def rows_of_a_gpu():
    return [e for e in map(get_experiment, available()) if "cuda" in e.devices]


def test_every_job_of_a_gpu_is_tried():
    tried = {get_experiment(id).job for id in SMALL}
    assert {row.job for row in rows_of_a_gpu()} == tried


def integrated_in_four_steps(flow, n_steps, **options):
    return flow_distributions(flow, 4, **options)


def trained_in_two_steps(**options):
    return FlowConfig(**options | {"n_time_steps": 2})


def narrow(n_sites, *sizes, **options):
    return MLPEnergy(n_sites, 4, 2, **options)


#: Experiments whose paper's preset takes another path than their quick one.
OTHER_PATHS = {
    "dnfs/trajectory": {"methods": ("DNFS",), "n_bits": 16},
    "dnfs/ebm-training": {"methods": ("DNFS",), "n_bits": 16},
    "dnfs/ising-learning": {"problems": ((3, 0.1),), "network": "leTF"},
    "ed/images": {"methods": ("ED-Bern", "PCD, DULA"), "network": "residual"},
}


@pytest.mark.parametrize(("id", "how"), [*SMALL.items(), *OTHER_PATHS.items()])
@pytest.mark.usefixtures("few_images", "few_points")
def test_a_job_keeps_to_the_device_that_it_is_told(id, how, monkeypatch):
    """Nothing that it makes on the processor meets what lies on a GPU."""
    if id.startswith("drl/"):
        pytest.importorskip("sklearn")
    # Five networks: sixty steps of training, and two evaluations each, in 64 steps.
    monkeypatch.setattr(networks, "PACE", dict.fromkeys(networks.PACE, 1))
    monkeypatch.setattr(networks.flows, "simulate", in_two_steps)
    monkeypatch.setattr(networks.flows, "flow_distributions", integrated_in_four_steps)
    monkeypatch.setattr(pretrained_ebm, "N_TIMES", 4)
    monkeypatch.setattr(networks, "FlowConfig", trained_in_two_steps)
    for module in (recipes, pretrained_ebm, ebm_training):
        monkeypatch.setattr(module, "MLPEnergy", narrow)
    monkeypatch.setattr(coupling_1d, "_LONGEST", 10)
    row = get_experiment(id)
    config = cut(row.presets["quick"], FEW | NETWORKS, **how)
    row.extras(config, 0)  # on the processor; what it loads is kept
    with pretended_gpu() as (device, _):
        jobs, _ = row._jobs(config, 0, device)
        for job in jobs.values():
            for value in row.job(**job).arrays.values():
                assert isinstance(value, np.ndarray)
        if asks := told(row.extras, device):
            row.extras(config, 0, **asks)
