"""Claims as a table."""

from ebmtut.experiments.claims import claims_table
from ebmtut.experiments.verdicts import claim


def test_a_line_has_number_bound_baseline_and_verdict():
    kept = claim("error", 0.2, "at most", 0.5, stderr=0.01)
    check = claim("mass", 0.9, "at least", 1.0, sanity=True)
    table = claims_table([kept, check], "two claims")
    assert table.caption == "two claims"
    assert table.rows[0] == ("error", "0.200 ± 0.010", "≤ 0.5", "–", "match")
    assert table.rows[1] == ("mass", "0.9", "≥ 1", "–", "miss, a sanity check")
