"""Call every public function with objects of a wrong kind: each raises InputError.

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
    "checked",
    "effective_sample_size",
    "energies_of",
    "refuse",
}
#: Innermost formulas and steps, which trust their callers.
INNERMOST = """
    accelerated_start and_to_child and_to_parents average_weights
    bernoulli bfloat16_is_fast binarize categorical chain_value channel_classes
    contrastive_potential descend dmala_kernel draw_conditional
    estimate_log_mean_exp feasible_plan flip_sites free_vertices gibbs_kernel
    gibbs_ot_iteration gwg_log_proposal holds_names hop_distances
    instances_innermost kolmogorov_residual kolmogorov_variance_loss
    langevin_flip_logits langevin_log_proposal largest_of_exponentials
    log_partition_slope logistic_from_normal marginal_error
    metropolis_log_acceptance min_plus_reference mirror_step mixtures normal
    number_in one_way_rates or_to_child or_to_parents polar replace_file
    reversible_rates sha256_of smoothed_conjugate
    spins_to_bits systematic_resampling trajectory_balance_loss wnmf_temperature
"""
SKIPPED = (
    *("cli", "experiments", "kernels", "sweeps", "ledger", "plotting", "widgets"),
    *("_triton", "_"),
)


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
            trusts = name in FREE or name in INNERMOST.split()
            if trusts or not inspect.isfunction(function):
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
