"""Max-product message passing, and what is perturbed and sampled by it."""
