"""Samplers of p(x) ∝ exp(-E(x)) on bits and real vectors, and their loop.

``ais`` has annealed importance sampling and sequential Monte Carlo, ``informed`` the
proposal of Gibbs-with-gradients, ``discrete_langevin`` DULA and DMALA, ``langevin`` the
Langevin step, which is also that of recovery likelihood's chains in ``conditional``,
and ``interpolation`` the spherical interpolation of noise between two samples.
"""

from ebmtut.samplers.ais import (
    AnnealedSamples,
    annealed_importance_sampling,
    boltzmann_annealing,
)
from ebmtut.samplers.block_gibbs import block_gibbs
from ebmtut.samplers.boltzmann import boltzmann_gibbs, boltzmann_gwg
from ebmtut.samplers.chain import ChainResult, Sampler, Step, StepInfo, run_chain
from ebmtut.samplers.conditional import ConditionalChain, paper_step_sizes
from ebmtut.samplers.deconvolution import deconvolution_gibbs
from ebmtut.samplers.discrete_langevin import DulaState, dmala, dula
from ebmtut.samplers.draw import draw_samples
from ebmtut.samplers.gibbs import ColorGibbsState, GibbsState, color_gibbs, gibbs
from ebmtut.samplers.graphs import (
    anneal,
    greedy_independent_set,
    repair_independent_set,
    vertex_gibbs,
)
from ebmtut.samplers.hmc import AdaptedStep, adapt_step_size, hmc
from ebmtut.samplers.informed import gwg, gwg_log_proposal
from ebmtut.samplers.inpainting import inpaint
from ebmtut.samplers.interpolation import interpolate
from ebmtut.samplers.ising import ising_gibbs, ising_gibbs_reference
from ebmtut.samplers.langevin import MoveInfo, VectorState, langevin, mala
from ebmtut.samplers.metropolis import InformedState, metropolis_log_acceptance
from ebmtut.samplers.progressive import denoised, progressive_samples

__all__ = [
    "AdaptedStep",
    "AnnealedSamples",
    "ChainResult",
    "ColorGibbsState",
    "ConditionalChain",
    "DulaState",
    "GibbsState",
    "InformedState",
    "MoveInfo",
    "Sampler",
    "Step",
    "StepInfo",
    "VectorState",
    "adapt_step_size",
    "anneal",
    "annealed_importance_sampling",
    "block_gibbs",
    "boltzmann_annealing",
    "boltzmann_gibbs",
    "boltzmann_gwg",
    "color_gibbs",
    "deconvolution_gibbs",
    "denoised",
    "dmala",
    "draw_samples",
    "dula",
    "gibbs",
    "greedy_independent_set",
    "gwg",
    "gwg_log_proposal",
    "hmc",
    "inpaint",
    "interpolate",
    "ising_gibbs",
    "ising_gibbs_reference",
    "langevin",
    "mala",
    "metropolis_log_acceptance",
    "paper_step_sizes",
    "progressive_samples",
    "repair_independent_set",
    "run_chain",
    "vertex_gibbs",
]
