"""The paper's own setting is a preset of every row, or it is said why it is not."""

from dataclasses import fields, replace
from functools import partial
from typing import Any

import pytest
import torch

from ebmtut.data import DataUnavailable
from ebmtut.experiments.drl import images as image_sets
from ebmtut.experiments.drl import long_run
from ebmtut.experiments.drl.images import draw_images, train_images
from ebmtut.experiments.ed import images as ed_images
from ebmtut.experiments.registry import PAPERS_IN_FULL, available, get_experiment
from ebmtut.random import make_generator
from ebmtut.samplers import AdaptedStep
from ebmtut.training import FlowConfig, FlowFollower, TrainConfig
from tests.experiments.cuts import FEW, cut

NOTHING_RUN = "the paper runs nothing here"
WITHOUT = {"pmp/persistent": NOTHING_RUN, "got/temperature-bound": NOTHING_RUN}

DNFS = "ebmtut.experiments.dnfs"
_PHOTOS = {"hidden": 4, "n_samples": 4}
_SHORT = {"n_steps": 2, "batch_size": 4}
_BITS = _SHORT | {"hidden": 4, "n_samples": 17, "n_chain_steps": 1}
_FLOW = {"n_samples": 16}
_DIGITS = {"source": "drawn"}
_FACTORS = {"source": "small digits", "side": 8, "n_images": 40}
#: A cell of each experiment, whose job runs at the paper's shape within seconds, and
#: what is cut there besides steps, samples and data: neither the network nor the
#: distribution, save for the channels of photographs.
CUTS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "ed/images": (("ED-Bern", "MNIST 28x28"), {}),
    "drl/checkerboard": (("recovery",), {}),
    "drl/marginal-vs-recovery": (("short-run", "checkerboard"), {}),
    "pmp/structured": (("random graph", "persistent", "Gibbs", "5"), {}),
    "pmp/zeros-samples": (("PMP",), _DIGITS),
    "pmp/zeros-mmd": (("GWG-reset",), _DIGITS),
    "pmp/rbm": (("PMP",), _DIGITS),
    "pmp/rbm-twos": (("PCD-100",), _DIGITS),
    "pmp/coordinate-descent": (("coordinate descent",), _DIGITS),
    "got/wnmf-digits": (("Gibbs-OT",), _FACTORS),
    "got/wnmf-faces": (("Gibbs-OT",), _FACTORS | {"source": "drawn faces"}),
    "got/timing": ((), _FACTORS),
    "ed/ising-heatmaps": (("ED-Pool", "10x10, 0.2"), {}),
    "ed/ising-rmse": (("ED-Grid", "9x9, -0.1"), {}),
    "ed/densities": (("ED-Bern", "moons"), {}),
    "ed/densities-table": (("PCD", "moons"), {}),
    "ed/epsilon": (("ED-Bern-eps0.9-M4-w1",), {}),
    "ed/window": (("ED-Pool-window4-M4-w1",), {}),
    "ed/w-and-m": (("ED-Bern-eps0.1-M4-w0",), {}),
    "drl/samples": (("CIFAR-10",), _SHORT | {"hidden": 4}),
    "drl/ablation": (("settings", "T6 K10"), _PHOTOS | _SHORT),
    "drl/interpolation": (("arcs",), _PHOTOS | _SHORT),
    "drl/inpainting": (("completions",), _PHOTOS),
    "drl/long-run": (("T1k",), _SHORT | {"hidden": 4}),
    "drl/likelihood": (("bits",), _BITS),
    "drl/langevin-steps": (("K = 10",), _PHOTOS | _SHORT),
    "drl/architectures": ((), {"channels": 8}),
    "drl/fid": (("recovery likelihood", "CIFAR-10"), _PHOTOS),
    "dnfs/networks": (("leMLP",), _FLOW),
    "dnfs/ising-learning": (("DNFS", "9x9, -0.1"), _FLOW),
    "dnfs/pretrained-ebm": (("GFlowNet", "moons"), _FLOW),
    "dnfs/taylor-ratio": (("Taylor", "moons"), _FLOW),
    "dnfs/leaps-networks": (("LEAPS, leConv", "moons"), _FLOW),
    "dnfs/trajectory": (("untrained", "moons"), _FLOW),
    "dnfs/max-independent-set": (("16-20",), {}),
    "dnfs/max-cut": (("16-20",), {}),
    "dnfs/ebm-training": (("DNFS", "moons"), _FLOW),
    "dnfs/ising": (
        ("paper, leTF", "10x10, 0.1"),
        {"problems": ((10, 0.1, 1),), "n_chain_samples": 2} | _FLOW,
    ),
    "dnfs/ising-mcmc": (("untrained",), {}),
}


@pytest.mark.parametrize("id", available())
def test_a_row_has_the_papers_setting_or_says_why_not(id):
    experiment = get_experiment(id)
    assert ("paper" in experiment.presets) != (id in WITHOUT)
    for config in experiment.presets.values():
        assert experiment.cells(config)


@pytest.fixture
def few_photographs(monkeypatch, few_images):
    """A few images in the place of photographs."""
    sets = {}
    for name in image_sets.PHOTOGRAPHS:
        side = int(name.rpartition("x")[2]) if "x" in name else 32
        images = torch.rand(24, 3, side, side, generator=make_generator(side))
        labels = torch.arange(24) % 10 if side == 32 else torch.zeros(24).long()
        sets[name] = image_sets.ImageSet(
            images[:16], labels[:16], images[16:], labels[16:], name
        )
    load = image_sets.image_set
    monkeypatch.setattr(
        image_sets, "image_set", lambda name: sets.get(name) or load(name)
    )


@pytest.mark.parametrize("id", CUTS)
@pytest.mark.usefixtures("few_photographs", "few_points")
def test_a_job_runs_at_the_papers_shape(id, monkeypatch):
    # What no configuration says: held-out images, trajectories, batches, times.
    images = ed_images.binary_images("MNIST 28x28")
    images = images._replace(held_out=images.held_out[:16])
    monkeypatch.setattr(ed_images, "binary_images", {"MNIST 28x28": images}.get)
    for module in ("lattices", "networks", "pretrained_ebm"):
        few = partial(FlowConfig, n_trajectories=8)
        monkeypatch.setattr(f"{DNFS}.{module}.FlowConfig", few)
        few = partial(TrainConfig, batch_size=32)
        monkeypatch.setattr(f"{DNFS}.{module}.TrainConfig", few)
    for module in ("ising_learning", "ebm_training"):
        few = partial(FlowFollower, n_times=2, n_rows=4)
        monkeypatch.setattr(f"{DNFS}.{module}.FlowFollower", few)
    monkeypatch.setattr(f"{DNFS}.pretrained_ebm.N_TIMES", 4)
    # No search for the step sizes of long chains.
    monkeypatch.setattr(
        long_run, "adapt_step_size", lambda _, x, size, **how: AdaptedStep(size, 0.7, x)
    )
    names, exact = CUTS[id]
    row = get_experiment(id)
    jobs = row.cells(cut(row.presets["paper"], **exact))
    alone = {(k,) if isinstance(k, str) else k: job for k, job in jobs.items()}
    # The settings of drl/ablation are no part of its configuration.
    few = {"n_chain_steps": 1}
    job = {name: cut(part, few) for name, part in alone[names].items()}
    outcome = row.job(**job, seed=0)
    assert outcome.scalars


RECIPES = {
    "CIFAR-10": image_sets.CIFAR10,
    "CelebA": image_sets.CELEBA,
    "churches": image_sets.CHURCHES,
    "churches, 128": image_sets.CHURCHES_128,
    "bedrooms": image_sets.BEDROOMS,
    "T1": replace(image_sets.CIFAR10, n_levels=1),
    "T1k": image_sets.T1K,
    "T1k, score": replace(image_sets.T1K, objective="score"),
}


@pytest.mark.parametrize("name", RECIPES)
def test_the_recipes_of_photographs_learn(name, few_photographs):
    """With few channels; `drl/architectures` builds the networks in full."""
    recipe = cut(RECIPES[name], FEW | {"n_levels": 1000}, **_PHOTOS)
    trained = train_images(recipe, 0)
    assert not trained.message and trained.cost["steps"] == 4
    if recipe.n_levels == 6:
        drawn = draw_images(trained.energy, recipe, 3, generator=make_generator(1))
        assert drawn.shape[:2] == (8, 3) and bool(drawn.isfinite().all())


def test_the_distances_of_the_paper_are_of_all_its_sets(few_photographs):
    row = get_experiment("drl/fid")
    jobs = row.cells(row.presets["paper"])
    assert {data for _, data in jobs} == image_sets.PHOTOGRAPHS.keys()
    for (method, data), job in jobs.items():
        assert method == "recovery likelihood" and job["n_samples"] == 50_000
        recipe = job["recipe"]
        assert recipe.data == data and recipe.n_steps == 1_000_000
        image = image_sets.image_set(data).images[:1]
        few = replace(recipe, hidden=4).energy(tuple(image.shape[1:]), 0)
        assert few(image, torch.zeros(1).long()).shape == (1,)


def test_a_flip_mirrors_whole_images():
    x = torch.rand(200, 3, 4, 4, generator=make_generator(0))
    mirrored = image_sets.CIFAR10.augmented(x, generator=make_generator(1))
    same = (mirrored == x).flatten(1).all(1)
    other = (mirrored == x.flip(3)).flatten(1).all(1)
    assert bool((same ^ other).all())
    assert abs(int(same.sum()) - 100) < 5 * 200**0.5 / 2


def test_the_last_level_is_learned_without_a_parabola():
    """As in the code, whose `is_recovery` is 0 there."""
    assert image_sets.CIFAR10.noise.sigmas[-1] == 1.0
    sizes, scales = image_sets.CIFAR10.chain.step_size, image_sets.CIFAR10.scales
    assert sizes[-1] ** 2 == pytest.approx(scales[-1])


def test_photographs_that_are_not_there_are_asked_for(monkeypatch, tmp_path):
    monkeypatch.setenv("EBMTUT_DATA", str(tmp_path))
    monkeypatch.setenv("EBMTUT_OFFLINE", "1")
    with pytest.raises(DataUnavailable, match=r"cifar-10-binary\.tar\.gz"):
        image_sets.image_set("CIFAR-10")


def test_every_row_with_the_papers_setting_is_tried():
    """By a job that is cut, or by its full run, which has the same setting."""
    # It asks for a hundred steps of the network that dnfs/ising tries.
    longer = {"dnfs/control-variate"}
    alike = {"ed/images-table": "ed/images", "dnfs/ebm-table": "dnfs/ebm-training"}
    for pair in alike.items():
        one, other = map(get_experiment, pair)
        assert one.job is other.job and one.config("paper") == other.config("paper")
    tried = CUTS.keys() | PAPERS_IN_FULL | longer | alike.keys()
    assert tried | WITHOUT.keys() == set(available())


def is_the_papers(config, paper):
    """Whether a preset is the paper's own setting, with as many seeds or more."""
    n_seeds, wanted = (getattr(c, "n_seeds", 1) for c in (config, paper))
    if paper is None or n_seeds < wanted:
        return False
    names = {f.name for f in fields(config)} - {"n_seeds"}
    return all(getattr(config, name) == getattr(paper, name) for name in names)


def test_which_full_runs_have_the_papers_setting():
    presets = {id: get_experiment(id).presets for id in available()}
    found = {
        k for k, of in presets.items() if is_the_papers(of["full"], of.get("paper"))
    }
    assert found == PAPERS_IN_FULL


def test_fewer_seeds_or_another_value_are_not_the_papers_setting():
    presets = get_experiment("got/coupling-1d").presets
    full, paper = presets["full"], presets["paper"]
    assert is_the_papers(full, paper) and is_the_papers(replace(full, n_seeds=1), paper)
    assert not is_the_papers(replace(full, n_points=64), paper)
    assert not is_the_papers(full, replace(full, n_seeds=21))
