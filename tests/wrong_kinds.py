"""Call every public function with objects of a wrong kind: each raises InputError.

All arguments at once, and alone each that is to be of a class of the package, a number,
a text, a path, a sequence or a function.
In a process of its own, without the tests' hook that holds calls to their signatures:
a user has none. Prints what raises another error.
"""

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import is_dataclass
from functools import partial
from pathlib import Path
from types import UnionType
from typing import Annotated, Union, get_args, get_origin, get_type_hints

import torch

import ebmtut
from ebmtut.checks import InputError, _class_of
from ebmtut.random import make_generator
from ebmtut.samplers import gibbs, gwg, langevin, run_chain

#: Checks of checks, what takes any callable and asks nothing of it at first, and what
#: says in its refusal which other function to take (samplers/test_refusals.py).
FREE = """
    adapt_step_size alone check_bits check_choice check_clamp_values check_counts
    check_finite check_floating check_floats check_only_bits check_range check_shape
    check_states check_type check_vectors check_weights check_within checked
    collect_provenance counting dtype_of_states effective_sample_size energies_of
    ising_gibbs ising_gibbs_reference refuse to_json
"""
#: Innermost formulas and steps, which trust their callers.
INNERMOST = """
    DivergenceError accelerated_start and_to_child and_to_parents average_weights
    bernoulli bfloat16_is_fast binarize categorical chain_value channel_classes
    contrastive_potential descend dmala_kernel draw_conditional feasible_plan
    gibbs_kernel gibbs_ot_iteration gwg_log_proposal joined kolmogorov_residual
    kolmogorov_variance_loss largest_of_exponentials log_partition_slope
    marginal_error metropolis_log_acceptance min_plus_reference mirror_step mixtures
    normal or_to_child or_to_parents replace_file sha256_of smoothed_conjugate
    spins_to_bits systematic_resampling trajectory_balance_loss wnmf_temperature
"""
SKIPPED = (
    *("cli", "experiments", "kernels", "sweeps", "ledger", "plotting"),
    *("_triton", "_"),
)


class Odd:
    """Nothing that any function wants."""


def call(name, function, /, *places, **words):
    told = f"{name} of {places or words}"
    try:
        function(*places, **words)
    except (InputError, ImportError):
        return
    except Exception as error:
        print(f"{told}: {type(error).__name__}: {error}")
    else:
        if words:
            print(f"{told}: no error")


def wrong_values(hint):
    """What an annotation of a number, a text, a sequence or a function excludes."""
    origin = get_origin(hint)
    if origin is Annotated:
        return []  # tests/test_declared.py
    if origin in (Union, UnionType):
        members = get_args(hint)
        own = [wrong_values(part) for part in members if part is not type(None)]
        allows_none = len(own) < len(members)
        values = own[0] if len(own) == 1 else []
        return [v for v in values if not (v is None and allows_none)]
    if origin is Callable:
        return [torch.zeros(2), "f"]
    if isinstance(origin, type) and issubclass(origin, (tuple, Sequence)):
        return [3, torch.tensor(1.0), "a"]
    return {
        int: ["3", 2.5, torch.zeros(2), None],
        float: ["0.5", torch.zeros(2), None],
        bool: ["no", 2],
        str: [3, None],
        Path: [3],
    }.get(hint, [])


def main():
    seen = set()
    sys.modules["anywidget"] = None  # every module but the widgets does without
    for module in pkgutil.walk_packages(ebmtut.__path__, "ebmtut."):
        parts = module.name.split(".")[1:]
        if parts[0] == "widgets":
            continue
        names = importlib.import_module(module.name)
        if any(part.startswith(SKIPPED) or part.endswith("_triton") for part in parts):
            continue
        for name in getattr(names, "__all__", ()):
            function = getattr(names, name)
            trusts = name in (FREE + INNERMOST).split()
            own = inspect.isfunction(function) or (
                inspect.isclass(function)
                and inspect.isfunction(function.__init__)
                and not (is_dataclass(function) or inspect.isabstract(function))
            )
            if trusts or not own or function in seen:
                continue
            seen.add(function)
            parameters = inspect.signature(function).parameters.values()
            made = function.__init__ if inspect.isclass(function) else function
            hints = get_type_hints(made, include_extras=True)
            for p in parameters:
                hint = hints.get(p.name)
                kind = _class_of(hint)
                is_own = kind and kind is not torch.Tensor
                for value in [Odd()] if is_own else wrong_values(hint):
                    call(f"{module.name}.{name}", function, **{p.name: value})
            if inspect.isclass(function):
                continue
            given = [
                p
                for p in parameters
                if p.default is p.empty and p.kind not in (p.VAR_KEYWORD,)
            ]
            places = [Odd() for p in given if p.kind is not p.KEYWORD_ONLY]
            words = {p.name: Odd() for p in given if p.kind is p.KEYWORD_ONLY}
            call(f"{module.name}.{name}", function, *places, **words)
    for sampler in (gibbs, gwg, partial(langevin, step_size=0.1)):
        call(
            f"{sampler} of no function",
            lambda sampler=sampler: run_chain(
                sampler(Odd()), torch.zeros(2, 3), 1, generator=make_generator(0)
            ),
        )
    print(len(seen), "functions")


if __name__ == "__main__":
    main()
