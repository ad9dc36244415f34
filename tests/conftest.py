"""What all tests share: one thread each, so that workers do not fight for cores."""

import os

for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(name, "1")
