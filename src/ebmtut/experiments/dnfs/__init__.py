"""Figures and tables of the discrete neural flow samplers."""
