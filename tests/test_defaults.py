"""Whatever torch's default dtype, device and mode are, the same numbers come out.

A tensor takes the dtype and the device of what it is made from, or the package names
both: a factory of torch that names neither follows the user's defaults.
"""

import ast
import copy
from pathlib import Path

import pytest
import torch

import ebmtut
from ebmtut.data import DENSITIES, density_log_prob
from ebmtut.energies import BoltzmannMachine, Ising, LatticeIsing, MLPEnergy
from ebmtut.exact import exact_log_partition
from ebmtut.metrics import frechet_distance, mmd, precision_recall
from ebmtut.random import make_generator
from ebmtut.transport import exact_ot, sinkhorn, smoothed_wnmf
from tests.test_generators import CALLS, GRID_COST, LINE, LINE_COST, MASSES, X

#: Their dtype is the default one unless it is named.
FLOATING = {"zeros", "ones", "empty", "rand", "randn", "eye", "linspace", "logspace"}
OTHERS = {"as_tensor", "full", "arange", "randint", "randperm", "tensor"}
OTHERS |= {"triu_indices"}
FILES = [
    path
    for path in sorted(Path(ebmtut.__file__).parent.rglob("*.py"))
    if "experiments" not in path.parts
]


def factories(path):
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "torch"
            and node.func.attr in FLOATING | OTHERS
        ):
            yield node, {keyword.arg for keyword in node.keywords}


def test_no_factory_follows_the_defaults():
    bad = []
    for path in FILES:
        for node, named in factories(path):
            needed = {"device"} | ({"dtype"} if node.func.attr in FLOATING else set())
            if None not in named and needed - named:
                bad.append(f"{path.name}:{node.lineno} lacks {needed - named}")
    assert not bad


# Made here, before the defaults change: what a call makes itself would follow them.
ONES = torch.ones(4, 4)
BITS = torch.ones(2, 9)
POINTS = torch.zeros(2, 2).double()
MEANS = torch.full((4,), 0.3)
MORE = {
    "exact_log_partition": lambda generator: exact_log_partition(Ising(ONES), 4),
    "density": lambda generator: [density_log_prob(name, POINTS) for name in DENSITIES],
    "exact_ot": lambda generator: exact_ot(LINE[0], LINE[0], LINE_COST),
    "sinkhorn": lambda generator: sinkhorn(LINE[0], LINE[0], LINE_COST, 0.1, 5),
    "smoothed_wnmf": lambda generator: smoothed_wnmf(
        MASSES, MASSES[:2], cost=GRID_COST, n_rounds=1, n_steps=2
    ),
    "frechet_distance": lambda generator: frechet_distance(X[:5], X[3:9]),
    "precision_recall": lambda generator: precision_recall(X[:5], X[3:9]),
    "mmd": lambda generator: mmd(X[:5], X[3:9]),
    "LatticeIsing": lambda generator: LatticeIsing(3, 0.2)(BITS),
    "BoltzmannMachine": lambda generator: BoltzmannMachine(ONES, ONES[0])(X),
    "MLPEnergy": lambda generator: MLPEnergy(4, 4, 2, MEANS)(X),
}


#: Calls that make the network which they train.
TRAINS_ITS_OWN = """
train train_flow train_eb_gfn train_gflownet train_set_policy FlowFollower.fit
"""


def leaves(value):
    """Numbers and tensors of any result, in order, but for times and names."""
    if hasattr(value, "get_state"):  # a widget; its identity is another each time
        value = value.get_state()
    if isinstance(value, torch.nn.Module):
        value = value.state_dict()
    if isinstance(value, torch.Tensor):
        return [value.detach().clone()]
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        named = {k: v for k, v in value.items() if "seconds" not in str(k)}
        return [leaf for part in named.values() for leaf in leaves(part)]
    if isinstance(value, list | tuple):
        return [leaf for part in value for leaf in leaves(part)]
    return leaves(vars(value)) if hasattr(value, "__dict__") else [value]


@pytest.fixture(params=["bfloat16", "meta", "inference"])
def other_default(request):
    """Give a context manager, so that a test can compute before and within it."""

    class Other:
        makes_other_tensors = request.param != "inference"

        def __enter__(self):
            if request.param == "bfloat16":
                torch.set_default_dtype(torch.bfloat16)
                return
            meta = request.param == "meta"
            self.mode = torch.device("meta") if meta else torch.inference_mode()
            self.mode.__enter__()

        def __exit__(self, *why):
            if request.param != "bfloat16":
                self.mode.__exit__(*why)
            torch.set_default_dtype(torch.float32)

    return Other()


@pytest.mark.parametrize("name", [*CALLS, *MORE])
def test_the_defaults_change_no_number(name, other_default):
    # What a call trains is its own.
    call, again = (copy.deepcopy((CALLS | MORE)[name]) for _ in range(2))
    code = getattr(call, "__code__", None)
    makes = name == "train" or bool(code and "torch" in code.co_names and name in CALLS)
    if name in TRAINS_ITS_OWN.split() and not other_default.makes_other_tensors:
        pytest.skip("no weights that were made in inference mode can be trained")
    if makes and other_default.makes_other_tensors:
        pytest.skip("the call makes a tensor itself, by torch's defaults")
    before = leaves(call(generator=make_generator(0)))
    with other_default:
        after = leaves(again(generator=make_generator(0)))
    assert len(before) == len(after)
    for one, other in zip(before, after, strict=True):
        if isinstance(one, torch.Tensor):
            torch.testing.assert_close(other, one, rtol=0, atol=0, equal_nan=True)
        elif isinstance(one, int | float | bytes):
            assert one == other or one != one
