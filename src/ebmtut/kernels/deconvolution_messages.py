"""Compiled max-product sweeps of binary deconvolution.

Images are the innermost axis of every array, so that each line is one vector
instruction. The OR of a pixel needs only the sum of the positive messages and the two
largest of its inputs: a first pass gathers these, a second sends the messages back.
"""

import numpy as np

from ebmtut._compiled import compiled


@compiled
def deconvolution_sweeps(  # type: ignore[no-untyped-def]
    pixels, s_unaries, w_unaries, to_s, to_w, s_beliefs, w_beliefs, damping, changes
):
    """Send all messages ``len(changes)`` times, in the dtype of ``pixels``.

    pixels (height, width, n_images), s_unaries (n_features, rows, columns, n_images),
    w_unaries (n_features, feature_rows, feature_columns). Updated in place: the
    messages to_s and to_w, (n_features, rows, columns, feature_rows, feature_columns,
    n_images), and beliefs. changes takes the largest change of a belief of W in each
    sweep.
    """
    n_images = pixels.shape[2]
    n_features, rows, columns, _ = s_unaries.shape
    _, w_rows, w_columns = w_unaries.shape
    dtype = pixels.dtype
    zero = dtype.type(0)
    new_part = dtype.type(1 - damping)
    on = np.empty_like(pixels)
    largest = np.empty_like(pixels)
    second = np.empty_like(pixels)
    s_sum = np.empty(n_images, dtype)
    w_sum = np.empty((w_rows, w_columns, n_images), dtype)
    changes[:] = zero
    for sweep in range(len(changes)):
        on[:] = zero
        largest[:] = -np.inf
        second[:] = -np.inf
        for f in range(n_features):
            for r in range(rows):
                for c in range(columns):
                    belief = s_beliefs[f, r, c]
                    for i in range(w_rows):
                        for j in range(w_columns):
                            w = w_beliefs[f, i, j]
                            p = to_s[f, r, c, i, j]
                            q = to_w[f, r, c, i, j]
                            o = on[r + i, c + j]
                            m1 = largest[r + i, c + j]
                            m2 = second[r + i, c + j]
                            for n in range(n_images):
                                s_in = belief[n] - p[n]
                                w_in = w - q[n]
                                hi = s_in if s_in > w_in else w_in
                                lo = w_in if s_in > w_in else s_in
                                up = lo + (hi if hi < zero else zero)
                                o[n] += up if up > zero else zero
                                below = up if up < m1[n] else m1[n]
                                m2[n] = below if below > m2[n] else m2[n]
                                m1[n] = up if up > m1[n] else m1[n]
        for f in range(n_features):
            w_sum[:] = zero
            for r in range(rows):
                for c in range(columns):
                    belief = s_beliefs[f, r, c]
                    s_sum[:] = s_unaries[f, r, c]
                    for i in range(w_rows):
                        for j in range(w_columns):
                            w = w_beliefs[f, i, j]
                            p = to_s[f, r, c, i, j]
                            q = to_w[f, r, c, i, j]
                            o = on[r + i, c + j]
                            b = pixels[r + i, c + j]
                            m1 = largest[r + i, c + j]
                            m2 = second[r + i, c + j]
                            w_total = w_sum[i, j]
                            for n in range(n_images):
                                s_in = belief[n] - p[n]
                                w_in = w - q[n]
                                hi = s_in if s_in > w_in else w_in
                                lo = w_in if s_in > w_in else s_in
                                up = lo + (hi if hi < zero else zero)
                                best = m2[n] if up == m1[n] else m1[n]
                                free = -best if best < zero else zero
                                down = b[n] + o[n] - (up if up > zero else zero)
                                down = down if down < free else free
                                # max(0, t + down) - max(0, t), as in factors.py
                                s_new = down + (w_in if w_in < zero else zero)
                                s_low = -w_in if w_in > zero else zero
                                s_new = s_new if s_new > s_low else s_low
                                w_new = down + (s_in if s_in < zero else zero)
                                w_low = -s_in if s_in > zero else zero
                                w_new = w_new if w_new > w_low else w_low
                                p[n] += new_part * (s_new - p[n])
                                q[n] += new_part * (w_new - q[n])
                                s_sum[n] += p[n]
                                w_total[n] += q[n]
                    belief[:] = s_sum
            for i in range(w_rows):
                for j in range(w_columns):
                    total = w_unaries[f, i, j] + w_sum[i, j].sum()
                    change = abs(total - w_beliefs[f, i, j])
                    changes[sweep] = max(changes[sweep], change)
                    w_beliefs[f, i, j] = total
