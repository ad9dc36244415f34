"""The widget of the collapse: its fixed points against those of the formula."""

import json
import math
import shutil
import subprocess
from pathlib import Path

import pytest
from ipywidgets.embed import dependency_state, embed_data

import ebmtut.widgets
from ebmtut.widgets import collapse_explorer

FOLDER = Path(ebmtut.widgets.__file__).parent
ASK = """
import(process.argv[1]).then((js) => console.log(JSON.stringify({
  unstable: js.UNSTABLE,
  ends: [[2, false], [6.5, false], [7.5, false], [7.5, true]].map(
    ([first, clipped]) => js.learned(first, 1, clipped).at(-1)),
})));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_training_converges_below_the_unstable_point_and_runs_away_above(
    tmp_path: Path,
) -> None:
    for name in ("frame", "langevin_line", "collapse_explorer"):
        text = (FOLDER / f"{name}.js").read_text("utf-8")
        text = text.replace("./frame.js", "./frame.mjs")
        text = text.replace("./langevin_line.js", "./langevin_line.mjs")
        (tmp_path / f"{name}.mjs").write_text(text, "utf-8")
    answer = subprocess.run(
        ["node", "-e", ASK, str(tmp_path / "collapse_explorer.mjs")],
        check=True,
        capture_output=True,
        text=True,
    )
    found = json.loads(answer.stdout)
    # A chain's variance delta^2 / (1 - (1 - c)^2), c = delta^2 theta / 2, is 1 there.
    delta = 0.7
    stable, unstable = (
        2 * (1 + sign * math.sqrt(1 - delta**2)) / delta**2 for sign in (-1, 1)
    )
    assert found["unstable"] == pytest.approx(unstable, rel=1e-12)
    low, middle, collapsed, clipped = found["ends"]
    # Batches of 200: theta fluctuates by a tenth or so about the stable point.
    assert low == pytest.approx(stable, abs=0.3)
    assert middle == pytest.approx(stable, abs=0.3)
    assert collapsed > 1000
    assert clipped == pytest.approx(stable, abs=0.3)


def test_state_fits_into_a_page() -> None:
    widget = collapse_explorer()
    state = dependency_state([widget], drop_defaults=False)
    data = embed_data(views=[widget], state=state)
    assert len(json.dumps(data["manager_state"])) < 60_000
