"""Sweeps run a notebook over a grid of its parameters, each run in its own folder."""

from ebmtut.sweeps.driver import run_sweep
from ebmtut.sweeps.gather import gather
from ebmtut.sweeps.plan import Plan, make_plan, notebook_parameters

__all__ = ["Plan", "gather", "make_plan", "notebook_parameters", "run_sweep"]
