"""What a row says of its devices is what its job can be told."""

import inspect
from dataclasses import replace

import numpy as np
import pytest
import torch

from ebmtut.checks import InputError
from ebmtut.experiments import get_experiment
from ebmtut.experiments.dnfs import networks, wide_planes
from ebmtut.experiments.dnfs.graph_problems import OTHERS
from ebmtut.experiments.drl.images import ImageRecipe
from ebmtut.experiments.ed.evaluation import Evaluation
from ebmtut.experiments.ed.images import METHODS as METHODS_OF_IMAGES
from ebmtut.experiments.ed.recipes import METHODS, Recipe
from ebmtut.experiments.experiment import resolve_device, told
from ebmtut.experiments.pmp.chains import METHODS as METHODS_OF_ZEROS
from ebmtut.experiments.registry import available
from ebmtut.flows import simulate
from ebmtut.losses import RBM_METHODS
from ebmtut.metrics import grid_log_partition
from ebmtut.training import EBGFNConfig, TrainConfig
from ebmtut.training.graph_flow import GraphFlowConfig
from ebmtut.transport import WNMFConfig
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


DENSITY = Recipe(
    n_steps=3, batch_size=8, n_negatives=4, n_backward=2, precision="float32"
)
LOOK = Evaluation(n_data=50, n_uniform=100, n_proposal=500, n_repeats=1, coarse_bits=4)
PLANE = {
    "n_steps": 3,
    "batch_size": 16,
    "n_starts": 2,
    "hidden": 8,
    "n_features": 4,
    "n_samples": 160,
}
IMAGES = ImageRecipe(n_steps=3, hidden=8, n_layers=2, batch_size=8, n_warmup=2)
FLOW = {"width": 4, "n_hidden": 4, "n_samples": 8}

PLANES = {
    "n_energy_steps": 2,
    "n_steps": 2,
    "width": 4,
    "n_layers": 1,
    "n_time_steps": 2,
    "n_samples": 8,
}
JOINTLY = {
    "densities": ("8gaussians",),
    "n_steps": 3,
    "n_last": 2,
    "n_time_steps": 2,
    "n_samples": 8,
    "n_reused": 1,
    "width": 4,
    "gflownet": EBGFNConfig(n_steps=2, n_samples=8, n_last=1),
}
GRAPH_STEPS = TrainConfig(n_steps=3, ema_decay=0.9, precision="float32")

#: A few steps of each job that can use a GPU, in the name of one of its rows.
SMALL = {
    "ed/ising-rmse": {
        "problems": ((3, 0.2),),
        "methods": ("ED-Bern", "ED-Grid", "ED-Pool"),
        "n_data": 20,
        "n_sweeps": 2,
        "train": {"n_steps": 2, "batch_size": 8},
    },
    "ed/densities": {
        "densities": ("checkerboard",),
        "methods": dict.fromkeys(METHODS, 1),
        "recipe": DENSITY,
        "evaluation": LOOK,
        "n_pixels": 8,
    },
    "ed/epsilon": {"variants": (DENSITY,), "evaluation": LOOK, "n_pixels": 8},
    "ed/images": {
        "methods": METHODS_OF_IMAGES,
        "model": {"n_steps": 2, "hidden": 4, "batch_size": 4, "n_negatives": 2},
        "annealing": {"n_chains": 4, "n_steps": 4},
    },
    "drl/marginal-vs-recovery": {"densities": ("checkerboard",), "plane": PLANE},
    "drl/fid": {
        "recipe": IMAGES,
        "data": ("digits 8x8",),
        "steps": (("recovery likelihood", 3), ("score matching", 3)),
        "n_samples": 64,
    },
    "drl/samples": {"recipes": (IMAGES,), "n_samples": 64},
    "drl/langevin-steps": {
        "recipe": IMAGES,
        "n_chain_steps": (1,),
        "n_looks": 2,
        "n_samples": 16,
    },
    "drl/interpolation": {"recipe": IMAGES, "n_arcs": 16, "n_points": 3},
    "drl/inpainting": {"recipe": IMAGES, "n_images": 16},
    "drl/long-run": {
        "recipes": (("recipe", IMAGES),),
        "factors": (1, 2),
        "n_moves": (1, 3),
        "n_samples": 64,
    },
    "drl/likelihood": {"recipe": IMAGES, "n_samples": 64},
    "pmp/wrong-model": {"n_steps": 2, "n_chains": 5, "n_sweeps": 2, "n_judged": 20},
    "pmp/log-partition": {
        "sizes": (3,),
        "n_models": 1,
        "n_perturbations": 3,
        "n_on_lattice": 3,
        "n_sweeps": 2,
    },
    "pmp/zeros-mmd": {
        "methods": tuple(METHODS_OF_ZEROS),
        "shrink": 4,
        "n_steps": 2,
        "n_chains": 3,
        "n_sweeps": 1,
        "sweeps": (1, 2),
        "n_judged": 4,
    },
    "pmp/structured": {
        "side": 3,
        "n_nodes": 6,
        "methods": ("PMP", "PMP symmetric", "Gibbs-reset", "GWG-reset"),
        "sweeps": (2,),
        "updates": (2,),
        "n_data": 20,
        "n_data_sweeps": 2,
        "n_steps": 2,
        "n_chains": 4,
        "n_judged": 5,
    },
    "pmp/rbm": {
        "methods": RBM_METHODS,
        "shrink": 7,
        "n_hidden": 3,
        "n_steps": 2,
        "batch_size": 8,
        "n_chains": 4,
        "n_sweeps": 2,
        "sweeps": (2, 3),
        "n_judged": 5,
        "lp_steps": 1,
        "lp_shrink": 14,
        "lp_hidden": 2,
        "lp_chains": 2,
    },
    "pmp/deconvolution": {
        "n_images": 2,
        "grid": 4,
        "n_sweeps": 2,
        "protocols": ("one copy", "36 copies", "white border", "Gibbs"),
    },
    "pmp/persistent": {
        "sizes": (4,),
        "rhos": (0.9,),
        "sweeps": (1,),
        "n_steps": 2,
        "n_chains": 4,
        "n_data": 20,
        "n_judged": 8,
        "judged_sweeps": 2,
    },
    "got/gibbs-bands": {"n_points": 8, "snapshots": (2, 3)},
    "got/coupling-1d": {
        "n_points": 8,
        "budgets": (3,),
        "epsilons": (2.0,),
        "temperatures": (2.0,),
    },
    "got/coulomb": {"n_points": 16, "budgets": (3,), "epsilons": (0.5,)},
    "got/temperature-bound": {
        "n_points": 8,
        "budgets": (4,),
        "fractions": (0.5,),
        "n_iterations": 20,
        "n_long": 8,
        "chain_points": 4,
        "chain_iterations": 3,
        "n_chains": 20,
    },
    "got/wnmf-digits": {
        "source": "drawn faces",
        "n_images": 4,
        "side": 8,
        "wnmf": WNMFConfig(n_components=2, n_epochs=3, max_passes=2, mixing_window=1),
        "n_rounds": 1,
        "n_steps": 2,
        "n_iterations": 5,
        "n_exact": 2,
        "n_bound_passes": 2,
        "n_looks": 1,
    },
    "dnfs/ising": {
        "problems": ((3, 0.1, 3),),
        "methods": ("ours", "paper, leConv", "LEAPS, leConv", "untrained", "SMC"),
        "n_chain_samples": 8,
        "n_time_steps": 3,
        **FLOW,
    },
    "dnfs/pretrained-ebm": {
        **PLANES,
        "methods": ("DNFS", "Taylor", "LEAPS, leConv", "GFlowNet"),
        "n_bits": 3,
    },
    "dnfs/ebm-training": {**JOINTLY, "methods": ("DNFS", "EB-GFN"), "n_bits": 2},
    "dnfs/ising-learning": {
        "problems": ((3, 0.1),),
        "n_data": 20,
        "n_sweeps": 2,
        "n_steps": 2,
        "n_flow_steps": 1,
        "n_time_steps": 2,
        "n_samples": 16,
        "width": 2,
        "n_hidden": 2,
    },
    "dnfs/max-independent-set": {
        "n_train": 8,
        "n_test": 2,
        "n_copies": 2,
        "n_time_steps": 2,
        "refinements": (0, 1),
        "width": 4,
        "rollout": GraphFlowConfig(
            n_graphs=2, n_copies=2, n_time_steps=2, inner_steps=2, anneal=0.5
        ),
        "train": GRAPH_STEPS,
        "rivals": OTHERS,
    },
    "dnfs/networks": {"side": 3, "n_steps": 1, "n_samples": 8, "sizes": FLOW},
    # The other estimator is that of the published recipe in dnfs/ising.
    "dnfs/control-variate": {
        "estimators": ("plain",),
        "side": 3,
        "n_steps": 100,
        "width": 4,
    },
    "dnfs/ising-mcmc": {
        "side": 4,
        "n_samples": 8,
        "n_steps": 2,
        "n_train": 2,
        "flow": FLOW,
    },
}


def rows_of_a_gpu():
    return [e for e in map(get_experiment, available()) if "cuda" in e.devices]


def test_every_job_of_a_gpu_is_tried():
    tried = {get_experiment(id).job for id in SMALL}
    assert {row.job for row in rows_of_a_gpu()} == tried


@pytest.mark.parametrize("id", SMALL)
def test_a_job_keeps_to_the_device_that_it_is_told(id, monkeypatch):
    """Nothing that it makes on the processor meets what lies on a GPU."""
    if id.startswith("drl/") and "recipe" in str(SMALL[id]):
        pytest.importorskip("sklearn")
    if id == "dnfs/networks":
        # Five networks: sixty steps of training, and two evaluations each, in 64 steps.
        monkeypatch.setattr(networks, "PACE", dict.fromkeys(networks.PACE, 1))
        monkeypatch.setattr(networks.flows, "simulate", in_two_steps)
    keeps_to_its_device(id, SMALL[id])


def in_two_steps(flow, n_samples, n_steps, **options):
    return simulate(flow, n_samples, 2, **options)


#: Rows whose paper's preset takes another way than their quick one.
OTHER_WAYS = {
    "dnfs/trajectory": {
        **PLANES,
        "methods": ("DNFS", "LEAPS, leConv", "GFlowNet"),
        "n_bits": 16,
    },
    "dnfs/ebm-training": {**JOINTLY, "methods": ("DNFS",), "n_bits": 16},
    "dnfs/ising-learning": {
        **SMALL["dnfs/ising-learning"],
        "network": "leTF",
        "width": 4,
    },
    "dnfs/max-cut": SMALL["dnfs/max-independent-set"] | {"n_layers": 1, "rivals": ()},
    "ed/images": {
        **SMALL["ed/images"],
        "methods": ("ED-Bern", "PCD, DULA"),
        "model": {**SMALL["ed/images"]["model"], "network": "residual"},
    },
}


def on_a_coarse_grid(energy, *, coarse_bits, **options):
    return grid_log_partition(energy, coarse_bits=4, **options)


@pytest.mark.parametrize("id", OTHER_WAYS)
def test_the_paper_s_way_keeps_to_the_device(id, monkeypatch):
    fewer = replace(
        wide_planes.EVALUATION,
        n_data=50,
        n_uniform=100,
        n_proposal=500,
        n_repeats=1,
        coarse_bits=4,
    )
    monkeypatch.setattr(wide_planes, "EVALUATION", fewer)
    monkeypatch.setattr(wide_planes, "_BOUNDED", 2)
    monkeypatch.setattr(wide_planes, "grid_log_partition", on_a_coarse_grid)
    keeps_to_its_device(id, OTHER_WAYS[id])


def keeps_to_its_device(id, knobs):
    row = get_experiment(id)
    config = row.config("quick", **knobs)
    if isinstance(getattr(config, "n_seeds", None), int):
        config = replace(config, n_seeds=1)
    row.extras(config, 0)  # on the processor; what it loads is kept
    with pretended_gpu() as (device, _):
        jobs, _ = row._jobs(config, 0, device)
        for job in jobs.values():
            for value in row.job(**job).arrays.values():
                assert isinstance(value, np.ndarray)
        if asks := told(row.extras, device):
            row.extras(config, 0, **asks)
