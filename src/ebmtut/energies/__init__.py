"""Energies: modules E with p(x) proportional to exp(-E(x))."""

from ebmtut.energies.base import Energy, EnergyFunction
from ebmtut.energies.ising import Ising
from ebmtut.energies.lattice import LatticeIsing, lattice_adjacency, lattice_coloring
from ebmtut.energies.mlp import MLPEnergy

__all__ = [
    "Energy",
    "EnergyFunction",
    "Ising",
    "LatticeIsing",
    "MLPEnergy",
    "lattice_adjacency",
    "lattice_coloring",
]
