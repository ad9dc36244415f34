"""Configurations of experiments, cut to a few steps, samples and data."""

from dataclasses import fields, is_dataclass, replace

from ebmtut.flows import simulate

__all__ = ["FEW", "NETWORKS", "cut", "in_two_steps"]

#: Fields of any configuration that decide how long a run takes, with small values.
FEW = {
    **dict.fromkeys(("n_seeds", "n_last", "n_flow_steps", "n_models", "n_repeats"), 1),
    **dict.fromkeys(("n_rounds", "lp_steps", "n_looks", "n_reused", "n_langevin"), 1),
    **dict.fromkeys(("mixing_window", "n_chain_steps", "n_rollouts", "n_back"), 1),
    **dict.fromkeys(("n_energy_steps", "n_steps_persistent", "n_warm"), 2),
    **dict.fromkeys(("n_time_steps", "n_sweeps", "judged_sweeps", "n_data_sweeps"), 2),
    **dict.fromkeys(("n_test", "n_copies", "n_graphs", "inner_steps"), 2),
    **dict.fromkeys(("n_epochs", "max_passes", "n_exact", "n_bound_passes"), 2),
    **dict.fromkeys(("n_sampling", "n_starts", "n_backward", "n_warmup"), 2),
    **dict.fromkeys(("lp_hidden", "lp_chains", "n_perturbations", "n_on_lattice"), 3),
    **dict.fromkeys(("n_negatives", "n_chains", "n_chains_persistent"), 4),
    **dict.fromkeys(("n_steps", "coarse_bits", "n_iterations", "chain_points"), 4),
    **dict.fromkeys(("n_levels", "chain_iterations", "n_arcs"), 6),
    **dict.fromkeys(
        ("batch_size", "n_train", "n_pixels", "n_chain_samples", "n_long"), 8
    ),
    **dict.fromkeys(("n_points", "n_images", "n_judged"), 16),
    **dict.fromkeys(("n_data", "n_uniform", "n_samples"), 64),
    "n_proposal": 500,
    "sweeps": (2,),
    "refinements": (0, 1),
    "factors": (1, 2),
    "n_moves": (1,),
    "budgets": (3,),
    "precision": "float32",
}
#: Those that decide how large a network is.
NETWORKS = {"hidden": 4, "width": 4, "n_hidden": 4, "n_layers": 1, "n_features": 4}


def cut(config, most=FEW, **exact):
    """Return a configuration with small values, and with exact ones, at any depth."""
    if isinstance(config, tuple):
        return tuple(cut(part, most, **exact) for part in config)
    if not is_dataclass(config):
        return config
    changes = {}
    for name in (field.name for field in fields(config)):
        value = getattr(config, name)
        few = most.get(name)
        if name in exact:
            value = exact[name]
        elif type(value) is not type(few):
            value = cut(value, most, **exact)
        else:
            value = min(value, few) if isinstance(few, int) else few
        changes[name] = value
    return replace(config, **changes)


def in_two_steps(flow, n_samples, n_steps, **options):
    """Simulate a flow as asked, but in two steps."""
    return simulate(flow, n_samples, 2, **options)
