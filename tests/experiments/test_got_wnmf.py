from dataclasses import replace
from itertools import count

import numpy as np
import pytest
import torch

pytest.importorskip("ot")
pytest.importorskip("sklearn")

from ebmtut.checks import InputError
from ebmtut.deadlines import OutOfTime
from ebmtut.experiments import get_experiment
from ebmtut.experiments.got.measures import ImagesConfig, exact_costs, load_measures
from ebmtut.experiments.got.timing import grid_sinkhorn
from ebmtut.experiments.got.wnmf import METHODS, dual_bounds, sharpness, wnmf_job
from ebmtut.random import make_generator
from ebmtut.results import Result
from ebmtut.transport import WNMFConfig, grid_cost

TINY = ImagesConfig(
    source="small digits",
    n_images=12,
    side=8,
    wnmf=WNMFConfig(n_components=3, n_epochs=30, n_hold=10),
    n_rounds=2,
    n_steps=5,
    n_iterations=50,
    n_exact=4,
    n_looks=2,
    n_bound_passes=20,
)


def test_quick_images_need_no_file(monkeypatch, tmp_path):
    monkeypatch.setenv("EBMTUT_OFFLINE", "1")
    monkeypatch.setenv("EBMTUT_CACHE", str(tmp_path))
    monkeypatch.delenv("EBMTUT_DATA", raising=False)
    for id in ("got/wnmf-digits", "got/wnmf-faces"):
        config = get_experiment(id).config("quick")
        data = load_measures(config)
        assert data.shape == (config.n_images, config.side, config.side)
        torch.testing.assert_close(data.sum((1, 2)), torch.ones(config.n_images))


def test_images_are_averaged_down_and_refused_where_they_do_not_fit():
    whole = load_measures(replace(TINY, side=16))
    half = load_measures(TINY)
    pooled = torch.nn.functional.avg_pool2d(whole[:, None], 2)[:, 0] * 4
    torch.testing.assert_close(half, pooled)
    with pytest.raises(InputError, match="side"):
        load_measures(replace(TINY, side=7))
    with pytest.raises(InputError, match="n_images"):
        load_measures(replace(TINY, n_images=10**6))
    with pytest.raises(InputError, match="source"):
        replace(TINY, source="MNISTT")


def test_exact_costs_and_bounds_of_shifted_points():
    """A point moved by one pixel of eight costs 1/64, whatever its mass's place."""
    p, q = torch.zeros(2, 2, 8, 8)
    p[0, 3, 3] = p[1, 0, 0] = 1
    q[0, 3, 4] = q[1, 2, 0] = 1
    cost = grid_cost(8)
    expected = [1 / 64, 4 / 64]
    assert exact_costs(p, q, cost, range(2)) == pytest.approx(expected)
    bounds = dual_bounds(p, q, cost, 100, generator=make_generator(0))
    assert bool((bounds <= torch.tensor(expected) + 1e-6).all())
    torch.testing.assert_close(bounds, torch.tensor(expected), rtol=0.01, atol=0)


def test_sharpness_of_known_images():
    point = torch.zeros(1, 4, 4)
    point[0, 1, 1] = 2.0
    even = torch.ones(1, 4, 4)
    assert sharpness(point) == pytest.approx({"support": 1.0, "variation": 4.0})
    assert sharpness(even) == pytest.approx({"support": 16.0, "variation": 0.0})


def test_grid_sinkhorn_is_sinkhorn():
    import ot

    generator = make_generator(0)
    p, q = torch.rand(2, 1, 4, 5, generator=generator, dtype=torch.float64) + 0.1
    p, q = p / p.sum(), q / q.sum()
    cost = grid_cost(4, 5, dtype=torch.float64)
    potential = grid_sinkhorn(p, q, cost, 0.05, 300)
    _, log = ot.sinkhorn(
        p.flatten().numpy(), q.flatten().numpy(), cost.dense().numpy(), 0.05, log=True
    )
    difference = potential.flatten().numpy() - 0.05 * np.log(log["u"])
    assert np.ptp(difference) < 1e-6
    half = grid_sinkhorn(p, q, cost, 0.05, 3)
    again = grid_sinkhorn(p, q, cost, 0.05, 3, start=half)
    torch.testing.assert_close(again, grid_sinkhorn(p, q, cost, 0.05, 6))


def test_a_learning_that_stops_goes_on_bit_for_bit(tmp_path, monkeypatch):
    config = replace(TINY, wnmf=replace(TINY.wnmf, accelerate=True, n_average=20))
    whole = wnmf_job("Gibbs-OT", config, seed=3)
    calls = count(1)
    ended = "ebmtut.training.resumable.out_of_time"
    monkeypatch.setattr(ended, lambda: next(calls) % 13 == 0)
    for _ in range(2):
        with pytest.raises(OutOfTime):
            wnmf_job("Gibbs-OT", config, seed=3, checkpoint=tmp_path / "state")
    done = wnmf_job("Gibbs-OT", config, seed=3, checkpoint=tmp_path / "state")
    assert (whole.arrays["components"] == done.arrays["components"]).all()
    assert whole.scalars["cost"] == done.scalars["cost"]
    # All but the fifth column, which is a time.
    same = np.delete(whole.arrays["looks"] - done.arrays["looks"], 5, axis=1)
    assert len(same) == 2 and not same.any()


GOOD = {
    "NMF": {"cost": 1.2, "stderr": 0.01, "support": 4.0, "variation": 2.0},
    "smoothed W-NMF": {"cost": 2.0, "stderr": 0.01, "support": 9.0, "variation": 1.0},
    "Gibbs-OT": {
        "cost": 1.0,
        "stderr": 0.01,
        "support": 8.0,
        "variation": 1.5,
        "epoch_seconds": 0.5,
        "exact_seconds": 30.0,
        "dual_error": 0.1,
    },
}

# Components of one shape, three of each method.
ALIKE = np.repeat(np.uint8([[[255, 255, 0, 0]] * 4]), 3, axis=0)


def learned(methods, **arrays):
    components = dict.fromkeys(METHODS, ALIKE) | arrays
    config = {"n_exact": 20}
    return Result("got/wnmf-digits", "full", config, {"methods": methods}, components)


def test_a_lead_within_its_error_is_not_told_from_none():
    """The exact costs are those of a few images, the shapes of a few components."""
    methods = GOOD | {"Gibbs-OT": GOOD["Gibbs-OT"] | {"stderr": 0.3}}
    verdicts = get_experiment("got/wnmf-digits").verdicts(learned(methods))
    assert [v.verdict for v in verdicts[:2]] == ["like the baseline", "match"]
    uneven = ALIKE.copy()
    uneven[0, 1:] = 0  # a quarter of the others' support
    scattered = learned(GOOD, **{"Gibbs-OT": uneven})
    verdicts = get_experiment("got/wnmf-digits").verdicts(scattered)
    assert verdicts[2].verdict == "like the baseline"
    assert verdicts[2].stderr == pytest.approx(8 / 9 / 3)  # of 2, 8 and 8
    verdicts = get_experiment("got/wnmf-digits").verdicts(learned(GOOD))
    # Epochs of at most ten iterations are not the paper's.
    assert [v.verdict for v in verdicts] == ["match"] * 6 + ["not comparable"]


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({}, []),
        ({"cost": 1.5}, [0]),
        ({"cost": 2.5}, [0, 1]),
        ({"support": 10.0}, [2]),
        ({"variation": 0.9}, [3]),
        ({"exact_seconds": 20.0}, [4]),
        ({"dual_error": 0.2}, [5]),
        ({"epoch_seconds": 1.0}, [4, 6]),
    ],
)
def test_the_check_of_the_factors_can_say_no(change, wrong):
    """The last compares an epoch's time with the paper's 0.84 s."""
    methods = GOOD | {"Gibbs-OT": GOOD["Gibbs-OT"] | change}
    result = replace(learned(methods), scale="paper")
    verdicts = list(get_experiment("got/wnmf-digits").check(result))
    words = ["match"] * 6 + ["better"]
    wanted = ["miss" if k in wrong else word for k, word in enumerate(words)]
    assert [v.verdict for v in verdicts] == wanted


def test_timing_lists_every_oracle_and_budget():
    config = replace(
        get_experiment("got/timing").config("quick"),
        images=TINY,
        budgets=(1, 10, 200),
        n_warm=50,
    )
    experiment = get_experiment("got/timing")
    result = experiment.run(config, seed=0)
    rows = result.scalars["rows"]
    assert len(rows) == 3 * (4 + 2 * 2) + 1
    assert all(row["seconds"] >= 0 and row["error"] > -1e-6 for row in rows)
    cold = {
        r["budget"]: r["error"]
        for r in rows
        if r["method"] == "Gibbs-OT" and r["start"] == "cold, cooled"
    }
    assert cold[200] < cold[10] < cold[1]
    assert experiment.figure(result).axes


@pytest.mark.parametrize(
    ("cold", "cooled", "epoch", "words"),
    [
        (0.4, 0.3, 0.1, ["match", "match", "match"]),
        (0.1, 0.3, 0.1, ["miss", "match", "match"]),
        (0.4, 0.1, 0.3, ["match", "miss", "miss"]),
    ],
)
def test_the_check_of_the_times_can_say_no(cold, cooled, epoch, words):
    errors = {"warm": 0.2, "cold": cold, "cold, cooled": cooled}
    rows = [
        {"method": "Gibbs-OT", "start": start, "budget": budget, "error": error}
        for start, error in errors.items()
        for budget in (20, 100)
    ]
    scalars = {"rows": rows, "epoch": {"seconds": epoch, "exact_seconds": 10.0}}
    verdicts = get_experiment("got/timing").check(
        Result("got/timing", "full", {}, scalars)
    )
    assert [v.verdict for v in verdicts] == words
