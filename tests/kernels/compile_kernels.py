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

from ebmtut.message_passing import _pairwise_triton as pairwise
from ebmtut.samplers import _gibbs_triton as gibbs
from ebmtut.transport import _min_plus_triton as min_plus

FLOATS, INTS, N = "*fp32", "*i32", "i32"
KERNELS = {
    "tile": (
        pairwise.tile_sweep,
        (*[FLOATS] * 6, *[INTS] * 4, N, N, N),
        {"RENEW": True, "BLOCK": 32},
    ),
    "site": (
        pairwise.site_sweep,
        (FLOATS, INTS, INTS, *[FLOATS] * 5, N, N, N),
        {"RENEW": True, "SITES": 4, "CHAINS": 64},
    ),
    "lattice": (
        gibbs.word_sweep,
        (INTS, INTS, INTS, INTS, "i64", N, N, N, N),
        {"TURNED": False, "N_CALLS": 12, "ROUNDS": 7, "WORDS": 128, "num_warps": 1},
    ),
    "lattice in pieces": (
        gibbs.word_sweep,
        (INTS, INTS, INTS, INTS, "i64", N, N, N, N),
        {"TURNED": True, "N_CALLS": 12, "ROUNDS": 7, "WORDS": 128, "num_warps": 1},
    ),
    "graph": (
        gibbs.class_sweep,
        ("*i8", INTS, FLOATS, FLOATS, "i64", N, N, N, N, N),
        {"ROUNDS": 7, "SITES": 4, "CHAINS": 64},
    ),
    "min plus": (
        min_plus.least_sums_tile,
        (FLOATS, FLOATS, FLOATS, N, N, N),
        {"N_M": 32, "N_I": 64},
    ),
}
CUOBJDUMP = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"


def resources(kernel, types, constants):
    """Compile a kernel; return its registers a thread and bytes that are spilt."""
    names = kernel.arg_names
    options = {k: v for k, v in constants.items() if k not in names}
    types = dict(zip(names, types, strict=False))
    source = ASTSource(
        kernel,
        {name: types.get(name, "constexpr") for name in names},
        {
            (names.index(name),): value
            for name, value in constants.items()
            if name in names
        },
        # What a launch finds out about tensors: they begin at a multiple of 16.
        {
            (k,): [["tt.divisibility", 16]]
            for k, t in enumerate(types.values())
            if t[0] == "*"
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
    return int(found["REG"]), int(found["STACK"]) + int(found["LOCAL"])


if __name__ == "__main__":
    for name in sys.argv[1:] or KERNELS:
        print(name.replace(" ", "-"), *resources(*KERNELS[name]))
