"""Energy-based models: learning, sampling and the exact answers beside them.

The package is layered; a module imports only from the floors below its own::

    0  checks, tensor_checks, importance,   plain helpers
       deadlines, random, states,
       schedules, noise
    1  energies, neighbors, paths           what p(x) ~ exp(-E(x)) is made of
    2  kernels                              compiled code for the CPU and the GPU
       exact, samplers                      answers by enumeration; Markov chains
       message_passing, transport           perturbed max-product; optimal transport
       flows                                samplers that are learned
    3  losses, metrics                      how to learn, how to evaluate
    4  data, results, plotting,             what a run reads, keeps and shows
       training, widgets
    5  experiments, ledger, sweeps, cli     the papers' figures and tables

Nothing is imported here, so that ``import ebmtut`` stays cheap; write
``from ebmtut.energies import Ising`` and so on. Wherever random numbers are used, the
keyword ``generator`` is their only source; an invalid argument raises
`ebmtut.checks.InputError` before any work.
"""

__all__ = ["__version__"]

__version__ = "0.1.0"
