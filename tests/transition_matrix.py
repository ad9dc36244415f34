"""The transition matrix of a Markov kernel on bits, for tests of samplers."""

import torch

from ebmtut.states import enumerate_states

__all__ = ["kernel_matrix"]


def kernel_matrix(row_probabilities, n_sites, *, dtype=torch.float64):
    """Of i and j the probability of moving from state i to state j.

    The function maps states to the probabilities of moving to each of all states.
    """
    n_all = 2**n_sites
    matrix = row_probabilities(enumerate_states(n_sites, dtype=dtype))
    assert matrix.shape == (n_all, n_all)
    assert matrix.min() >= 0
    assert (matrix.sum(dim=1) - 1).abs().max() <= 1e-6
    return matrix
