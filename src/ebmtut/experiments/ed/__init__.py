"""Experiments of energy discrepancy (Schröder, Ou, Li and Duncan, 2023)."""
