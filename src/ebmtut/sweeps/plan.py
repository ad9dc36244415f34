"""Turn the words of the command line into the runs of a sweep.

All names and types are checked before anything runs.
"""

from __future__ import annotations

import ast
import itertools
import json
import math
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ebmtut._digests import json_digest
from ebmtut.checks import Count, InputError, Natural, check_choice, checked, shown

__all__ = ["Parameter", "Plan", "make_plan", "notebook_parameters"]

#: Parameters that the sweep itself sets: the folder for a run's numbers.
SET_BY_SWEEP = ("results_dir",)

_Draw = Callable[[random.Random], Any]


@dataclass(frozen=True)
class Parameter:
    """One parameter of a notebook.

    Attributes
    ----------
    name
        Its name.
    kind
        Its annotated type, or the type of the default.
    help
        Its comment.
    """

    name: str
    kind: str
    default: Any
    help: str


@dataclass(frozen=True)
class Plan:
    """The runs of a sweep.

    Attributes
    ----------
    varied
        Names of the parameters that differ between runs.
    runs
        The parameters of each run, by the name of its folder.
    """

    notebook: Path
    parameters: Mapping[str, Parameter]
    varied: tuple[str, ...]
    runs: Mapping[str, Mapping[str, Any]]


def notebook_parameters(notebook: str | Path) -> dict[str, Parameter]:
    """Read the cell of a notebook that is tagged ``parameters``."""
    path = Path(notebook)
    if not path.is_file():
        raise InputError(f"notebook must be a file, got {str(path)!r}")
    try:
        from papermill import inspect_notebook
    except ImportError as error:
        raise InputError(
            "sweeps need papermill: pip install 'ebmtut[sweep]' "
            "(in a checkout: pip install -e '.[sweep]')"
        ) from error
    try:
        found = inspect_notebook(str(path))
    except Exception as error:  # nbformat and JSON raise many types
        raise InputError(f"{path} must be a notebook: {error}") from error
    known = {}
    for name, about in found.items():
        try:
            default = ast.literal_eval(about["default"])
        except (SyntaxError, ValueError):
            raise InputError(
                f"parameter {name} of {path} must be a plain value, "
                f"got {about['default']}"
            ) from None
        kind = about["inferred_type_name"]
        kind = type(default).__name__ if kind in (None, "None") else kind
        known[name] = Parameter(name, kind, default, about["help"])
    if not known:
        raise InputError(f"{path} has no cell tagged 'parameters'")
    return known


@checked
def make_plan(
    notebook: str | Path,
    given: Sequence[str] = (),
    *,
    n_seeds: Count | None = None,
    n_samples: Count | None = None,
    sample_seed: Natural = 0,
) -> Plan:
    """List the runs of a grid or of a random search.

    Parameters
    ----------
    given
        ``name=value,value`` each, a text that contains a comma in quotation marks. A
        random search also takes ``name=low..high``,
        uniform, and ``name=low..high:log``.
    n_seeds
        Seeds for each setting, counted upwards from the seed that is given.
    n_samples, sample_seed
        Settings of a random search, None for the whole grid, and its seed.
    """
    known = notebook_parameters(notebook)
    defaults = {n: p.default for n, p in known.items() if n not in SET_BY_SWEEP}
    axes: dict[str, list[Any] | _Draw] = {}
    for words in given:
        name, equals, text = words.partition("=")
        if not equals:
            raise InputError(f"a parameter must be name=value, got {words!r}")
        check_choice("parameter", name, defaults)
        if name in axes:
            raise InputError(f"{name} must be given once: {name}=value,value")
        axes[name] = _values(known[name], text, ranges=n_samples is not None)
    if n_seeds is not None:
        axes["seed"] = _seeds(known, axes.pop("seed", None), n_seeds)
    settings = _settings(axes, n_samples, sample_seed)
    every = [defaults | setting for setting in settings]
    varied = tuple(
        name for name in axes if len({json.dumps(v[name]) for v in every}) > 1
    )
    runs = {_folder_name(values, known): values for values in every}
    return Plan(Path(notebook), known, varied, runs)


def _settings(
    axes: Mapping[str, list[Any] | _Draw], n_samples: int | None, seed: int
) -> list[dict[str, Any]]:
    """Cross the axes, or sample from them; both cross the seeds."""
    lists = {n: values for n, values in axes.items() if isinstance(values, list)}
    if n_samples is None:
        return [
            dict(zip(axes, values, strict=True))
            for values in itertools.product(*lists.values())
        ]
    draw = random.Random(seed)
    seeds = lists.pop("seed", None)
    drawn = []
    for _ in range(n_samples):
        setting = {
            name: draw.choice(axis) if isinstance(axis, list) else axis(draw)
            for name, axis in axes.items()
            if name != "seed"
        }
        drawn += [setting | {"seed": s} for s in seeds] if seeds else [setting]
    return drawn


def _seeds(
    known: Mapping[str, Parameter], given: list[Any] | _Draw | None, n_seeds: int
) -> list[int]:
    if "seed" not in known:
        raise InputError("n_seeds needs a parameter seed, and the notebook has none")
    if given is not None and (not isinstance(given, list) or len(given) > 1):
        raise InputError("n_seeds takes at most one value of seed, the first seed")
    first = given[0] if isinstance(given, list) else known["seed"].default
    return [first + k for k in range(n_seeds)]


def _values(parameter: Parameter, text: str, *, ranges: bool) -> list[Any] | _Draw:
    """Read the values behind the equals sign."""
    span = re.fullmatch(r"(.+?)\.\.(.+?)(:log)?", text)
    if span and parameter.kind in ("int", "float"):
        if not ranges:
            raise InputError(f"{parameter.name}={text} is a range: it needs --sample N")
        return _range(parameter, span[1], span[2], logarithmic=bool(span[3]))
    parts = _parts(text)
    # In a text a blank may belong to the comma, or to the value.
    if parameter.kind == "str" and any(part[:1] == " " for part in parts[1:]):
        several = ",".join(part.strip() for part in parts)
        one = "" if '"' in text else f", or '{parameter.name}=\"{text}\"' for one"
        raise InputError(
            f"{parameter.name} must be values separated by commas without blanks, "
            f"got {shown(text)}: write {parameter.name}={several} for {len(parts)} "
            f"values{one}"
        )
    values = [_value(parameter, part.strip()) for part in parts]
    return list({json.dumps(value): value for value in values}.values())


def _parts(text: str) -> list[str]:
    """Split at commas that stand in no brackets and in no quotation marks.

    A mark counts where a value, or an entry of a list, begins: not within a word.
    """
    parts, depth, quote, begins = [""], 0, "", True
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'" and begins:
            quote = letter
        elif letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        if letter == "," and depth <= 0 and not quote:
            parts.append("")
        else:
            parts[-1] += letter
        begins = letter in ",:([{" or (begins and letter == " ")
    if quote or depth:  # no text of that form
        return text.split(",")
    return parts


def _range(parameter: Parameter, first: str, last: str, *, logarithmic: bool) -> _Draw:
    low, high = _value(parameter, first), _value(parameter, last)
    if not low < high or (logarithmic and low <= 0):
        rule = "0 < low < high" if logarithmic else "low < high"
        raise InputError(
            f"a range of {parameter.name} must have {rule}, got {low}..{high}"
        )
    whole = parameter.kind == "int"

    def draw(source: random.Random) -> Any:
        if logarithmic:
            value = math.exp(source.uniform(math.log(low), math.log(high)))
            return min(max(round(value), low), high) if whole else value
        return source.randint(low, high) if whole else source.uniform(low, high)

    return draw


def _value(parameter: Parameter, text: str) -> Any:
    """Read one value in the type that the notebook's cell declares."""
    kind = parameter.kind
    try:
        if kind == "str":
            is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
            return text[1:-1] if is_quoted else text
        if kind == "bool":
            return {"true": True, "false": False}[text.lower()]
        if kind in ("int", "float"):
            number: int | float = int(text) if kind == "int" else float(text)
            if not math.isfinite(number):
                raise ValueError
            return number
        value = ast.literal_eval(text)
        if type(value) is not type(parameter.default):
            raise ValueError
        return value
    except (KeyError, ValueError, SyntaxError):
        about = f" ({parameter.help})" if parameter.help else ""
        raise InputError(
            f"{parameter.name} must be {kind}{about}, got {text!r}"
        ) from None


def _folder_name(values: Mapping[str, Any], known: Mapping[str, Parameter]) -> str:
    """Name a run by its parameters alone, so that every sweep finds it again."""
    digest = json_digest(values)[:8]
    changed = {
        name: f"{value:.4g}" if isinstance(value, float) else str(value)
        for name, value in values.items()
        if name not in SET_BY_SWEEP and value != known[name].default
    }
    told = "-".join(f"{name}={value}" for name, value in changed.items())
    slug = re.sub(r"[^A-Za-z0-9.=+_-]+", "", told)[:60].strip(".-")
    return f"{slug or 'defaults'}-{digest}"
