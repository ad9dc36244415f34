"""The paper's own setting is a preset of every row, or it is said why it is not."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch

from ebmtut.data import DataUnavailable
from ebmtut.experiments.dnfs import wide_planes
from ebmtut.experiments.drl import images as image_sets
from ebmtut.experiments.drl import long_run
from ebmtut.experiments.drl.images import (
    BEDROOMS,
    CELEBA,
    CHURCHES,
    CHURCHES_128,
    CIFAR10,
    T1K,
    draw_images,
    flipped,
    train_images,
)
from ebmtut.experiments.ed.evaluation import Evaluation
from ebmtut.experiments.registry import PAPERS_IN_FULL, available, get_experiment
from ebmtut.random import make_generator
from ebmtut.samplers import AdaptedStep

NOTHING_RUN = "the paper runs nothing here"
WITHOUT = {
    "pmp/persistent": NOTHING_RUN,
    "got/temperature-bound": NOTHING_RUN,
}

_PHOTOS = {"n_steps": 1, "batch_size": 4, "hidden": 4}
_SHORT = {**_PHOTOS, "batch_size": 64, "n_chain_steps": 1}
_PLANE = {"n_steps": 1, "n_samples": 100}
_GRAPHS = {
    "n_train": 2,
    "n_test": 2,
    "n_copies": 2,
    "n_time_steps": 2,
    "refinements": (0,),
    "rollout": {"n_graphs": 2, "n_copies": 2, "n_time_steps": 2},
    "train": {"n_steps": 1},
}
_PLANE_OF_BITS = {
    "recipe": {"n_steps": 1},
    "evaluation": {
        "n_data": 50,
        "n_uniform": 50,
        "n_proposal": 50,
        "n_repeats": 1,
        "coarse_bits": 4,
    },
    "n_pixels": 4,
}
_SPINS = {"n_data": 10, "n_sweeps": 2, "train": {"n_steps": 1}}
_DIGITS = {
    "source": "drawn",
    "n_steps": 1,
    "n_chains": 4,
    "n_sweeps": 2,
    "sweeps": (2,),
    "n_judged": 20,
}
_FACTORS = {
    "source": "small digits",
    "side": 8,
    "n_images": 40,
    "wnmf": {"n_epochs": 2},
    "n_exact": 2,
}
_BITS = {"n_energy_steps": 1, "n_steps": 1, "n_samples": 10, "n_time_steps": 2}
_JOINT = {
    "n_steps": 1,
    "n_flow_steps": 1,
    "n_last": 1,
    "n_time_steps": 2,
    "n_samples": 16,
}


def _one_step(variants):
    return tuple(replace(recipe, n_steps=1) for recipe in variants)


def _short(recipes):
    return tuple(replace(recipe, **_SHORT) for recipe in recipes)


def _few_levels(recipes):
    return tuple((k, replace(r, **_SHORT, n_levels=6)) for k, r in recipes)


_VARIANTS = {
    "variants": _one_step,
    "evaluation": _PLANE_OF_BITS["evaluation"],
    "n_pixels": 4,
}
#: A cell of each row, whose job runs at the paper's shape within seconds, and what is
#: cut there: steps, samples and data, but neither the network nor the law, save for
#: the channels of photographs and, where all levels are drawn, a thousand levels. A
#: function cuts what the preset has.
CUTS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "ed/images": (
        ("ED-Bern", "MNIST 28x28"),
        {
            "model": {"n_steps": 1, "batch_size": 4, "n_negatives": 2},
            "annealing": {"n_chains": 4, "n_steps": 4},
        },
    ),
    "drl/checkerboard": (("recovery",), {"plane": _PLANE}),
    "drl/marginal-vs-recovery": (("short-run", "checkerboard"), {"plane": _PLANE}),
    "pmp/structured": (
        ("random graph", "persistent", "Gibbs", "5"),
        {
            "n_steps_persistent": 1,
            "n_chains_persistent": 8,
            "n_data": 10,
            "n_data_sweeps": 2,
            "n_judged": 4,
        },
    ),
    "pmp/zeros-samples": (("PMP",), _DIGITS),
    "pmp/zeros-mmd": (("GWG-reset",), _DIGITS),
    "pmp/rbm": (("PMP",), _DIGITS),
    "pmp/rbm-twos": (("PCD-100",), _DIGITS),
    "pmp/coordinate-descent": (("coordinate descent",), _DIGITS),
    "got/wnmf-digits": (("Gibbs-OT",), _FACTORS),
    "got/wnmf-faces": (("Gibbs-OT",), {**_FACTORS, "source": "drawn faces"}),
    "got/timing": ((), {"images": _FACTORS, "budgets": (1,), "n_warm": 2}),
    "ed/ising-heatmaps": (("ED-Pool", "10x10, 0.2"), _SPINS),
    "ed/ising-rmse": (("ED-Grid", "9x9, -0.1"), _SPINS),
    "ed/densities": (("ED-Bern", "moons"), _PLANE_OF_BITS),
    "ed/densities-table": (("PCD", "moons"), _PLANE_OF_BITS),
    "ed/epsilon": (("ED-Bern-eps0.9-M32-w1",), _VARIANTS),
    "ed/window": (("ED-Pool-window4-M32-w1",), _VARIANTS),
    "ed/w-and-m": (("ED-Bern-eps0.1-M4-w0",), _VARIANTS),
    "drl/samples": (("CIFAR-10",), {"recipes": _short, "n_samples": 64}),
    "drl/ablation": (
        ("settings", "T6 K10"),
        {"recipe": _PHOTOS, "n_samples": 4},
    ),
    "drl/interpolation": (
        ("arcs",),
        {"recipe": _SHORT, "n_arcs": 4, "n_points": 3},
    ),
    "drl/inpainting": (("completions",), {"recipe": _SHORT, "n_images": 16}),
    "drl/long-run": (
        ("T1k",),
        {
            "recipes": _few_levels,
            "factors": (1,),
            "n_moves": (1,),
            "n_samples": 64,
        },
    ),
    "drl/likelihood": (
        ("bits",),
        {"recipe": {**_SHORT, "n_levels": 6}, "n_samples": 16},
    ),
    "drl/langevin-steps": (
        ("K = 10",),
        {"recipe": _PHOTOS, "n_sampling": 2, "n_looks": 1, "n_samples": 4},
    ),
    "drl/architectures": ((), {"channels": 8}),
    "drl/fid": (
        ("recovery likelihood", "CIFAR-10"),
        {"recipe": _PHOTOS, "steps": (("recovery likelihood", 1),), "n_samples": 4},
    ),
    "dnfs/networks": (("leMLP",), {"n_steps": 1, "n_samples": 4}),
    "dnfs/ising-learning": (
        ("DNFS", "9x9, -0.1"),
        {
            "n_steps": 1,
            "n_flow_steps": 1,
            "n_data": 10,
            "n_sweeps": 2,
            "n_time_steps": 2,
            "n_samples": 16,
        },
    ),
    "dnfs/pretrained-ebm": (("GFlowNet", "moons"), _BITS),
    "dnfs/taylor-ratio": (("Taylor", "moons"), _BITS),
    "dnfs/leaps-networks": (("LEAPS, leConv", "moons"), _BITS),
    "dnfs/trajectory": (("untrained", "moons"), _BITS),
    "dnfs/max-independent-set": (("16-20",), _GRAPHS),
    "dnfs/max-cut": (("16-20",), _GRAPHS),
    "dnfs/ebm-training": (("DNFS", "moons"), _JOINT),
    "dnfs/ebm-table": (("DNFS", "moons"), _JOINT),
    "dnfs/ising": (
        ("paper, leTF", "10x10, 0.1"),
        {
            "problems": lambda problems: tuple((*kind, 1) for *kind, _ in problems),
            "n_samples": 4,
            "n_chain_samples": 4,
            "n_time_steps": 2,
        },
    ),
    "dnfs/ising-mcmc": (("untrained",), {"n_samples": 4, "n_steps": 2}),
}


@pytest.mark.parametrize("id", available())
def test_a_row_has_the_papers_setting_or_says_why_not(id):
    experiment = get_experiment(id)
    assert ("paper" in experiment.presets) != (id in WITHOUT)
    for config in experiment.presets.values():
        assert experiment.cells(config)


@pytest.fixture
def few_photographs(monkeypatch):
    """A few images in the place of photographs, and a judge that hardly learned."""
    sets = {}
    for name in image_sets.PHOTOGRAPHS:
        side = int(name.rpartition("x")[2]) if "x" in name else 32
        images = torch.rand(24, 3, side, side, generator=make_generator(side))
        labels = torch.arange(24) % 10 if side == 32 else torch.zeros(24).long()
        known = image_sets.ImageSet(
            images[:16], labels[:16], images[16:], labels[16:], name
        )
        sets[name] = partial(lambda known: known, known)
    monkeypatch.setattr(image_sets, "PHOTOGRAPHS", sets)
    monkeypatch.setattr(
        image_sets, "_CLASSIFIER_OPTIONS", {k: {"n_steps": 1} for k in sets}
    )
    yield
    for known in (image_sets.image_set, image_sets.classifier_of):
        known.cache_clear()


@pytest.mark.parametrize("id", CUTS)
def test_a_job_runs_at_the_papers_shape(id, monkeypatch, few_photographs):
    look = Evaluation(50, n_uniform=0, n_proposal=1000, n_repeats=1, coarse_bits=5)
    monkeypatch.setattr(wide_planes, "EVALUATION", look)
    monkeypatch.setattr(wide_planes, "_BOUNDED", 2)
    # No search for the step sizes of long chains.
    monkeypatch.setattr(
        long_run, "adapt_step_size", lambda _, x, size, **how: AdaptedStep(size, 0.7, x)
    )
    names, cuts = CUTS[id]
    row = get_experiment(id)
    whole = row.presets["paper"]
    cut = {k: v(getattr(whole, k)) if callable(v) else v for k, v in cuts.items()}
    jobs = row.cells(row.config("paper", **cut))
    alone = {(k,) if isinstance(k, str) else k: job for k, job in jobs.items()}
    outcome = row.job(**alone[names], seed=0)
    assert outcome.scalars


RECIPES = {
    "CIFAR-10": CIFAR10,
    "CelebA": CELEBA,
    "churches": CHURCHES,
    "churches, 128": CHURCHES_128,
    "bedrooms": BEDROOMS,
    "T1": replace(CIFAR10, n_levels=1),
    "T1k": T1K,
    "T1k, score": replace(T1K, objective="score"),
}


@pytest.mark.parametrize("name", RECIPES)
def test_the_recipes_of_photographs_learn(name, few_photographs):
    """With few channels; `drl/architectures` builds the networks in full."""
    steps = min(1, RECIPES[name].n_chain_steps)
    recipe = replace(RECIPES[name], **_PHOTOS, n_chain_steps=steps)
    trained = train_images(recipe, 0)
    assert not trained.message and trained.stopped_at == 1
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
    mirrored = flipped(x, generator=make_generator(1))
    same = (mirrored == x).flatten(1).all(1)
    other = (mirrored == x.flip(3)).flatten(1).all(1)
    assert bool((same ^ other).all())
    assert abs(int(same.sum()) - 100) < 5 * 200**0.5 / 2


def test_the_last_level_is_learned_without_a_parabola():
    """As in the code, whose `is_recovery` is 0 there."""
    assert CIFAR10.noise.sigmas[-1] == 1.0
    sizes, scales = CIFAR10.chain.step_size, CIFAR10.scales
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
    # The same preset as of ed/images.
    alike = {"ed/images-table"}
    assert get_experiment("ed/images-table").config("paper") == get_experiment(
        "ed/images"
    ).config("paper")
    tried = CUTS.keys() | PAPERS_IN_FULL | longer | alike
    assert tried | WITHOUT.keys() == set(available())


def test_which_full_runs_have_the_papers_setting():
    found = {id for id in available() if get_experiment(id).has_papers_setting("full")}
    assert found == PAPERS_IN_FULL


def test_fewer_seeds_or_another_value_are_not_the_papers_setting():
    row = get_experiment("got/coupling-1d")
    full = row.presets["full"]

    def papers(config):
        changed = replace(row, presets={**row.presets, "full": config})
        return changed.has_papers_setting("full")

    assert papers(full) and papers(replace(full, n_seeds=1))
    assert not papers(replace(full, n_points=64))
    many = {**row.presets, "paper": replace(full, n_seeds=21)}
    assert not replace(row, presets=many).has_papers_setting("full")
