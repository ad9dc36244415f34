"""Experiments of diffusion recovery likelihood (Gao et al., 2021)."""
