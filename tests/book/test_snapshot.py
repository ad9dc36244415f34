"""The snapshot that is held against every restructuring of the experiments."""

from ebmtut.experiments.got import gibbs_bands
from ebmtut.results import load_result
from tools import snapshot


def note(verdicts=None, tables=None, runs=None):
    return {"verdicts": verdicts or {}, "tables": tables or {}, "runs": runs or {}}


def test_equal_snapshots_have_no_differences():
    same = note({"a/b/full": {"claim": {"ours": 1.0}}}, {"a: t(a/b/full)": "x\ny"})
    assert snapshot.compare(same, same) == []


def test_a_changed_number_and_a_changed_line_are_named():
    before = note({"a/b/full": {"claim": {"ours": 1.0}}}, {"a: t(a/b/full)": "x\ny"})
    after = note({"a/b/full": {"claim": {"ours": 2.0}}}, {"a: t(a/b/full)": "x\nz"})
    assert snapshot.compare(before, after) == [
        "/verdicts/a/b/full/claim/ours: 1.0 -> 2.0",
        "/tables/a: t(a/b/full)/1: 'y' -> 'z'",
    ]


def test_a_renamed_table_is_not_lost_and_a_lost_one_is():
    before = note(tables={"a: t(r)": "x\ny", "a: u(r)": "z"})
    after = note(tables={"a: v(r)": "x\ny", "a: w(r)": "q"})
    assert snapshot.compare(before, after) == [
        "/tables/a: t(r) is now a: v(r)",
        "/tables/a: u(r) is gone",
        "/tables/a: w(r) is new",
    ]


def test_tables_of_a_module_are_found():
    stored = {"got/gibbs-bands/full": load_result("got/gibbs-bands", "full")}
    (text,) = snapshot._tables(gibbs_bands, stored).values()
    assert text == repr(gibbs_bands.bands_table(stored["got/gibbs-bands/full"]))
