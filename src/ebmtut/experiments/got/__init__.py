"""Experiments of Gibbs-OT (Ye, Wang and Li, 2017)."""
