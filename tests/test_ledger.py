"""The ledger is honest: nothing stored, nothing claimed; stored words not believed."""

import json
import math
import re
from collections import Counter
from html import escape as html_escape
from typing import Any

import pytest
import torch

from ebmtut import results
from ebmtut._digests import json_digest
from ebmtut.experiments.facts import facts, get_fact, papers
from ebmtut.experiments.registry import SCALES, available
from ebmtut.experiments.verdicts import claim, compare, to_json
from ebmtut.ledger import (
    counts,
    lines,
    numbers_html,
    paper_html,
    reference_rows,
    rows,
    summary_html,
    tally,
    text_table,
)
from ebmtut.ledger.listing import QUOTED

RMSE = ("ed/ising-rmse", "negative log-RMSE")
NLL = ("ed/densities-table", "NLL")


GUARD = claim("finite", 0.0, "at most", 0.0, sanity=True)
LOST = claim("lead", 2.0, "at least", 1.0, baseline=1.5)


def store(root, id, scale, verdicts):
    scalars: dict[str, Any] = {"verdicts": [to_json(verdict) for verdict in verdicts]}
    scalars["protocol"] = "three seeds, <one> thread"
    origin = results.Provenance(seed=7, commit="abc", device="cpu", duration_s=90.0)
    results.save_result(results.Result(id, scale, {}, scalars, {}, origin), root)


def ising_verdicts():
    kinds = {"10x10, 0.1": 5.2, "10x10, 0.2": 3.9, "10x10, 0.3": 3.12}
    cells = [
        compare(*RMSE, "ED-Grid", column, measured, stderr=0.001, n_seeds=3)
        for column, measured in kinds.items()
    ]
    unknown = compare(*RMSE, "ED-Pool", "10x10, 0.1", 4.4, n_seeds=3)
    diverged = compare(*RMSE, "ED-Bern", "10x10, 0.1", math.nan, n_seeds=3)
    return [*cells, unknown, diverged, claim("margin", 0.4, "at most", 0.5)]


def test_nothing_is_claimed_of_an_empty_folder(tmp_path):
    ledger = rows(tmp_path)
    assert [row.fact.id for row in ledger] == list(facts())
    for row in ledger:
        assert tuple(row.scales) == SCALES
        for scale, at in row.scales.items():
            assert at.verdicts == ()
            may = {"live", "not run"} if scale == "quick" else {"not run"}
            assert at.state in may
        if row.scales["quick"].state == "live":
            assert row.fact.id in available()


def test_a_stored_result_is_judged(tmp_path):
    store(tmp_path, RMSE[0], "full", ising_verdicts())
    row = next(row for row in rows(tmp_path) if row.fact.id == RMSE[0])
    assert row.scales["full"].state == "stored"
    assert row.scales["paper"].state == "not run"
    words = [verdict.verdict for verdict in row.scales["full"].verdicts]
    assert words == ["better", "miss", "match", "not comparable", "miss", "match"]
    assert row.verdicts() == list(row.scales["full"].verdicts)


def test_a_tampered_word_changes_nothing(tmp_path):
    store(tmp_path, RMSE[0], "full", ising_verdicts())
    honest = rows(tmp_path)
    path = tmp_path / RMSE[0] / "full" / "result.json"
    text = path.read_text("utf-8").replace('"miss"', '"better"')
    assert '"better"' in text
    path.write_text(text, "utf-8")
    assert "was changed" in _full(rows(tmp_path)).fault
    # Signed anew the word is not read.
    sign(path, json.loads(text))
    assert rows(tmp_path) == honest


def sign(path, content):
    """Store what somebody has changed, with a digest that fits."""
    del content["sha256"]
    content["sha256"] = json_digest(content)
    path.write_text(json.dumps(content), "utf-8")


def _full(ledger):
    (row,) = [row for row in ledger if row.fact.id == RMSE[0]]
    return row.scales["full"]


def test_printed_numbers_and_our_own_claims_are_counted_apart(tmp_path):
    store(tmp_path, RMSE[0], "full", [*ising_verdicts(), GUARD, LOST])
    found = counts(rows(tmp_path, paper="ed"))["ed"]
    printed = sum(fact.n_printed for fact in facts().values() if fact.paper == "ed")
    assert (found["rows"], found["stored"]) == (9, 1)
    words = ("match", "better", "miss", "not comparable", "like the baseline")
    assert [found[word] for word in words] == [1, 1, 2, 0, 0]
    # Of the five cells one has no printed number.
    n_quoted = 14  # those of ALOE+
    assert (found["printed"], found[QUOTED]) == (printed, n_quoted)
    assert found["not run"] == printed - n_quoted - 4
    own = ("claims", "kept", "missed", "claims like the baseline")
    assert [found[key] for key in own] == [1, 0, 0, 1]
    assert found["without a baseline"] == 1
    words += ("not run", QUOTED)
    assert printed == sum(found[word] for word in words)
    empty = counts(rows(tmp_path / "none", paper="ed"))["ed"]
    assert empty["printed"] == empty["not run"] + n_quoted == printed > 50


def test_methods_without_code_are_quoted_only():
    """And nothing else: a number that could be run is not called so."""
    found = [line for line in lines(rows(paper="ed")) if line.word == QUOTED]
    assert {line.name.split(": ")[1].split(",")[0] for line in found} == {"ALOE+"}
    for fact in facts().values():
        for table in fact.tables:
            assert set(table.quoted) <= set(table.published)


def test_a_short_study_is_not_comparable_and_says_why(tmp_path):
    """Its number stands where no run of the experiment has one, and only there."""
    ledger = rows(tmp_path, paper="ed", studies=results.benchmarks_root())
    short = [line for line in lines(ledger) if line.study]
    methods = Counter(line.name.split(": ")[1].split(",")[0] for line in short)
    assert set(methods) == {"EB-GFN"} and methods["EB-GFN"] >= 7  # lattices of Table 3
    for line in short:
        assert line.word == "not comparable" and line.published is not None
        assert line.verdict is not None and "reduced scale" in line.verdict.reason
    study = results.load_result("ed/ising-eb-gfn", "full", results.benchmarks_root())
    (score,) = study.scalars["table"]["EB-GFN"]["10x10, 0.3"]["nlr"]
    name = "negative log-RMSE: EB-GFN, 10x10, 0.3"
    (line,) = [line for line in short if line.name == name]
    assert line.verdict is not None and line.verdict.measured == score
    html = numbers_html(ledger, no_references)
    assert 'ising-eb-gfn/full">study, reduced scale<' in html
    assert ">quoted, no code here<" in html
    assert "150 updates" in paper_html(ledger, no_references)
    before = counts(rows(tmp_path, paper="ed"))["ed"]
    assert counts(ledger)["ed"]["not run"] == before["not run"] - len(short)
    store(tmp_path, RMSE[0], "full", [compare(*RMSE, "EB-GFN", "10x10, 0.3", 3.3)])
    again = lines(rows(tmp_path, paper="ed", studies=results.benchmarks_root()))
    assert [line.word for line in again if line.name == name] == ["match"]
    assert sum(bool(line.study) for line in again) == len(short) - 1


def test_own_numbers_quoted_numbers_and_claims_are_counted_apart(tmp_path):
    quoted = compare(*RMSE, "Gibbs", "10x10, 0.1", 4.8)
    store(tmp_path, RMSE[0], "full", [*ising_verdicts(), GUARD, LOST, quoted])
    ledger = rows(tmp_path, paper="ed")
    own, other, claims, guards = tally(lines(ledger)).values()
    assert (own["better"], own["miss"], own["match"]) == (1, 2, 1)
    assert other.total() - other["not run"] - other[QUOTED] == 1
    assert (claims["match"], claims["like the baseline"]) == (1, 1)
    assert guards == {"match": 1}
    printed = counts(ledger)["ed"]["printed"]
    assert own.total() + other.total() == printed
    html = summary_html(ledger)
    text = re.sub("<.*?>", " ", html).replace("&middot;", "·")
    text = " ".join(text.split())
    assert f"its own method 1 1 2 · · {own['not run']} ·" in text
    title = papers()["ed"].title
    compared = f"{title} 2 of 4 {own.total()} printed"
    assert f"{compared} 1 of 1 {other.total()} printed 1 of 2 " in text
    assert f"<b>{printed} numbers</b>" in html
    # What was missed comes first.
    first, second, third, *_ = numbers_html(ledger, no_references).split("<tr ")[1:]
    line = "ED-Grid, 10x10, 0.2</td><td>3.9000 &plusmn; 0.0010 (3 seeds)</td><td>paper"
    assert line in first and "not finite" in second
    assert 'class="miss"' in second and 'class="miss"' not in third


def test_every_number_has_its_line(tmp_path):
    """Stored or not, printed or claimed, and once for each run."""
    lost = claim("<lead>", 2.0, "at least", 1.0, baseline=1.5)
    store(tmp_path, RMSE[0], "full", [*ising_verdicts(), lost])
    larger = compare(*RMSE, "ED-Grid", "10x10, 0.1", 4.62, stderr=0.002, n_seeds=1)
    store(tmp_path, RMSE[0], "paper", [larger])
    ledger = rows(tmp_path)
    found = lines(ledger)
    printed = [line for line in found if line.published is not None]
    superseded = [line for line in found if line.superseded]
    assert [(line.scale, line.word) for line in superseded] == [("full", "better")]
    assert len(printed) - 1 == sum(fact.n_printed for fact in facts().values())
    html = numbers_html(ledger, no_references)
    assert html.count("<tr data-k=") == len(found)
    assert "&lt;lead&gt;" in html and "<lead>" not in html
    for number in ("4.620 &plusmn; 0.002", "5.2000 &plusmn; 0.0010 (3 seeds)"):
        assert f">{number}<" in html
    assert "<td>1.5</td>" in html and "not finite" in html
    assert f'/tree/HEAD/results/{RMSE[0]}/paper">paper run<' in html
    assert f'results/{RMSE[0]}/full">full run</a>, a larger one exists<' in html


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"id": "ed/ising-rmse"}', '{"id": "ed/epsilon", "scale": "full"}'],
)
def test_a_damaged_result_is_one_line(tmp_path, text):
    path = tmp_path / RMSE[0] / "full" / "result.json"
    path.parent.mkdir(parents=True)
    path.write_text(text, "utf-8")
    marked(tmp_path, "holds no readable result", str(path.parent))


@pytest.mark.parametrize("verdicts", [3, [3], [{}], [{"rule": "at most"}], {"a": 1}])
def test_verdicts_of_other_json_are_one_line(tmp_path, verdicts):
    store(tmp_path, RMSE[0], "full", ising_verdicts())
    path = tmp_path / RMSE[0] / "full" / "result.json"
    content = json.loads(path.read_text("utf-8"))
    content["scalars"]["verdicts"] = verdicts
    sign(path, content)
    marked(tmp_path, "holds no readable verdicts", RMSE[0])


def marked(root, *words):
    """One row is marked, with one line that says why; the others are there."""
    ledger = rows(root)
    at = _full(ledger)
    assert at.state == "damaged" and len(ledger) > 1
    assert "\n" not in at.fault and all(word in at.fault for word in words)
    assert [s for row in ledger for s in row.scales.values() if s.fault] == [at]
    assert "damaged" in text_table(ledger)


def test_baseline_row_of_the_ising_table():
    """An edge list of density 4/d: the RMSE of J = 0 is sigma sqrt(4/d)."""
    (baseline,) = reference_rows(*RMSE)
    assert baseline.kind == "baseline"
    for column, value in baseline.values.items():
        lattice, sigma = column.split(", ")
        side = int(lattice.split("x")[0])
        exact = -math.log(abs(float(sigma)) * 2 / side)
        assert value == pytest.approx(exact, abs=1e-6)
    shown = [f"{value:.1f}" for value in baseline.values.values()]
    assert shown == ["3.9", "3.2", "2.8", "2.5", "2.3", "3.8", "3.1"]


def test_uniform_and_exact_nll():
    baseline, exact = reference_rows("ed/densities-table", "NLL")
    assert (baseline.kind, exact.kind) == ("baseline", "exact")
    for column in baseline.values:
        assert baseline.values[column] == pytest.approx(32 * math.log(2))
        # No model is better than the data's entropy, the uniform one far worse.
        assert 19.0 < exact.values[column] < baseline.values[column] - 1.0


def test_mmd_rows_bracket_a_model():
    """Held-out data are at zero within five standard errors; uniform bits are not."""
    torch.set_num_threads(1)
    baseline, exact = reference_rows("ed/densities-table", "MMD", n_points=100, seed=3)
    for column in baseline.values:
        assert abs(exact.values[column]) < 5 * exact.stderr[column]
        assert baseline.values[column] > 5 * baseline.stderr[column]
    again = reference_rows("ed/densities-table", "MMD", n_points=100, seed=3)
    other = reference_rows("ed/densities-table", "MMD", n_points=100, seed=4)
    assert again == [baseline, exact]
    assert other != again


def test_slack_of_the_mmd_is_the_noise_of_its_protocol():
    """Two standard errors of a mean over 10 samples of 4000 points.

    The deviation of the U-statistic of two samples of one distribution falls as 1/n,
    so that of 200 points is divided by 20. Twenty repeats of seven densities estimate
    it with an error of about 6 percent; a quarter is allowed.
    """
    torch.set_num_threads(1)
    row = get_fact("ed/densities-table")
    _, exact = reference_rows(row.id, "MMD", n_points=200, n_repeats=20, seed=1)
    deviations = [error * math.sqrt(20) / 20 for error in exact.stderr.values()]
    typical = math.sqrt(sum(d**2 for d in deviations) / len(deviations))
    noise = 2 * typical / math.sqrt(10)
    assert row.table("MMD").slack == pytest.approx(noise, rel=0.25)


def no_references(id, table):
    return []


def test_page_shows_every_published_number(tmp_path):
    ledger = rows(tmp_path)
    html = numbers_html(ledger, no_references)
    for fact in facts().values():
        for table in fact.tables:
            for values in table.published.values():
                for value in values:
                    if not math.isnan(value):
                        assert f">paper {value:.{table.decimals}f}" in html
    assert 'class="better"' not in html and 'class="match"' not in html
    for paper in ("ed", "drl", "pmp", "got", "dnfs"):
        html = paper_html(rows(tmp_path, paper=paper), no_references)
        for fact in facts().values():
            if fact.paper == paper:
                assert f"<code>{fact.id}</code>" in html
                assert html_escape(fact.note) in html


def test_page_shows_ours_beside_theirs(tmp_path):
    store(tmp_path, RMSE[0], "full", ising_verdicts())
    ledger = rows(tmp_path, paper="ed")
    table = numbers_html(ledger, reference_rows_small).split("<tr ")
    (found,) = [line for line in table if "ED-Grid, 10x10, 0.1<" in line]
    assert "<td>5.2000 &plusmn; 0.0010 (3 seeds)</td><td>paper 4.6</td>" in found
    # The RMSE of J = 0 is sigma sqrt(4 / 10), as the test of that row says.
    assert f"<td>{-math.log(0.1 * 0.2):.3f}</td>" in found
    assert '<td class="better">better<br>' in found
    html = paper_html(ledger, reference_rows_small)
    assert "J = 0 is a row of kind baseline" in html
    assert "seed 7" in html and "1.5 min" in html
    # Words of a result are text, not markup.
    assert "three seeds, &lt;one&gt; thread" in html
    assert "<one>" not in html


def test_page_tells_of_every_stored_run(tmp_path):
    """Counted once: what both runs have by the larger, what one has by that one."""
    store(tmp_path, RMSE[0], "full", ising_verdicts())
    larger = compare(*RMSE, "ED-Grid", "10x10, 0.1", 4.62, stderr=0.002, n_seeds=1)
    store(tmp_path, RMSE[0], "paper", [larger, claim("other", 0.6, "at most", 0.5)])
    ledger = rows(tmp_path, paper="ed")
    html = paper_html(ledger, no_references)
    assert "Stored run (full)" in html and "Stored run (paper)" in html
    found = counts(ledger)["ed"]
    assert found["claims"] + found["without a baseline"] == 2
    assert (found["better"], found["match"], found["miss"]) == (0, 2, 2)
    counted = tally(lines(ledger))
    assert (counted["own method"]["better"], counted["claim"].total()) == (0, 2)


def test_page_says_what_became_of_the_papers_own_scale(tmp_path):
    """A full run with the paper's setting is its run; a preset alone is ready."""
    store(tmp_path, "got/coulomb", "full", [])
    html = paper_html(rows(tmp_path, paper="got"), no_references)
    assert "full: stored, the paper's setting" in html
    found = html.split("<p><b>")
    states = {
        id: next(part for part in found if f"<code>{id}</code>" in part)
        for id in ("got/coulomb", "got/coupling-1d", "got/temperature-bound")
    }
    assert "paper: the same run" in states["got/coulomb"]
    assert "paper: ready, not run" in states["got/coupling-1d"]
    assert "paper: it runs nothing here" in states["got/temperature-bound"]


def test_the_page_names_what_was_missed():
    """Its five sentences are written for these misses; others need other words."""
    missed: dict[str, set[str]] = {}
    for line in lines(rows(scales=("full", "paper"))):
        if line.word == "miss" and not line.superseded and line.kind != "sanity check":
            missed.setdefault(line.fact.paper, set()).add(line.fact.id.split("/")[1])
    known = {
        "ed": "ising-rmse densities-table epsilon images images-table",
        "drl": "marginal-vs-recovery checkerboard ablation long-run",
        "pmp": "structured zeros-samples deconvolution",
        "got": "coupling-1d wnmf-digits wnmf-faces timing",
        "dnfs": "networks ising ebm-training ebm-table ising-learning max-cut "
        "max-independent-set",
    }
    assert missed == {paper: set(ids.split()) for paper, ids in known.items()}


def reference_rows_small(id, table):
    return reference_rows(id, table, n_points=50, n_repeats=2)
