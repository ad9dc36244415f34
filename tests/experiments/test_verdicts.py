"""The rule of the verdicts, at its edges."""

import dataclasses
import json
import math

import pytest

from ebmtut.checks import InputError
from ebmtut.experiments.claims import claims_table
from ebmtut.experiments.facts import get_fact
from ebmtut.experiments.verdicts import (
    against_baseline,
    baseline_keeps,
    claim,
    compare,
    compare_numbers,
    lead,
    to_json,
    verdict_from_json,
)

ONE_DECIMAL = 0.05
RMSE = ("ed/ising-rmse", "negative log-RMSE")
CELL = (*RMSE, "ED-Grid", "10x10, 0.1")


@pytest.mark.parametrize(
    ("measured", "published", "better", "word"),
    [
        (4.6, 4.6, "higher", "match"),
        (4.65, 4.6, "higher", "match"),  # rounds to the printed digit
        (4.55, 4.6, "higher", "match"),
        (4.651, 4.6, "higher", "better"),
        (4.549, 4.6, "higher", "miss"),
        (4.651, 4.6, "lower", "miss"),
        (4.549, 4.6, "lower", "better"),
        (4.651, 4.6, "equal", "miss"),
        (4.549, 4.6, "equal", "miss"),
        (-5.41, -5.36, "lower", "match"),
        (-5.42, -5.36, "lower", "better"),
        (math.nan, 4.6, "higher", "miss"),
        (math.inf, 4.6, "higher", "miss"),
        (-math.inf, 4.6, "lower", "miss"),
        (None, 4.6, "higher", "miss"),
        (4.6, None, "higher", "not comparable"),
        (4.6, math.nan, "higher", "not comparable"),
        (None, None, "higher", "not comparable"),
    ],
)
def test_rounding_and_direction(measured, published, better, word):
    found, reason = compare_numbers(
        measured, published, better=better, rounding=ONE_DECIMAL
    )
    assert found == word
    assert reason


@pytest.mark.parametrize(
    ("stderr", "word"),
    [
        *((stderr, "miss") for stderr in (None, 0.0, 0.049, math.nan, math.inf)),
        *((stderr, "match") for stderr in (0.05, 0.2)),
    ],
)
def test_two_standard_errors(stderr, word):
    """A difference of 0.1 is noise from a finite standard error of 0.05 on."""
    found, _ = compare_numbers(4.5, 4.6, better="higher", rounding=0.05, stderr=stderr)
    assert found == word


@pytest.mark.parametrize(
    ("measured", "word"),
    [
        (20.0004, "match"),
        (20.06, "not comparable"),
        (19.94, "not comparable"),
        (20.061, "miss"),
        (19.939, "better"),
    ],
)
def test_slack_of_the_papers_protocol(measured, word):
    """What the protocol leaves open proves nothing, in either direction."""
    found, reason = compare_numbers(
        measured,
        20.0,
        better="lower",
        rounding=0.0005,
        slack=0.06,
        slack_reason="unseeded scale",
    )
    assert found == word
    assert (reason == "unseeded scale") == (word == "not comparable")


def test_an_excuse_comes_first():
    word, reason = compare_numbers(
        9.9, 4.6, better="higher", rounding=0.05, excuse="another sampler"
    )
    assert (word, reason) == ("not comparable", "another sampler")


def test_compare_takes_the_number_from_the_facts():
    verdict = compare(*RMSE, "ED-Grid", "10x10, 0.2", 4.83, stderr=0.01, n_seeds=3)
    assert verdict.published == 4.0
    assert verdict.verdict == "better"
    assert verdict.n_seeds == 3
    assert verdict.target is None
    unknown = compare(*RMSE, "ED-Pool", "10x10, 0.2", 3.3)
    assert unknown.verdict == "not comparable"
    assert "not available" in unknown.reason
    with pytest.raises(InputError, match=r"10x10, 0\.2"):
        compare(*RMSE, "ED-Grid", "10x10, 0.9", 3.3)


def test_compare_uses_the_papers_own_spread():
    """The paper prints -5.36 with a deviation of 0.06: two of them are no miss."""
    cell = ("pmp/rbm-twos", "log MMD^2", "PMP", "twos")
    assert compare(*cell, -5.25).verdict == "match"
    assert compare(*cell, -5.23).verdict == "miss"
    assert get_fact(cell[0]).table(cell[1]).deviation("PMP", "twos") == 0.06


@pytest.mark.parametrize(
    ("measured", "rule", "word"),
    [
        (0.99, "at least", "match"),
        (0.9899, "at least", "miss"),
        (1.0, "at least", "match"),
        (0.03, "at most", "match"),
        (0.0301, "at most", "miss"),
        (-1.0, "at most", "match"),
        (math.nan, "at least", "miss"),
        (-math.inf, "at most", "miss"),
        (None, "at most", "miss"),
    ],
)
def test_claims(measured, rule, word):
    target = 0.99 if rule == "at least" else 0.03
    verdict = claim("x", measured, rule, target)
    assert verdict.verdict == word
    assert verdict.target == target
    assert verdict.published is None


def test_json_has_no_nan():
    """Strict JSON knows no NaN; a diverged run must not break the ledger."""
    verdict = compare(
        "ed/densities-table", "NLL", "ED-Bern", "moons", math.nan, stderr=math.nan
    )
    entry = json.loads(json.dumps(to_json(verdict), allow_nan=False))
    assert entry["measured"] is None
    assert entry["verdict"] == "miss"


def test_a_stored_word_is_not_believed():
    honest = compare(*CELL, 4.2, stderr=0.01, n_seeds=3)
    assert honest.verdict == "miss"
    tampered = to_json(honest) | {"verdict": "match", "published": 4.2, "reason": ""}
    assert verdict_from_json(RMSE[0], tampered) == honest

    broken = claim("precision", 0.5, "at least", 0.99)
    tampered = to_json(broken) | {"verdict": "match"}
    assert verdict_from_json("ed/ising-heatmaps", tampered) == broken


def test_judging_again_changes_nothing_else():
    verdicts = [
        compare("ed/densities-table", "MMD", "PCD", "moons", 0.9, excuse="exact grid"),
        compare("ed/densities-table", "NLL", "PCD", "moons", 19.9, n_seeds=1),
        claim("steps", 3.0, "at most", 4.0, stderr=0.5, n_seeds=2),
    ]
    for verdict in verdicts:
        stored = json.loads(json.dumps(to_json(verdict)))
        assert verdict_from_json("ed/densities-table", stored) == verdict
        assert dataclasses.asdict(verdict).keys() == stored.keys()


@pytest.mark.parametrize(
    ("measured", "baseline", "stderr", "word"),
    [
        (5.0, 3.9, 0.1, "better"),
        (5.0, 4.9, 0.1, "like the baseline"),
        (4.0, 4.9, 0.1, "like the baseline"),  # behind it
        (5.0, 4.9, 0.01, "better"),
        (5.0, math.nan, 0.1, "better"),
    ],
)
def test_a_number_is_compared_with_the_baseline(measured, baseline, stderr, word):
    verdict = compare(
        *CELL, measured, stderr=stderr, baseline=baseline, baseline_stderr=0.0
    )
    assert verdict.verdict == word
    assert verdict_from_json(RMSE[0], to_json(verdict)) == verdict


@pytest.mark.parametrize(
    ("measured", "baseline", "kept", "word"),
    [
        (2.0, 0.0, False, "match"),
        (2.0, 1.0, False, "match"),  # the bound is the baseline
        (1.1, 1.0, False, "like the baseline"),  # within two standard errors of it
        (2.0, 1.5, True, "like the baseline"),  # the baseline keeps the claim
        (0.5, 1.5, True, "miss"),
    ],
)
def test_a_claim_that_the_baseline_keeps_is_none(measured, baseline, kept, word):
    verdict = claim("x", measured, "at least", 1.0, stderr=0.1, baseline=baseline)
    assert verdict.verdict == word
    assert baseline_keeps(verdict) == kept
    mirrored = claim("x", -measured, "at most", -1.0, stderr=0.1, baseline=-baseline)
    assert (mirrored.verdict, baseline_keeps(mirrored)) == (word, kept)
    guard = claim("x", 2.0, "at least", 1.0, baseline=baseline, sanity=True)
    assert guard.verdict == "match"
    assert not baseline_keeps(guard)


def test_the_baseline_is_found_by_name():
    found = [claim("a", 2.0, "at least", 1.0), claim("b", 2.0, "at least", 1.0)]
    baselines = [claim("b", 1.5, "at least", 1.0), claim("c", 0.0, "at least", 1.0)]
    first, second = against_baseline("ed/window", found, baselines)
    assert (first.baseline, first.verdict) == (None, "match")
    assert (second.baseline, second.verdict) == (1.5, "like the baseline")


def test_seeds_are_paired():
    mean, stderr = lead({5: [3.0, 1.0, 2.0]}, {5: [1.0, 0.0, 0.0]}, 5)
    # Differences 2, 1, 2: standard deviation 1/sqrt 3.
    assert mean == pytest.approx(5 / 3)
    assert stderr == pytest.approx(1 / 3)


def test_one_seed_has_the_error_of_its_curve():
    ours, theirs = {1: [0.0], 2: [1.0], 4: [0.0]}, {1: [5.0], 2: [5.0], 4: [5.0]}
    mean, stderr = lead(theirs, ours, 4)
    assert mean == 5.0
    # Steps of one: half their mean square is the variance of a point.
    assert stderr == pytest.approx(math.sqrt(0.5))


def test_one_number_alone_has_no_error():
    assert lead({1: [2.0]}, {1: [1.0]}, 1) == (1.0, None)


def test_a_line_of_claims_has_number_bound_baseline_and_verdict():
    kept = claim("error", 0.2, "at most", 0.5, stderr=0.01)
    check = claim("mass", 0.9, "at least", 1.0, sanity=True)
    table = claims_table([kept, check], "two claims")
    assert table.caption == "two claims"
    assert table.rows[0] == ("error", "0.200 ± 0.010", "≤ 0.5", "–", "match")
    assert table.rows[1] == ("mass", "0.9", "≥ 1", "–", "miss, a sanity check")
