"""PGMax on the edges of a lattice, in an environment of its own.

    peer_pgmax.py UNARIES.npy WEIGHT N_SWEEPS RESULT.npy

Run by bench_message_passing.py. Prints the CPU seconds of the best of several
runs, after compilation, and stores the states that it decodes.
"""

import functools
import os
import sys
import time

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
if hasattr(os, "sched_setaffinity"):  # one core for XLA's pools, too
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import jax
import jax.extend.backend
import numpy as np

# PGMax 0.6 asks for a name that later versions of JAX have moved.
if not hasattr(jax.lib, "xla_bridge"):
    jax.lib.xla_bridge = jax.extend.backend
from pgmax import fgraph, fgroup, infer, vgroup


def prepared(unaries: np.ndarray, weight: float, n_sweeps: int) -> tuple:
    """Return PGMax's sweeps of a lattice, ready to run, and what reads the states."""
    n_samples, n_sites = unaries.shape
    side = round(n_sites**0.5)
    variables = vgroup.NDVarArray(num_states=2, shape=(side, side))
    graph = fgraph.FactorGraph(variable_groups=variables)
    pairs = [
        [variables[i, j], other]
        for i in range(side)
        for j in range(side)
        for other in (variables[(i + 1) % side, j], variables[i, (j + 1) % side])
    ]
    potential = np.array([[0.0, 0.0], [0.0, weight]])
    graph.add_factors(
        fgroup.PairwiseFactorGroup(
            variables_for_factors=pairs, log_potential_matrix=potential
        )
    )
    bp = infer.BP(graph.bp_state, temperature=0.0)
    evidence = np.stack([np.zeros_like(unaries), unaries], -1)
    start = jax.vmap(lambda e: bp.init(evidence_updates={variables: e}))
    arrays = start(evidence.reshape(n_samples, side, side, 2))
    one = functools.partial(bp.run, num_iters=n_sweeps, damping=0.5)
    run = jax.jit(jax.vmap(one))

    def states(out: object) -> np.ndarray:
        decoded = infer.decode_map_states(jax.vmap(bp.get_beliefs)(out))[variables]
        return np.asarray(decoded).reshape(n_samples, n_sites)

    return lambda: jax.block_until_ready(run(arrays)), states


def main() -> None:
    source, weight, n_sweeps, target = sys.argv[1:]
    run, states = prepared(np.load(source), float(weight), int(n_sweeps))
    out = run()
    best = float("inf")
    for _ in range(5):
        begin = time.process_time()
        run()
        best = min(best, time.process_time() - begin)
    np.save(target, states(out))
    print(best)


if __name__ == "__main__":
    main()
