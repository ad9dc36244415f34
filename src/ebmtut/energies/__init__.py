"""Energies: modules E with p(x) proportional to exp(-E(x))."""

from ebmtut.energies.base import Energy, EnergyFunction, dtype_of_states, energies_of
from ebmtut.energies.graph_batch import GraphBatch
from ebmtut.energies.graphs import GraphEnergy, MaxCut, MaxIndependentSet
from ebmtut.energies.images import PerceptronEnergy
from ebmtut.energies.ising import Ising
from ebmtut.energies.lattice import LatticeIsing, lattice_adjacency, lattice_coloring
from ebmtut.energies.levels import (
    FourierEnergy,
    LevelEnergy,
    at_level,
    conditional_energy,
)
from ebmtut.energies.mlp import MLPEnergy
from ebmtut.energies.pairwise import (
    BoltzmannMachine,
    NeighborLists,
    PairTerms,
    PairwiseGraph,
)
from ebmtut.energies.rbm import RBM
from ebmtut.energies.resnet import ResNetEnergy
from ebmtut.energies.table import TableEnergy
from ebmtut.energies.wide_resnet import (
    PAPER_NETWORKS,
    WideResNetConfig,
    WideResNetEnergy,
)

__all__ = [
    "PAPER_NETWORKS",
    "RBM",
    "BoltzmannMachine",
    "Energy",
    "EnergyFunction",
    "FourierEnergy",
    "GraphBatch",
    "GraphEnergy",
    "Ising",
    "LatticeIsing",
    "LevelEnergy",
    "MLPEnergy",
    "MaxCut",
    "MaxIndependentSet",
    "NeighborLists",
    "PairTerms",
    "PairwiseGraph",
    "PerceptronEnergy",
    "ResNetEnergy",
    "TableEnergy",
    "WideResNetConfig",
    "WideResNetEnergy",
    "at_level",
    "conditional_energy",
    "dtype_of_states",
    "energies_of",
    "lattice_adjacency",
    "lattice_coloring",
]
