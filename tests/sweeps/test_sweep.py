"""Sweeps as real processes: kept, killed, resumed, ended in time, gathered."""

import csv
import json
import random
import sys
import time

import nbformat
import pytest

from ebmtut.checks import InputError
from ebmtut.cli import main
from ebmtut.sweeps import gather, make_plan, run_sweep, supervision
from ebmtut.sweeps.driver import load_runs
from ebmtut.sweeps.gather import mean_rows, tidy_rows
from ebmtut.sweeps.identity import files_named, run_identity
from tests.sweeps.killing import kill_until_complete, of_sweep
from tests.sweeps.notebooks import write_notebook

pytestmark = pytest.mark.slow


@pytest.fixture
def page(tmp_path):
    return write_notebook(tmp_path / "page.ipynb")


# Stands for papermill and its kernel: the cells run in the process of the run.
BARE = """
import json, os, pathlib, sys, types

def execute_notebook(source, target, parameters, cwd, **options):
    os.chdir(cwd)
    names = {}
    for cell in json.loads(pathlib.Path(source).read_text("utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
            if "parameters" in cell["metadata"].get("tags", ()):
                names |= parameters

papermill = types.ModuleType("papermill")
papermill.execute_notebook = execute_notebook
papermill.inspect_notebook = lambda notebook: {"results_dir"}
exceptions = types.ModuleType("nbclient.exceptions")
exceptions.DeadKernelError = ChildProcessError
sys.modules |= {"papermill": papermill, "nbclient": types.ModuleType("nbclient")}
sys.modules["nbclient.exceptions"] = exceptions
from ebmtut.sweeps.one_run import main

main()
"""


@pytest.fixture
def bare(monkeypatch):
    """Runs without kernels, for what the driver and the tables do with them."""
    monkeypatch.setattr(supervision, "_CHILD", BARE)


runs_are_bare = pytest.mark.usefixtures("bare")


def sweep(page, *words, **options):
    plan = make_plan(page, words)
    return run_sweep(plan, page.parent / "out", progress=False, **options)


def counts_of_starts(page):
    """How often the work of each setting was begun, which the notebook notes."""
    log = page.parent / "log"
    return {p.name: len(p.read_text("utf-8").splitlines()) for p in log.glob("*")}


def table(folder):
    with (folder / "table.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@runs_are_bare
def test_a_sweep_ends_with_a_table_a_picture_and_a_report(page, capsys):
    out = page.parent / "out"
    words = ["sweep", str(page), "-p", "eps=0.1,0.2", "--seeds", "2", "--quiet"]
    assert main([*words, "--out", str(out)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "4 done"
    rows = table(out)
    found = [(r["eps"], r["seed"], float(r["loss"]), r["n_steps"]) for r in rows]
    assert found == [
        ("0.1", "0", pytest.approx(0.2), "2"),
        ("0.1", "1", pytest.approx(0.21), "2"),
        ("0.2", "0", pytest.approx(0.4), "2"),
        ("0.2", "1", pytest.approx(0.41), "2"),
    ]
    assert all(r["table.ED.1"] == str(float(r["seed"])) for r in rows)
    report = (out / "report.html").read_text("utf-8")
    for name, record in load_runs(out).items():
        assert (out / "runs" / name / "notebook.ipynb").is_file()
        assert f"runs/{name.replace('=', '%3D')}/notebook.ipynb" in report
        assert record["versions"]["python"] and record["commit"]
    assert "0.205 ±\u00a00.005" in report  # the mean over two seeds, and its error
    assert (out / "plot.png").read_bytes().startswith(b"\x89PNG")
    # A second call finds everything, and makes the page again.
    before = counts_of_starts(page)
    (out / "table.csv").unlink()
    assert main([*words, "--out", str(out)]) == 0
    assert counts_of_starts(page) == before
    assert table(out) == rows
    # Seeds are no axis of a picture: they are what it averages over.
    with pytest.raises(InputError, match="x must be"):
        gather(out, x="seed")


@runs_are_bare
def test_what_failed_is_done_with_and_what_was_killed_is_not(page):
    words, out = "eps=0.1,0.5,0.6", page.parent / "out"  # they raise, die

    def started():
        return {r["parameters"]["eps"]: r["started"] for r in load_runs(out).values()}

    assert sweep(page, words) == {"done": 1, "failed": 1, "killed": 1}
    first = started()
    assert gather(out)
    report = (out / "report.html").read_text("utf-8")
    assert "eps is too dear" in report and "1 killed" in report
    time.sleep(1)  # the moments are noted in seconds
    assert sweep(page, "eps=0.5,0.6") == {"failed": 1, "killed": 1}
    again = started()
    assert again[0.5] == first[0.5] and again[0.6] > first[0.6]
    sweep(page, "eps=0.5", retry=True)
    assert started()[0.5] > first[0.5]


@runs_are_bare
def test_a_run_is_ended_when_its_time_is_over(page):
    assert sweep(page, "eps=0.7", timeout=0.05) == {"timeout": 1}  # it hangs
    (record,) = load_runs(page.parent / "out").values()
    assert "ended after 3 s" in record["error"]
    assert not of_sweep(page.parent)


@runs_are_bare
def test_cells_of_other_runs_are_left_out(page):
    notebook = nbformat.read(page, as_version=4)
    other = nbformat.v4.new_code_cell("raise RuntimeError('nobody asked')")
    other.metadata["tags"] = ["hide-cell", "other-runs"]
    notebook.cells.insert(2, other)
    nbformat.write(notebook, page)
    assert sweep(page, "eps=0.1") == {"done": 1}
    (name,) = load_runs(page.parent / "out")
    executed = page.parent / "out" / "runs" / name / "notebook.ipynb"
    assert "nobody asked" not in executed.read_text("utf-8")
    # What a sweep does not run does not tell its runs apart.
    other.source = "pass"
    before = run_identity(page)
    nbformat.write(notebook, page)
    assert run_identity(page) == before
    notebook.cells[1].source += "\n"
    notebook.cells[1].source += "other: int = 1"
    nbformat.write(notebook, page)
    assert run_identity(page)["notebook"] != before["notebook"]


def test_killed_at_random_moments_it_ends_complete(page):
    """The driver, a run or a kernel dies by SIGKILL; the same command continues."""
    out = page.parent / "out"
    words = ["sweep", str(page), "-p", "eps=0.1,0.2,0.3"]
    command = [sys.executable, "-m", "ebmtut.cli", *words]
    command += ["--out", str(out), "--jobs", "2", "--quiet"]
    draw = random.Random(time.time_ns())
    records = kill_until_complete(command, out, draw, span=1)
    assert len(records) == 3
    losses = [float(row["loss"]) for row in table(out)]
    assert losses == pytest.approx([0.2, 0.4, 0.6])


def test_a_cluster_makes_the_same_sweep(page):
    distributed = pytest.importorskip("distributed")
    words = ["sweep", str(page), "-p", "eps=0.1,0.2", "--quiet"]
    words += ["--out", str(page.parent / "out")]
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        assert main([*words, "--scheduler", cluster.scheduler_address]) == 0
    assert len(table(page.parent / "out")) == 2


@runs_are_bare
def test_runs_of_other_code_or_data_are_told_apart(page, capsys, monkeypatch, tmp_path):
    sweep(page, "eps=0.1")
    (first,) = load_runs(page.parent / "out").values()
    write_notebook(
        page, last="found = {'loss': 7.0}\n" + "record('f', found, results_dir)"
    )
    assert sweep(page, "eps=0.1,0.2", keep_old=True) == {"done": 2}
    records = load_runs(page.parent / "out")
    assert records[first["name"]] == first
    gather(page.parent / "out")
    report = (page.parent / "out" / "report.html").read_text("utf-8")
    assert "2 different states of code" in report
    capsys.readouterr()
    sweep(page, "eps=0.1,0.2")
    assert (
        "repeating 1 runs that were made with other notebook" in capsys.readouterr().err
    )
    assert load_runs(page.parent / "out")[first["name"]]["numbers"]["f"]["loss"] == 7
    monkeypatch.setenv("EBMTUT_DATA", str(tmp_path))
    sweep(page, "eps=0.1")
    assert "made with other data" in capsys.readouterr().err


@runs_are_bare
def test_a_file_that_a_parameter_names_counts_by_its_content(page, capsys):
    """Overwritten, it is another run; written again with the same, it is not."""
    write_notebook(
        page,
        parameters="path: str = ''\nname: str = 'mine.csv'\nresults_dir: str = ''",
        work="import pathlib\nfrom ebmtut.results import record",
        last="n = float(pathlib.Path(path).read_text())\n"
        "record('f', {'n': n}, results_dir)",
    )
    mine, out = page.parent / "mine.csv", page.parent / "out"

    def found():
        (record,) = load_runs(out).values()
        return record["numbers"]["f"]["n"], record["started"]

    mine.write_text("1")
    sweep(page, "path=mine.csv")
    first = found()
    assert first[0] == 1
    mine.write_text("1")
    sweep(page, "path=mine.csv")
    assert found() == first
    mine.write_text("2")
    capsys.readouterr()
    sweep(page, "path=mine.csv")
    assert "repeating 1 runs that were made with other files" in capsys.readouterr().err
    assert found()[0] == 2
    # A file in a folder, which a run of the same process has named before.
    (page.parent / "all").mkdir()
    states = []
    for text in ("1", "22"):
        (page.parent / "all" / "x.csv").write_text(text)
        states.append(files_named(page, {"paths": ["mine.csv", "all"]}))
    assert states[0]["paths=mine.csv"] == states[1]["paths=mine.csv"]
    assert states[0]["paths=all"] != states[1]["paths=all"]
    # Two files of one sweep are no mixture of states; a changed one is.
    (page.parent / "other.csv").write_text("3")
    sweep(page, "path=mine.csv,other.csv")
    gather(out)
    assert "different states" not in (out / "report.html").read_text("utf-8")
    mine.write_text("4")
    sweep(page, "path=mine.csv", "name=x", keep_old=True)
    gather(out)
    assert "different states of code" in (out / "report.html").read_text("utf-8")


@runs_are_bare
def test_two_notebooks_of_one_name_have_two_folders(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for chapter in ("ed", "pmp"):
        (tmp_path / chapter).mkdir()
        page = write_notebook(tmp_path / chapter / "ising.ipynb")
        assert main(["sweep", str(page), "--quiet"]) == 0
        folder = tmp_path / "sweeps" / f"{chapter}-ising"
        assert len(table(folder)) == 1
        plan = json.loads((folder / "sweep.json").read_text("utf-8"))
        assert plan["notebook"] == f"{chapter}/ising.ipynb"
        assert plan["path"] == f"../../{chapter}/ising.ipynb"
    capsys.readouterr()
    words = ["sweep", "pmp/ising.ipynb", "--quiet", "--out", "sweeps/ed-ising"]
    assert main(words) == 2
    assert "holds the sweep of ../../ed/ising.ipynb" in capsys.readouterr().err
    assert len(table(tmp_path / "sweeps" / "ed-ising")) == 1


@runs_are_bare
def test_columns_of_one_name_are_kept_apart(page):
    """A parameter, a recorded number and the sweep's own column of the same name."""
    names = ("seconds", "commit", "run", "status", "runs")
    write_notebook(
        page,
        parameters="\n".join(f"{name}: int = 3" for name in names)
        + "\nresults_dir: str = ''",
        work="from ebmtut.results import record",
        last=f"found = dict.fromkeys({names}, 5.0)\n"
        "record('f', {**found, 'sweep': {'status': 'none'}}, results_dir)",
    )
    sweep(page, *(f"{name}=4" for name in names))
    gather(page.parent / "out")
    (row,) = table(page.parent / "out")
    (record,) = load_runs(page.parent / "out").values()
    for name in names:
        assert (row[name], row[f"f.{name}"]) == ("4", "5.0")
        if name != "runs":
            own = record[{"run": "name"}.get(name, name)]
            assert row[f"sweep.{name}"] == str(own)
    (mean,) = mean_rows(tidy_rows({"f": record}), ["runs"], ["f.runs"])
    assert mean == {"runs": 4, "sweep.runs": 1, "f.runs": (5.0, None)}


@runs_are_bare
def test_a_recorded_number_never_overwrites_the_sweeps_own(page):
    write_notebook(
        page,
        work="import numpy as np, torch\nfrom ebmtut.results import record",
        last="found = {'seconds': 5.0, 'code': 'x', 'a': torch.tensor(1.5),"
        " 'b': np.array(2.5), 'c': np.float32(3.5), 'n': torch.tensor(3),"
        " 'runs': 4.5, 'sweep': {'status': 'y'}}\n"
        "record('f', found, results_dir)",
    )
    sweep(page)
    out = page.parent / "out"
    gather(out)
    (row,), (record,) = table(out), load_runs(out).values()
    assert row["seconds"] == str(record["seconds"]) and row["f.seconds"] == "5.0"
    assert row["code"] == record["identity"]["package"] and row["f.code"] == "x"
    assert [row[name] for name in "abcn"] == ["1.5", "2.5", "3.5", "3"]
    assert (row["f.runs"], row["f.sweep.status"]) == ("4.5", "y")


@runs_are_bare
def test_an_orphan_of_an_earlier_call_ends_itself(page, tmp_path):
    """It neither goes on nor replaces what a later call has made."""
    (tmp_path / "runs").mkdir()
    (tmp_path / ".driver").write_text("later")
    specification = {
        "notebook": str(page),
        "folder": str(tmp_path / "runs"),
        "name": "one",
        "parameters": {"eps": 0.7},  # hangs
        "about": {},
        "driver": "earlier",
    }
    assert supervision.supervise(specification, 60) == ("one", "killed")
    assert not (tmp_path / "runs" / "one").exists()


def test_bad_calls_are_one_line(page, tmp_path, capsys):
    for words, told in (
        (["gather", str(tmp_path / "none")], "holds no sweep"),
        (["sweep", str(page), "--jobs", "0"], ": --jobs must be an integer >= 1"),
        (["sweep", str(page), "--timeout", "-1"], ": --timeout must be a number > 0"),
        (["sweep", str(page), "--seeds", "two"], ": --seeds must be an integer"),
        (["sweep", str(page), "--sample", "0"], ": --sample must be an integer"),
        (["sweep", str(page), "--sample-seed", "-1"], ": --sample-seed must be an"),
        (["sweep", str(page), "--out", str(page / "x")], "cannot be written to"),
        (["sweep", str(page), "--scheduler", "here"], "scheduler must be"),
    ):
        free = "--out" not in words and words[0] != "gather"
        assert main([*words, *(["--out", str(tmp_path)] if free else [])]) == 2
        assert told in capsys.readouterr().err.splitlines()[-1]
