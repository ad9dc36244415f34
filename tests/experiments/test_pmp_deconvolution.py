"""The deconvolution experiment: its measures, and one small honest run."""

from dataclasses import replace

import torch

from ebmtut.data.shapes import shapes
from ebmtut.experiments import get_experiment
from ebmtut.experiments.pmp import deconvolution
from ebmtut.experiments.pmp.deconvolution import (
    PROTOCOLS,
    DeconvolutionConfig,
    deconvolution_job,
    feature_distances,
    out_of_reach,
)
from ebmtut.results import load_result
from tools.paths import ROOT

ROW = get_experiment("pmp/deconvolution")
TINY = DeconvolutionConfig(n_images=6, n_sweeps=3, n_seeds=2, n_shown=2)


def test_distance_is_zero_at_every_shift_and_in_any_order():
    truth = shapes()
    for y in (0, 1):
        for x in (0, 1):
            found = torch.zeros(5, 6, 6)
            found[[3, 0, 4, 1], y : y + 5, x : x + 5] = truth
            assert feature_distances(found, truth).tolist() == [0, 0, 0, 0]


def test_distance_counts_wrong_pixels():
    truth = shapes()
    found = torch.zeros(1, 6, 6)
    # Nothing found: as many as a feature has pixels.
    assert feature_distances(found, truth).tolist() == [16, 9, 12, 8]
    found[0, 1:, :5] = truth[1]
    found[0, 0, 5] = 1
    assert feature_distances(found, truth)[1] == 1


def test_out_of_reach_of_a_window():
    """Three shapes in a row of four places; a window of slack one covers three."""
    s = torch.zeros(1, 1, 4, 4)
    s[0, 0, 1, [0, 2, 3]] = 1
    assert out_of_reach(s, 1, 0) == 1
    assert out_of_reach(s, 1, 1) == 0
    assert out_of_reach(s, 0, 0) == 0
    # Opposite corners and both others: no two windows reach all four.
    s = torch.zeros(1, 1, 4, 4)
    s[0, 0, [0, 0, 3, 3], [0, 3, 0, 3]] = 1
    assert out_of_reach(s, 1, 0) == 3
    assert out_of_reach(s, 1, 1) == 2


def test_a_small_problem_is_solved_where_every_place_is_in_reach():
    config = replace(ROW.config("quick"), n_images=30)
    outcome = deconvolution_job(PROTOCOLS["white border"], config, 0)
    assert outcome.scalars["found"] == 4
    assert outcome.scalars["error"] < 0.02
    gibbs = deconvolution_job(PROTOCOLS["Gibbs"], config, 0)
    assert gibbs.scalars["found"] < 4


def test_features_may_be_as_large_as_the_images():
    config = replace(TINY, n_images=2, feature_side=14, n_seeds=1)
    result = ROW.run(replace(config, protocols=("one copy",)))
    assert result.arrays["one copy/features"].shape == (1, 5, 14, 14)


def test_there_may_be_fewer_features_than_shapes():
    config = replace(TINY, n_features=1)
    for name in ("one copy", "Gibbs"):
        outcome = deconvolution_job(PROTOCOLS[name], config, 0)
        assert outcome.arrays["features"].shape == (1, 6, 6)
        assert outcome.scalars["found"] <= 1
    # A fifth feature may hold a shape once more; without one more is out of reach.
    assert (
        deconvolution.truth(config, 0).scalars["out_of_reach"]
        >= deconvolution.truth(TINY, 0).scalars["out_of_reach"]
    )


def test_what_the_pages_say_of_gibbs_sampling_with_less_evidence():
    study = load_result("pmp/annealed-gibbs", "full", ROOT / "studies").scalars
    assert study["evidence"] == {"annealed Gibbs": [2, 5], "constant Gibbs": [3, 3]}
    found = {name: row["found"].count(4) for name, row in study["table"].items()}
    both = ("annealed Gibbs", "constant Gibbs")
    assert [found[name] for name in both] == [4, 3]
    assert [found[f"{name}, one start"] for name in both] == [3, 3]
    assert round(100 * sum(study["table"]["annealed Gibbs"]["error"]) / 5, 2) == 0.08
    grown, constant = (study["tried"][name] for name in both)
    assert sorted(grown, key=grown.get)[-2:] == ["2 to 20", "3 to 30"]
    assert {round(constant[f"{e} to {e}"], 2) for e in (5, 10, 20)} == {0.06}
