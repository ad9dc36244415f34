"""Perturb-and-max-product (Lazaro-Gredilla, Dedieu and George, 2021)."""
