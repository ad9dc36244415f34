"""A small result: two noise levels, two stabilisers, two numbers of negatives."""

from itertools import product

import numpy as np
import pytest

from ebmtut.results import Result


@pytest.fixture
def result() -> Result:
    """Landscapes of one bright corner each; one diverged, one was not run."""
    variants, arrays = {}, {"truth": np.zeros((8, 8), dtype=np.float16)}
    for k, (eps, m, w) in enumerate(product((0.1, 0.5), (1, 32), (0, 1))):
        name = f"variant{k}"
        recipe = {"method": "ED-Bern", "eps": eps, "n_negatives": m, "stabilizer": w}
        if (eps, m, w) == (0.5, 32, 1):
            continue
        variants[name] = {"recipe": recipe, "gap": 0.25 * k}
        arrays[name] = np.full((8, 8), -30.0)
        arrays[name][0, k] = 0.0
        if (m, w) == (1, 0):
            variants[name] = {"recipe": recipe, "diverged_at": 12}
            del arrays[name]
    other = {"method": "ED-Grid", "eps": 0.1, "n_negatives": 7, "stabilizer": 3}
    variants["grid"] = {"recipe": other, "gap": 1.0}
    arrays["grid"] = arrays["truth"]
    return Result("ed/w-and-m", "full", {}, {"variants": variants}, arrays)
