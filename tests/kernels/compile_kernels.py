"""Compile all kernels for an H100, which needs none, and print what each takes.

A process of its own: in the tests' the interpreter has taken the kernels' place.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from ebmtut.kernels import gibbs_triton as gibbs
from ebmtut.kernels import min_plus_triton as min_plus
from ebmtut.kernels import pairwise_triton as pairwise

FLOATS, INTS, N = "*fp32", "*i32", "i32"
# A number of which a launch finds that 16 divides it.
WIDE = "i32 by 16"
LATTICE = (INTS, INTS, INTS, INTS, "i64", N, N, N, N, N)
WORDS = {
    "OWN_CALLS": 2,
    "CALLS": 12,
    "ROUNDS": 7,
    "POOLED": 4,
    "LANES": 32,
    "num_warps": 1,
}
GRAPH = ("*i8", INTS, FLOATS, FLOATS, INTS, "i64", N, N, N, N, WIDE, N)
EDGES = (FLOATS, INTS, INTS, *[FLOATS] * 5, N, N, N, N, N, WIDE, N)
KERNELS = {
    "tile": (
        pairwise.tile_sweep,
        (*[FLOATS] * 6, *[INTS] * 4, N, N, N),
        {"RENEW": True, "BLOCK": 32},
    ),
    "site": (
        pairwise.site_sweep,
        EDGES,
        {"ALONE": False, "SITES": 8, "CHAINS": 64},
    ),
    "site alone": (
        pairwise.site_sweep,
        EDGES,
        {"ALONE": True, "SITES": 256, "CHAINS": 1, "num_warps": 8},
    ),
    "lattice": (gibbs.word_sweep, LATTICE, WORDS | {"TURNED": False}),
    "lattice in pieces": (gibbs.word_sweep, LATTICE, WORDS | {"TURNED": True}),
    "lattice alone": (
        gibbs.word_sweep,
        LATTICE,
        WORDS | {"TURNED": False, "POOLED": 1, "LANES": 256, "num_warps": 8},
    ),
    "graph": (
        gibbs.class_sweep,
        GRAPH,
        {"ROUNDS": 7, "SITES": 8, "CHAINS": 64, "maxnreg": 64},
    ),
    "graph alone": (
        gibbs.class_sweep,
        GRAPH,
        {"ROUNDS": 7, "SITES": 256, "CHAINS": 4, "num_warps": 8, "maxnreg": 64},
    ),
    "min plus": (
        min_plus.least_sums_tile,
        (FLOATS, FLOATS, FLOATS, N, N, N),
        {"N_M": 32, "N_I": 64},
    ),
}
CUOBJDUMP = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"


def resources(kernel, types, constants):
    """Compile a kernel; tell its registers, bytes spilt, barriers and loads ahead.

    Loads ahead are those that may not see what other threads have stored.
    """
    names = kernel.arg_names
    options = {k: v for k, v in constants.items() if k not in names}
    types = dict(zip(names, types, strict=False))
    source = ASTSource(
        kernel,
        {name: types.get(name, "constexpr").split()[0] for name in names},
        {
            (names.index(name),): value
            for name, value in constants.items()
            if name in names
        },
        # What a launch finds out: tensors begin at a multiple of 16, as all do.
        {
            (k,): [["tt.divisibility", 16]]
            for k, t in enumerate(types.values())
            if t[0] == "*" or t == WIDE
        },
    )
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(made.asm["cubin"])
        file.flush()
        command = (CUOBJDUMP, "--dump-resource-usage", file.name)
        text = subprocess.run(
            command, capture_output=True, text=True, check=True
        ).stdout
    found = dict(re.findall(r"(REG|STACK|LOCAL):(\d+)", text))
    spilt = int(found["STACK"]) + int(found["LOCAL"])
    ptx = made.asm["ptx"]
    ahead = ptx.count("ld.global.nc") + ptx.count("cp.async")
    return int(found["REG"]), spilt, ptx.count("bar.sync"), ahead


if __name__ == "__main__":
    for name in sys.argv[1:] or KERNELS:
        print(name.replace(" ", "-"), *resources(*KERNELS[name]))
