"""Success rates of claims over seeds: counted, stored, gone on with."""

from types import SimpleNamespace

from ebmtut.results import load_result
from studies import seeds

OUTCOMES = {
    0: {"a": ("match", 1.0), "b": ("miss", 0.1)},
    1: {"a": ("better", 1.1), "b": ("match", 0.3)},
    2: {"a": ("match", 1.0), "b": ("like the baseline", None)},
    3: {"a": ("match", 1.0), "b": ("miss", 0.1)},
}


def test_rates_are_counted_and_kept(tmp_path, monkeypatch):
    made = []

    def outcomes(experiment, seed):
        made.append(seed)
        return OUTCOMES[seed]

    config = SimpleNamespace(config=lambda scale: seeds.Result("x/y", scale, {}, {}))
    monkeypatch.setattr(seeds, "outcomes", outcomes)
    monkeypatch.setattr(seeds, "get_experiment", lambda name: config)
    found = seeds.study("ed/window", range(2), tmp_path)
    assert found.scalars["rates"] == {"b": 0.5, "a": 1.0}
    found = seeds.study("ed/window", range(4), tmp_path)
    assert found.scalars["rates"] == {"b": 0.25, "a": 1.0}
    assert made == [0, 1, 2, 3]
    assert found == load_result("seeds/ed-window", "quick", tmp_path)
    assert found.provenance.command and found.scalars["commits"].keys() == set("0123")
