"""Call every function that promises InputError with objects of a wrong kind.

In a process of its own, without the tests' hook that holds calls to their signatures:
a user has none. Prints what raises another error.
"""

import importlib
import inspect
import pkgutil
from functools import partial

import torch

import ebmtut
from ebmtut.checks import InputError
from ebmtut.random import make_generator
from ebmtut.samplers import gibbs, gwg, langevin, run_chain

#: Checks of checks, and what takes any callable and asks nothing of it at first.
FREE = {
    "check_choice",
    "check_clamp_values",
    "check_finite",
    "check_floating",
    "check_floats",
    "check_only_bits",
    "check_shape",
    "check_within",
    "adapt_step_size",
    "check_rbm_method",
    "check_type",
    "effective_sample_size",
    "energies_of",
    "refuse",
}
SKIPPED = ("experiments", "_triton", "sweeps", "ledger", "plotting", "widgets", "_")


class Odd:
    """Nothing that any function wants."""


def main():
    seen = set()
    for module in pkgutil.walk_packages(ebmtut.__path__, "ebmtut."):
        parts = module.name.split(".")[1:]
        if any(part.startswith(SKIPPED) or part.endswith("_triton") for part in parts):
            continue
        names = importlib.import_module(module.name)
        for name in getattr(names, "__all__", ()):
            function = getattr(names, name)
            promises = "InputError" in (function.__doc__ or "")
            if name in FREE or not inspect.isfunction(function) or not promises:
                continue
            if function in seen:
                continue
            seen.add(function)
            given = [
                p
                for p in inspect.signature(function).parameters.values()
                if p.default is p.empty and p.kind not in (p.VAR_KEYWORD,)
            ]
            places = [Odd() for p in given if p.kind is not p.KEYWORD_ONLY]
            words = {p.name: Odd() for p in given if p.kind is p.KEYWORD_ONLY}
            try:
                function(*places, **words)
            except (InputError, ImportError):
                continue
            except Exception as error:
                print(f"{module.name}.{name}: {type(error).__name__}: {error}")
    for sampler in (gibbs, gwg, partial(langevin, step_size=0.1)):
        try:
            run_chain(sampler(Odd()), torch.zeros(2, 3), 1, generator=make_generator(0))
        except InputError:
            continue
        except Exception as error:
            print(f"{sampler} of no function: {type(error).__name__}: {error}")
    print(len(seen), "functions")


if __name__ == "__main__":
    main()
