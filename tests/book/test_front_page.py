"""The code of the front page runs, and does what the sentence below it says."""

import re
from typing import Any

from ebmtut.ledger.listing import rows
from ebmtut.ledger.page import summary_html
from tools.paths import BOOK


def test_the_code_learns_and_samples():
    page = (BOOK / "index.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)

    def agreement(x):
        return float((x[:, 0] == x[:, 1]).float().mean())

    # Both bits are right or both wrong: 0.9^2 + 0.1^2. Five standard errors of 2000
    # samples are 0.043, of the difference from the data 0.061; the fit adds its own.
    assert abs(agreement(names["data"]) - 0.82) < 0.043
    assert abs(agreement(names["samples"]) - agreement(names["data"])) < 0.08
    # The baseline: independent bits with these means agree in half of the samples.
    assert agreement(names["samples"]) > 0.7


def test_the_numbers_of_the_ledger_are_those_of_today():
    page = (BOOK / "index.md").read_text("utf-8")
    said = re.search(r"Of (\d+) numbers .* print, (\d+) .*, and (\d+) of these", page)
    words = re.findall(
        r"(\d+)(?: numbers</b>| of them| of these)", summary_html(rows())
    )
    assert said and list(said.groups()) == words
