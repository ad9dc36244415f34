"""The deconvolution experiment: its measures, and one small honest run."""

from dataclasses import replace

import matplotlib.pyplot as plt
import pytest
import torch

from ebmtut.checks import InputError
from ebmtut.data.shapes import shapes
from ebmtut.experiments import get_experiment
from ebmtut.experiments.pmp.deconvolution import (
    PROTOCOLS,
    DeconvolutionConfig,
    Protocol,
    deconvolution_job,
    deconvolution_table,
    feature_distances,
    out_of_reach,
    truth,
)

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
    config = replace(DECONVOLUTION.config("quick"), n_images=30)
    outcome = deconvolution_job(PROTOCOLS["white border"], config, 0)
    assert outcome.scalars["found"] == 4
    assert outcome.scalars["error"] < 0.02
    gibbs = deconvolution_job(PROTOCOLS["Gibbs"], config, 0)
    assert gibbs.scalars["found"] < 4


def test_run_resumes_draws_and_judges(tmp_path):
    result = ROW.run(TINY, checkpoints=tmp_path)
    assert set(result.scalars["table"]) == set(PROTOCOLS)
    assert result.arrays["one copy/features"].shape == (2, 5, 6, 6)
    assert result.arrays["Gibbs/images"].shape == (2, 2, 14, 14)
    again = ROW.run(TINY, checkpoints=tmp_path)
    seconds = [r.scalars["table"]["one copy"]["seconds"] for r in (result, again)]
    assert seconds[0] == seconds[1]  # nothing ran
    plt.close(DECONVOLUTION.figure(result))
    verdicts = DECONVOLUTION.check(result)
    assert len(verdicts) == 6 and all("Gibbs" not in v.name for v in verdicts)
    table = deconvolution_table(result)
    assert [row[0] for row in table.rows] == [*PROTOCOLS, "nothing is there"]
    named = deconvolution_table(result, {"Gibbs": "Gibbs sampling"})
    assert [row[0] for row in named.rows] == ["Gibbs sampling", "nothing is there"]
    # Three sweeps find nothing, and the verdicts say so.
    assert {v.verdict for v in verdicts if "features" in v.name} == {"miss"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"protocols": ("one cop",)}, "one cop"),
        ({"n_seeds": 0}, "n_seeds"),
        ({"n_sweeps": 0}, "n_sweeps"),
        ({"feature_side": 4}, "feature_side"),
        ({"feature_side": 15}, "feature_side"),
        ({"n_features": 0}, "n_features"),
        ({"n_images": 0}, "n_images"),
        ({"n_shown": 0}, "n_shown"),
        ({"data_seed": -1}, "data_seed"),
    ],
)
def test_bad_configurations(change, words):
    with pytest.raises(InputError, match=words):
        DeconvolutionConfig(**change)


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
        truth(config, 0).scalars["out_of_reach"]
        >= truth(TINY, 0).scalars["out_of_reach"]
    )


@pytest.mark.parametrize(
    "change",
    [
        {"border": -1},
        {"copies_a_pixel": -1},
        {"damping": 1.0},
        {"n_starts": 0},
        {"sampler": "Gibs"},
    ],
)
def test_bad_protocols(change):
    with pytest.raises(InputError, match=next(iter(change))):
        Protocol(**change)


DECONVOLUTION = ROW
