"""Compiled Gibbs sweep of the posterior of binary deconvolution."""

import numpy as np

from ebmtut._compiled import compiled


@compiled
def deconvolution_sweep(s, w, counts, score, s_logit, w_logit, s_uniform, w_uniform):  # type: ignore[no-untyped-def]
    """Resample every bit of s, then every bit of w, given all others, in place.

    s (n_images, n_features, rows, columns), w (n_features, feature_rows,
    feature_columns) uint8; counts (n_images, height, width), the pairs that make a
    pixel black, is kept current; score is log-odds of black.
    """
    n_images, n_features, rows, columns = s.shape
    _, w_rows, w_columns = w.shape
    for n in range(n_images):
        for f in range(n_features):
            for r in range(rows):
                for c in range(columns):
                    old = s[n, f, r, c]
                    logit = s_logit
                    for i in range(w_rows):
                        for j in range(w_columns):
                            # The bit matters where no other pair is on.
                            if w[f, i, j] and counts[n, r + i, c + j] == old:
                                logit += score[n, r + i, c + j]
                    new = 1 if s_uniform[n, f, r, c] * (1 + np.exp(-logit)) < 1 else 0
                    if new != old:
                        s[n, f, r, c] = new
                        for i in range(w_rows):
                            for j in range(w_columns):
                                if w[f, i, j]:
                                    counts[n, r + i, c + j] += new - old
    for f in range(n_features):
        for i in range(w_rows):
            for j in range(w_columns):
                old = w[f, i, j]
                logit = w_logit
                for n in range(n_images):
                    for r in range(rows):
                        for c in range(columns):
                            if s[n, f, r, c] and counts[n, r + i, c + j] == old:
                                logit += score[n, r + i, c + j]
                new = 1 if w_uniform[f, i, j] * (1 + np.exp(-logit)) < 1 else 0
                if new != old:
                    w[f, i, j] = new
                    for n in range(n_images):
                        for r in range(rows):
                            for c in range(columns):
                                if s[n, f, r, c]:
                                    counts[n, r + i, c + j] += new - old
