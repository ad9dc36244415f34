"""Compile a function: numba reads its tables before the first, for half a second."""

import numba

numba.njit("int64(int64)")(lambda n: n)
