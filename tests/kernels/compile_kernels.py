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
LATTICE = [(*[INTS] * 4, c, "i64", N, N, N, N, N) for c in ("constexpr", INTS)]
NO_CLOCK = {"clock": None}
WORDS = {"OWN_CALLS": 2, "CALLS": 12, "ROUNDS": 7, "TURNED": False}
WORDS |= {"POOLED": 4, "LANES": 32, "num_warps": 1}
FREE = WORDS | NO_CLOCK
ONE_PROGRAM = {"POOLED": 1, "LANES": 256, "num_warps": 8}
GRAPH = [
    ("*i8", INTS, INTS, FLOATS, FLOATS, INTS, c, "i64", N, N, N, N, WIDE)
    for c in ("constexpr", INTS)
]
ALL_SITES = {"ALONE": True, "SITES": 256, "CHAINS": 1, "num_warps": 8}
PAIRS = (*[FLOATS] * 6, *[INTS] * 4, N, N, N)
EDGES = (FLOATS, INTS, INTS, *[FLOATS] * 5, N, N, N, N, WIDE, N)
TILE = min_plus.least_sums_tile
# Launches are compiled for a number of parts of 1, and for any other.
SUMS = (*[FLOATS] * 3, N, N, N, "constexpr", N)
DOUBLE = (*["*fp64"] * 3, *SUMS[3:])
ONE, PART = {"parts": 1}, {"N_M": 32, "num_warps": 1}
CLASSES = {"ROUNDS": 7, "maxnreg": 64}
KERNELS = {
    "tile": (pairwise.tile_sweep, PAIRS, {"RENEW": True, "BLOCK": 32}),
    "site": (pairwise.site_sweep, EDGES, {"ALONE": False, "SITES": 8, "CHAINS": 64}),
    "site alone": (pairwise.site_sweep, EDGES, ALL_SITES),
    "lattice": (gibbs.word_sweep, LATTICE[0], FREE),
    "lattice by the clock": (gibbs.word_sweep, LATTICE[1], WORDS),
    "lattice in pieces": (gibbs.word_sweep, LATTICE[0], FREE | {"TURNED": True}),
    "lattice alone": (gibbs.word_sweep, LATTICE[0], FREE | ONE_PROGRAM),
    "graph": (gibbs.class_sweep, GRAPH[1], CLASSES | {"SITES": 8, "CHAINS": 64}),
    "graph alone": (
        gibbs.class_sweep,
        GRAPH[0],
        NO_CLOCK | CLASSES | {"SITES": 256, "CHAINS": 4, "num_warps": 8},
    ),
    "min plus": (TILE, SUMS, ONE | PART | {"N_I": 64}),
    "min plus small": (TILE, SUMS, ONE | PART | {"N_I": 32}),
    "min plus double": (TILE, DOUBLE, ONE | PART | {"N_I": 32}),
    "min plus in parts": (TILE, (*[FLOATS] * 3, *[N] * 5), PART | {"N_I": 64}),
}
CUOBJDUMP = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"


def innermost(code):
    """Return the operations of the longest loop without one in it, or else of all."""
    jumps = [
        (int(target[1], 16), at)
        for at, text in code
        if (target := re.search(r"BRA.* 0x([0-9a-f]+)", text))
    ]
    loops = [(to, at) for to, at in jumps if to < at]
    alone = [
        (a, b)
        for a, b in loops
        if not any((c, d) != (a, b) and a <= c and d <= b for c, d in loops)
    ]
    a, b = max(alone, key=lambda loop: loop[1] - loop[0], default=(0, code[-1][0]))
    return [text for at, text in code if a <= at <= b]


def counts(operations):
    """Return how many instructions there are, and how many of them load."""
    return len(operations), sum(bool(re.search(r"\bLD[GS]", x)) for x in operations)


def resources(kernel, types, constants):
    """Compile a kernel; return what it takes.

    Its registers, bytes spilt, barriers and loads ahead, which are those that may not
    see what other threads have stored; then the instructions and loads of all of it,
    and those of its longest innermost loop.
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
        words = (CUOBJDUMP, "--dump-resource-usage", "--dump-sass", file.name)
        text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    found = dict(re.findall(r"(REG|STACK|LOCAL):(\d+)", text))
    spilt = int(found["STACK"]) + int(found["LOCAL"])
    ptx = made.asm["ptx"]
    ahead = ptx.count("ld.global.nc") + ptx.count("cp.async")
    code = re.findall(r"/\*([0-9a-f]{4,})\*/\s+([^;/]+);", text)
    code = [(int(at, 16), text) for at, text in code if text.strip() != "NOP"]
    whole, loop = counts([text for _, text in code]), counts(innermost(code))
    return int(found["REG"]), spilt, ptx.count("bar.sync"), ahead, *whole, *loop


if __name__ == "__main__":
    for name in sys.argv[1:] or KERNELS:
        print(name.replace(" ", "-"), *resources(*KERNELS[name]))
