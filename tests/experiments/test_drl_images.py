"""The image experiments: a recipe, a classifier, and results that claims can read."""

import math
from dataclasses import replace

import pytest
import torch

from ebmtut.checks import DivergenceError, InputError
from ebmtut.experiments import get_experiment
from ebmtut.experiments.drl import images
from ebmtut.experiments.drl.ablation import LIVE, recipes_table, remedies_table
from ebmtut.experiments.drl.interpolation import along, middle_table
from ebmtut.random import make_generator

pytest.importorskip("sklearn")

TINY = images.ImageRecipe(n_steps=6, hidden=8, n_layers=2, batch_size=8, n_warmup=2)


def test_tables_say_which_runs_converged_and_how_far_from_the_data():
    experiment = get_experiment("drl/ablation")
    result = experiment.stored()
    lost = {"steps": [5, 7], "distance": [None, 4.0]}
    kept = {"steps": [9, 9], "distance": [1.0, 3.0]}
    table = {"settings": result.scalars["table"]["settings"]}
    table |= {"variants": {"x, a": lost, "x, b": kept, "y, b": lost}}
    result = replace(result, scalars={"table": table})
    rows = remedies_table(result, heads=("x", "y"), changes=("a", "b")).rows
    assert rows[0] == ("a", "1 of 2", "4", "–", "–")
    assert rows[1] == ("b", "2 of 2", "2.0 ± 1.0", "1 of 2", "4")
    known = {"held-out data": 9.0, "Gaussian fit": 90.0}
    trained = {"seconds": [2.0, 4.0], **lost}
    recipes = {"recipes": {LIVE: trained, "short": trained | {"distance": [5.0, 4.0]}}}
    whole = replace(result, scalars={"table": table | recipes, "known": known})
    rows = recipes_table(whole).rows
    assert rows[0] == (LIVE, "1 of 2", "4", "4.0 to 4.0", "3")
    assert rows[1][1:4] == ("2 of 2", "4.5 ± 0.5", "4.0 to 5.0")
    assert [row[0] for row in rows[2:]] == ["held-out data", "Gaussian fit"]
    (claimed,) = (v for v in experiment.check(whole) if v.name.startswith(LIVE))
    assert claimed.verdict == "miss"  # a seed was lost
    trained["distance"] = [9.0, 13.05]  # five percent of the way
    (claimed,) = (v for v in experiment.verdicts(whole) if v.name.startswith(LIVE))
    assert claimed.verdict == "match" and claimed.baseline == 1.0
    trained["distance"] = [9.0, 13.2]
    (claimed,) = (v for v in experiment.check(whole) if v.name.startswith(LIVE))
    assert claimed.verdict == "miss"


def test_several_draws_of_one_energy_are_judged_by_their_mean():
    one, two = (
        images.image_job(TINY, 64, seed=3, n_draws=n_draws).scalars
        for n_draws in (1, 2)
    )
    assert "spread" not in one
    second = 2 * two["distance"] - one["distance"]
    spread = abs(second - one["distance"]) / 2**0.5
    assert two["spread"] == pytest.approx(spread, rel=1e-6)
    assert spread > 0


def test_an_energy_that_cannot_be_drawn_from_has_no_distance(monkeypatch):
    def lost(*args, **of):
        raise DivergenceError("chains diverged", step=-1)

    monkeypatch.setattr(images, "draw_images", lost)
    assert images.image_job(TINY, 16, 0).scalars.keys() == {"seconds", "steps"}


def test_halfway_is_the_middle_of_every_seed_s_arcs():
    result = get_experiment("drl/interpolation").run(
        "quick", recipe=TINY, n_arcs=16, n_points=3, n_seeds=2
    )
    arcs = result.scalars["arc"]["distance"]
    assert along(result, "arc", 1)["distance"] == [arcs[0][1], arcs[1][1]]
    table = middle_table(result)
    assert table.kinds == ("", "null", "") and "Seeds: 2" in table.caption
    wanted = [(arc[0] + arc[-1]) / 2 for arc in arcs]
    assert along(result, "arc", 0, -1)["distance"] == pytest.approx(wanted, rel=1e-12)
    ends = [result.scalars[way]["distance"][1][0] for way in ("arc", "blend")]
    assert ends[0] == ends[1]  # both ways have the same ends


def test_a_judge_that_tells_no_fit_from_data_makes_no_claim_of_distance():
    experiment = get_experiment("drl/samples")
    result = experiment.stored()
    asked = len(list(experiment.check(result)))
    held_out = result.scalars["held-out data"]["digits 8x8"]
    held_out["distance"] = result.scalars["Gaussian fit"]["digits 8x8"]["distance"]
    assert len(list(experiment.check(result))) == asked - 1


def test_rows_of_one_recipe_share_its_training(tmp_path):
    """A second row finds the energy of the first, and one of other code does not."""
    of = {"recipe": TINY, "n_samples": 64}
    first = get_experiment("drl/likelihood").run(
        "quick", checkpoints=tmp_path / "a", **of
    )
    (kept,) = (tmp_path / "trained").iterdir()
    written = kept.stat().st_mtime_ns
    again = get_experiment("drl/likelihood").run(
        "quick", checkpoints=tmp_path / "b", **of
    )
    assert kept.stat().st_mtime_ns == written
    live = get_experiment("drl/likelihood").run("quick", **of)
    for result in (again, live):
        assert result.scalars["bits"] == first.scalars["bits"]
    other = replace(TINY, n_steps=7)
    images.trained_once(other, 0, tmp_path / "c" / "parts" / "x.safetensors")
    assert len(list((tmp_path / "trained").iterdir())) == 2


def test_the_seed_repeats_and_another_differs():
    energies = [images.train_images(TINY, seed).energy for seed in (0, 0, 1)]
    drawn = [
        images.draw_images(energy, TINY, 3, generator=make_generator(5))
        for energy in energies
    ]
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    assert drawn[0].shape == (TINY.n_levels + 2, 3, 8, 8)
    assert float(drawn[0][0].abs().max()) <= 1


def test_the_division_is_fixed_and_nothing_is_in_both_parts():
    data = images.image_set("digits 8x8")
    assert (len(data.images), len(data.held_out)) == (1297, 500)
    assert float(data.images.min()) == -1 and float(data.images.max()) == 1
    apart = torch.cdist(data.held_out.flatten(1), data.images.flatten(1))
    assert float(apart.min()) > 0


def test_the_judge_orders_the_null_rows():
    name = "digits 8x8"
    data, classifier = images.image_set(name), images.classifier_of(name)
    told = classifier.probabilities(data.held_out).argmax(1)
    assert float((told == data.held_out_labels).double().mean()) >= 0.98
    rows = images.baseline_images(data, 500, generator=make_generator(0))
    held, gauss, independent = (
        images.measure(x, name, classifier)["distance"] for x in rows.values()
    )
    assert 4 * held < gauss < independent
    # The training images themselves: nothing nearer.
    same = images.measure(data.images, name, classifier)
    assert same["distance"] == pytest.approx(0.0, abs=1e-6)
    assert (same["precision"], same["recall"], same["nearest"]) == (1.0, 1.0, 0.0)


def test_the_gaussian_fit_has_the_data_s_moments():
    data = images.image_set("digits 8x8")
    n = 40_000
    wide = data._replace(images=0.05 * data.images)  # nothing is clipped
    made = images.baseline_images(wide, n, generator=make_generator(0))["Gaussian fit"]
    flat, truth = made.flatten(1), wide.images.flatten(1)
    spread = truth.std(0)
    error = (flat.mean(0) - truth.mean(0)).abs()
    assert bool((error <= 5 * spread / math.sqrt(n) + 1e-6).all())
    ratio = flat.var(0)[spread > 1e-3] / truth.var(0)[spread > 1e-3]
    # A variance has a relative standard error of the root of 2 / n.
    assert float((ratio - 1).abs().max()) < 5 * math.sqrt(2 / n) + 1e-6


def test_an_alarm_is_a_result_and_not_an_error():
    # A rate at which no energy survives.
    hot = replace(TINY, head="signed", trust=0.0, learning_rate=1.0, n_steps=200)
    stopped = images.train_images(hot, 0)
    assert 0 <= stopped.cost["steps"] < 200
    assert "gap" in stopped.message or "diverged" in stopped.message


def test_images_outside_their_range_are_refused_before_any_work(monkeypatch):
    known = images.image_set("digits 8x8")
    bytes_ = known._replace(images=255 * known.images)
    monkeypatch.setattr(images, "image_set", lambda name: bytes_)

    def never(*args, **of):
        raise AssertionError("a network was made")

    monkeypatch.setattr(images.ImageRecipe, "energy", never)
    words = r"^images must be in \[-1, 1\], got -255 to 255$"
    for objective in ("recovery", "score"):
        with pytest.raises(InputError, match=words):
            images.train_images(replace(TINY, objective=objective), 0)
