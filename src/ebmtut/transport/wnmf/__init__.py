"""Wasserstein NMF: images as mixtures of learned images, by two methods."""
