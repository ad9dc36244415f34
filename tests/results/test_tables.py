"""Tables and stored energies: what is printed, read back and refused."""

import math

import pytest
import torch

from ebmtut import energies
from ebmtut.checks import InputError
from ebmtut.energies import (
    RBM,
    BoltzmannMachine,
    Energy,
    FourierEnergy,
    GraphBatch,
    Ising,
    LatticeIsing,
    MaxCut,
    MaxIndependentSet,
    MLPEnergy,
    PairwiseGraph,
    PerceptronEnergy,
    ResNetEnergy,
    TableEnergy,
    WideResNetConfig,
    WideResNetEnergy,
    dtype_of_states,
)
from ebmtut.experiments.verdicts import mean_and_stderr
from ebmtut.random import make_generator
from ebmtut.results import Table
from ebmtut.results.checkpoints import load_checkpoint, save_checkpoint
from ebmtut.results.saved_energies import load_energy, save_energy
from ebmtut.states import enumerate_states
from tests.shared import normal


def test_text_is_aligned_and_rounded_to_the_error():
    table = Table(
        {
            "method": ["ED", "exact"],
            "error": [(0.01234, 0.00213), (-1.5, 0.04)],
            "time [s]": [12.3456, None],
            "n": [3, -1],
        },
        caption="Errors: standard errors.",
        kinds=["", "exact"],
    )
    assert repr(table).splitlines() == [
        "Errors: standard errors.",
        "method            error  time [s]   n",
        "ED      0.0123 ± 0.0021      12.3   3",
        "exact      −1.50 ± 0.04         –  −1",
    ]


@pytest.mark.parametrize(
    ("cell", "printed"),
    [
        ((123.4, 29.9), "123 ± 30"),
        ((123.4, 2.0), "123.4 ± 2.0"),
        ((1565.0, 1503.0), "1600 ± 1500"),
        ((1565.0, 420.0), "1600 ± 400"),
        ((1.0, 0.0), "1"),
        ((math.nan, 1.0), "–"),
        (math.nan, "–"),
        (-math.inf, "−inf"),
        (1e-5, "1e−05"),
        (-1476.2, "−1480"),
        (98_437.0, "98400"),
        (1.5e6, "1.5e+06"),
        (True, "True"),
    ],
)
def test_cells(cell, printed):
    table = Table({"a": ["x"], "b": [cell]})
    assert table.rows == (("x", printed),)


def test_a_number_without_an_error_stands_alone():
    """A row of one seed stands beside rows of several."""
    cells = [(0.25, None), ("0.250", None), (0.25, 0.01)]
    shown = Table({"runs": ["one", "printed", "three"], "x": cells})
    assert shown.numeric[1]
    assert [line.split()[1:] for line in repr(shown).splitlines()[1:]] == [
        ["0.25"],
        ["0.250"],
        ["0.250", "±", "0.010"],
    ]


def test_the_rounding_of_equal_rows_is_no_error():
    """Three equal numbers have a standard error of 1e-17, by their rounded mean."""
    value = 0.118935850194583456
    single = torch.full((7,), value).std().item() / 7**0.5
    cells = [(value, 5e-18), (value, single), (2.0, 0.5)]
    shown = Table({"a": ["x", "y", "z"], "b": cells}).rows
    assert single > 1e-10 and mean_and_stderr([value] * 7)[1] == 0
    assert [row[1] for row in shown] == ["0.119", "0.119", "2.0 ± 0.5"]


def test_a_column_may_have_equally_many_decimal_places():
    columns = {
        "a": ["x", "y", "z"],
        "b": [0.38, -1.0432, math.nan],
        "c": [1e-7, 2.0, 0.5],
        "n": [1, 2, 3],
        "d": [(0.5, 0.1), 0.25, None],
    }
    table = Table(columns, even=True)
    assert table.rows[0][1:] == ("0.38", "1e−07", "1", "0.50 ± 0.10")
    assert table.rows[1][1:] == ("−1.04", "2", "2", "0.25")
    assert table.rows[2][1:] == ("–", "0.5", "3", "–")
    assert Table({"a": ["x", "y"], "b": [0.3804, 0.3851]}, even=True).rows == (
        ("x", "0.380"),
        ("y", "0.385"),
    )


EDGES = torch.tensor([[0, 1, 3], [1, 2, 0]])
GRAPHS = GraphBatch.from_edges([(4, [(0, 1), (2, 3)]), (3, [(0, 1), (1, 2)])])
WIDE = WideResNetConfig(8, 1, (1, 2), 0.9, 4, channels=8, n_levels=2)
ENERGIES = {
    "ising": lambda: Ising(normal(4, 4)),
    "ising with a field": lambda: Ising(normal(4, 4), normal(4), learnable=True),
    "boltzmann": lambda: BoltzmannMachine(normal(4, 4).float(), normal(4).float()),
    "graph": lambda: PairwiseGraph(EDGES, normal(3), normal(4), learnable=True),
    "rbm": lambda: RBM(normal(3, 4), normal(3), normal(4)),
    "lattice": lambda: LatticeIsing(3, 0.2, -0.1),
    "mlp": lambda: MLPEnergy(4, 8, 3, generator=make_generator(1)),
    "mlp with a base": lambda: MLPEnergy(
        4, 8, 2, torch.tensor([0.5, 1e-9, 0.3, 1 - 1e-7]), generator=make_generator(1)
    ),
    "double mlp": lambda: MLPEnergy(4, 8, 2, generator=make_generator(1)).double(),
    "residual": lambda: ResNetEnergy(2, 3, 2, 1, generator=make_generator(1)),
    "residual with a base": lambda: ResNetEnergy(
        2, 3, 2, base_probs=torch.full((4,), 0.3), generator=make_generator(1)
    ),
    "table": lambda: TableEnergy(normal(8).float(), 4),
    "one layer": lambda: MLPEnergy(4, 8, 1, generator=make_generator(1)),
    "cut": lambda: MaxCut(GRAPHS, inverse_temperature=2.5),
    "independent set": lambda: MaxIndependentSet(
        GRAPHS.select(torch.tensor([1])), penalty=1.3, inverse_temperature=0.7
    ),
}
# Of all levels: each with the shape of a state.
LEVEL_ENERGIES = {
    "fourier": (lambda g: FourierEnergy(3, 2, 8, 2, 5, 0.7, generator=g), (3,)),
    "perceptron": (
        lambda g: PerceptronEnergy((2, 3), (0.3, 0.9), 8, 2, "signed", generator=g),
        (2, 3),
    ),
    "wide": (
        lambda g: WideResNetEnergy(WIDE, (0.2, 3.0), generator=g).eval(),
        (3, 8, 8),
    ),
}


def restored(energy, folder):
    """Save an energy with notes, load both, and compare all but the energies."""
    path = folder / "deep" / "energy.safetensors"
    save_energy(path, energy, notes={"loss": "ED", "seed": 3})
    back, notes = load_energy(path)
    assert notes == {"loss": "ED", "seed": 3}
    assert type(back) is type(energy)
    state, loaded = energy.state_dict(), back.state_dict()
    assert list(state) == list(loaded)
    for key, value in state.items():
        assert loaded[key].dtype == value.dtype
        assert torch.equal(loaded[key], value)
    return back


@pytest.mark.parametrize("name", ENERGIES)
def test_comes_back_bit_for_bit(name, tmp_path):
    energy = ENERGIES[name]()
    back = restored(energy, tmp_path)
    x = enumerate_states(energy.n_sites, dtype=dtype_of_states(energy))
    assert torch.equal(back(x), energy(x))
    asks = [p.requires_grad for p in energy.parameters()]
    assert [p.requires_grad for p in back.parameters()] == asks


@pytest.mark.parametrize("name", LEVEL_ENERGIES)
def test_an_energy_of_levels_comes_back(name, tmp_path):
    make, shape = LEVEL_ENERGIES[name]
    energy = make(make_generator(1))
    with torch.no_grad():  # layers that start at zero would hide a loss
        for p in energy.parameters():
            p += 0.1 * torch.randn(p.shape, generator=make_generator(2))
    back = restored(energy, tmp_path)
    x = normal(4, *shape, dtype=torch.float32)
    level = torch.tensor([0, 1, 1, 0])
    # The weights are the same; a convolution may sum another layout elsewhere.
    torch.testing.assert_close(back.eval()(x, level), energy(x, level))
    assert float(energy(x, level).detach().std()) > 0


def test_every_energy_of_the_package_can_be_saved():
    bases = {"Energy", "GraphEnergy"}
    kinds = [getattr(energies, name) for name in energies.__all__]
    kinds = [kind for kind in kinds if isinstance(kind, type)]
    modules = {kind.__name__ for kind in kinds if issubclass(kind, torch.nn.Module)}
    made = [make() for make in ENERGIES.values()]
    made += [make(make_generator(0)) for make, _ in LEVEL_ENERGIES.values()]
    assert {type(energy).__name__ for energy in made} == modules - bases


class Mine(Energy):
    def __init__(self, n_sites):
        super().__init__()
        self.n_sites = n_sites
        self.slope = torch.nn.Parameter(torch.ones(n_sites))

    def forward(self, x):
        return -x @ self.slope

    def constructor_arguments(self):
        return {"n_sites": self.n_sites}


def test_a_class_of_ones_own_is_given_by_its_user(tmp_path):
    energy = Mine(3)
    with torch.no_grad():
        energy.slope[1] = 4
    path = tmp_path / "mine.safetensors"
    save_energy(path, energy)
    back, _ = load_energy(path, Mine)
    assert torch.equal(back(torch.eye(3)), energy(torch.eye(3)))
    with pytest.raises(InputError, match=r"must hold one of .*MLPEnergy.* got Mine"):
        load_energy(path)
    with pytest.raises(InputError, match="must hold one of Ising, got Mine"):
        load_energy(path, Ising)


def test_files_of_others_are_refused_in_one_line(tmp_path):
    path = tmp_path / "a.safetensors"
    with pytest.raises(InputError, match="does not exist"):
        load_energy(path)
    save_checkpoint(path, {"w": torch.zeros(2)}, {"step": 1})
    with pytest.raises(InputError, match="must be a file of save_energy"):
        load_energy(path)
    meta = {"energy": "Ising", "arguments": {"coupling": 3}, "notes": {}}
    for odd in (meta, meta | {"tensor_arguments": {"coupling": "state.none"}}):
        save_checkpoint(path, {"w": torch.zeros(2)}, odd)
        with pytest.raises(InputError, match="must fit Ising") as caught:
            load_energy(path)
        assert "\n" not in str(caught.value)


def test_every_flipped_byte_is_told(tmp_path):
    """Refused, or, where a byte means nothing, loaded as it was."""
    path = tmp_path / "a.safetensors"
    save_checkpoint(path, {"w": torch.arange(5.0)}, {"step": 7, "name": "run"})
    whole = path.read_bytes()
    tensors, meta = load_checkpoint(path)
    for place in range(len(whole)):
        for flip in (1, 32):
            damaged = bytearray(whole)
            damaged[place] ^= flip
            path.write_bytes(damaged)
            try:
                got, facts = load_checkpoint(path)
            except InputError as error:
                assert "\n" not in str(error)
                continue
            assert facts == meta and got.keys() == tensors.keys(), place
            assert torch.equal(got["w"], tensors["w"]), place
            assert got["w"].dtype == tensors["w"].dtype, place
