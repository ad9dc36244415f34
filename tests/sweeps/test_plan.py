"""The words of a sweep become values that the notebook takes, or one line."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebmtut.checks import InputError
from ebmtut.sweeps import make_plan, notebook_parameters
from ebmtut.sweeps.plan import Parameter, _value
from tests.sweeps.notebooks import write_notebook


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return write_notebook(tmp_path_factory.mktemp("page") / "page.ipynb")


def test_parameters_are_read_with_their_types_and_comments(page):
    found = notebook_parameters(page)
    assert found["eps"] == Parameter("eps", "float", 0.1, "strength")
    assert found["careful"].default is False


def test_a_grid_is_a_product_with_all_parameters(page):
    plan = make_plan(page, ["eps=0.1,1e-2", "scale=quick,full"], n_seeds=3)
    assert len(plan.runs) == 12
    assert plan.varied == ("eps", "scale", "seed")
    for values in plan.runs.values():
        assert values.keys() == {"seed", "scale", "eps", "n_steps", "careful"}
    told = {(v["eps"], v["scale"], v["seed"]) for v in plan.runs.values()}
    assert len(told) == 12
    assert (0.01, "full", 2) in told


def test_a_random_search_draws_from_ranges_and_repeats_itself(page):
    words = ["eps=1e-3..1e-1:log", "n_steps=2..4", "scale=quick,full"]
    plan = make_plan(page, words, n_samples=60, n_seeds=2)
    assert len(plan.runs) == 120
    drawn = list(plan.runs.values())
    assert all(1e-3 <= v["eps"] <= 1e-1 for v in drawn)
    assert {v["n_steps"] for v in drawn} == {2, 3, 4}
    # Half of a logarithmic range lies below 1e-2: 30 +- 5 standard errors of 60.
    below = sum(v["eps"] < 1e-2 for v in drawn) / 2
    assert abs(below - 30) < 5 * 15**0.5
    again = make_plan(page, words, n_samples=60, n_seeds=2)
    assert plan.runs == again.runs
    other = make_plan(page, words, n_samples=60, n_seeds=2, sample_seed=1)
    assert plan.runs != other.runs


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("name=moons,circles", ["moons", "circles"]),
        ('name="Smith, J",Bob', ["Smith, J", "Bob"]),
        ("name='Smith, J'", ["Smith, J"]),
        ("name=O'Brien,Smith", ["O'Brien", "Smith"]),
        ("name=f(a,b),c", ["f(a,b)", "c"]),
        ("name=:),b", [":)", "b"]),
        ("layers=[32,32]", [[32, 32]]),
        ("layers=[32,32],[64]", [[32, 32], [64]]),
        ('layers=["a, b", "c"]', [["a, b", "c"]]),
        ("about={'a': 1, 'b': [1, 2]},{}", [{"a": 1, "b": [1, 2]}, {}]),
    ],
)
def test_a_comma_inside_a_value_is_part_of_it(tmp_path, text, values):
    source = "name: str = 'x'\nlayers: list = [1]\nabout: dict = {}"
    page = write_notebook(tmp_path / "page.ipynb", source)
    runs = make_plan(page, [text]).runs.values()
    assert [run[text.partition("=")[0]] for run in runs] == values


@pytest.mark.parametrize(
    ("words", "options", "message"),
    [
        (["epx=1"], {}, r"parameter must be one of seed, .*did you mean 'eps'"),
        (["eps"], {}, "a parameter must be name=value, got 'eps'"),
        (["eps=a"], {}, r"eps must be float \(strength\), got 'a'"),
        (["eps=nan"], {}, "eps must be float"),
        (["n_steps=1.5"], {}, "n_steps must be int"),
        (["careful=1"], {}, "careful must be bool, got '1'"),
        (["eps=1", "eps=2"], {}, "eps must be given once"),
        (["results_dir=x"], {}, "parameter must be one of"),
        (["eps=0.1..0.2"], {}, "it needs --sample N"),
        (["eps=0.2..0.1"], {"n_samples": 1}, "must have low < high"),
        (["eps=-1..1:log"], {"n_samples": 1}, "must have 0 < low < high"),
        (["seed=0,1"], {"n_seeds": 2}, "at most one value of seed"),
        (
            ["scale=Smith, J"],
            {},
            r"""write scale=Smith,J for 2 values, or 'scale="Smith, J"' for one$""",
        ),
        (['scale="a, b", c'], {}, 'write scale="a, b",c for 2 values$'),
        ([], {"n_seeds": 0}, "n_seeds must be an integer >= 1, got 0"),
        ([], {"n_samples": "x"}, "n_samples must be an integer >= 1, got 'x'"),
        ([], {"n_samples": 1, "sample_seed": -1}, "sample_seed must be"),
    ],
)
def test_what_cannot_be_run_is_refused_before_any_work(page, words, options, message):
    with pytest.raises(InputError, match=message):
        make_plan(page, words, **options)


def test_what_is_no_notebook_is_refused(tmp_path):
    with pytest.raises(InputError, match="notebook must be a file"):
        make_plan(tmp_path / "none.ipynb")
    (tmp_path / "bad.ipynb").write_text("{")
    with pytest.raises(InputError, match="must be a notebook"):
        make_plan(tmp_path / "bad.ipynb")
    bare = write_notebook(tmp_path / "bare.ipynb", "x = [i for i in range(3)]")
    with pytest.raises(InputError, match="must be a plain value"):
        make_plan(bare)
    seedless = write_notebook(tmp_path / "seedless.ipynb", "eps: float = 0.1")
    with pytest.raises(InputError, match="a parameter seed"):
        make_plan(seedless, n_seeds=2)


@given(st.text(), st.sampled_from(["str", "int", "float", "bool", "list", "odd"]))
def test_any_text_is_a_value_of_the_kind_or_one_line(text, kind):
    parameter = Parameter("x", kind, [], "")
    try:
        value = _value(parameter, text)
    except InputError as error:
        assert "\n" not in str(error)
    else:
        json.dumps(value)
        assert type(value).__name__ == ("list" if kind == "odd" else kind)
