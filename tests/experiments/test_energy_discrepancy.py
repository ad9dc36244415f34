"""The experiments of energy discrepancy: evaluated on cases with known answers."""

import math
from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from joblib import parallel_config
from torch import nn

from ebmtut.checks import DivergenceError, InputError
from ebmtut.data import (
    DENSITIES,
    DensityData,
    density_extent,
    density_log_prob,
    density_scale,
    exact_entropy,
    sample_density,
)
from ebmtut.deadlines import OutOfTime
from ebmtut.energies import lattice_adjacency
from ebmtut.experiments import get_experiment, jobs
from ebmtut.experiments.ed import couplings, densities, densities_table, evaluation
from ebmtut.experiments.ed.couplings import (
    IsingConfig,
    edge_precision,
    fit_couplings,
    ising_job,
)
from ebmtut.experiments.ed.densities import DensityConfig, density_job
from ebmtut.experiments.ed.densities_table import (
    density_table,
    log_z_apart,
    mean_and_error,
)
from ebmtut.experiments.ed.evaluation import (
    Evaluation,
    coverage,
    evaluate_density,
    evaluate_independent_bits,
    landscape,
)
from ebmtut.experiments.ed.ising_heatmaps import draw_edges
from ebmtut.experiments.ed.ising_rmse import BY_LATTICE, SCORES, no_coupling
from ebmtut.experiments.ed.recipes import METHODS, Recipe, fit_densities, fit_density
from ebmtut.experiments.ed.variants import (
    AblationConfig,
    draw_variants,
    gap_of,
    variant_name,
)
from ebmtut.experiments.jobs import Outcome
from ebmtut.metrics import negative_log_rmse
from ebmtut.random import make_generator
from ebmtut.results import Result, benchmarks_root, load_result, save_result
from ebmtut.states import bits_to_spins, enumerate_states, gray_decode
from ebmtut.training._cuda_graph import N_EAGER
from studies.ed import competing
from tests.pretended_graphs import pretended_graphs

needs_cuda = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs a CUDA device"
)
TINY = Recipe(n_steps=3, batch_size=8, n_negatives=4, n_backward=2)
QUICK_EVALUATION = Evaluation(
    200, n_uniform=0, n_proposal=2000, n_repeats=1, coarse_bits=6
)
# For trainings of which only the course is tested: 16 x 16 squares in place of 64 x 64.
GLANCE = replace(QUICK_EVALUATION, coarse_bits=4)
MOONS = DensityConfig(densities=("moons",), recipe=TINY, evaluation=GLANCE, n_pixels=16)


def variants_of(*recipes):
    return AblationConfig(recipes, "moons", n_pixels=16, evaluation=GLANCE)


def true_energy(density):
    """Energy of the data's own distribution, up to the width of a cell."""
    scale = density_scale(density)

    def energy(x):
        points = gray_decode(x.double(), scale, center=True)
        return -density_log_prob(density, points)

    return energy


# --------------------------------------------------------------- evaluation


def test_the_data_s_own_distribution_has_no_gap():
    numbers = evaluate_density(
        true_energy("8gaussians"),
        "8gaussians",
        replace(QUICK_EVALUATION, n_proposal=20_000),
        seed=1,
    )
    assert abs(numbers["gap"]) < 5 * numbers["gap_se"] + 1e-4
    assert abs(numbers["nll"] - DensityData("8gaussians").entropy) < (
        5 * numbers["nll_se"]
    )


def test_a_model_s_gap_is_its_divergence():
    """A uniform model: the gap is 32 ln 2 minus the entropy, exactly."""
    numbers = evaluate_density(
        lambda x: torch.zeros(len(x)), "circles", QUICK_EVALUATION, seed=1
    )
    exact = 32 * math.log(2) - DensityData("circles").entropy
    assert abs(numbers["gap"] - exact) < 5 * numbers["gap_se"] + 1e-6
    assert numbers["log_z"] == pytest.approx(32 * math.log(2), abs=1e-6)


def test_uniform_draws_agree_with_the_proposal():
    numbers = evaluate_density(
        true_energy("moons"),
        "moons",
        replace(QUICK_EVALUATION, n_uniform=50_000, n_proposal=10_000, n_repeats=0),
        seed=2,
    )
    error = math.hypot(numbers["log_z_se"], numbers["log_z_uniform_se"])
    assert abs(numbers["log_z"] - numbers["log_z_uniform"]) < 5 * error
    assert "mmd" not in numbers


def test_the_true_landscape_covers_its_data():
    points = sample_density("moons", 20_000, generator=make_generator(0)).numpy()
    truth = landscape(None, "moons", n_pixels=256)
    inside, area = coverage(truth, points, density_extent("moons"))
    # 95 percent by construction; half a pixel of blur on top of 5 errors.
    assert abs(inside - 0.95) < 5 * math.sqrt(0.95 * 0.05 / 20_000) + 0.01
    assert 0.05 < area < 0.3


def test_coverage_of_a_checkered_picture():
    picture = np.log(np.kron(np.eye(2), np.ones((4, 4))) + 1e-12)
    points = np.array([[-0.5, -0.5], [0.5, 0.5], [0.5, -0.5], [7.0, 0.0]])
    inside, area = coverage(picture, points, 1.0)
    assert inside == 0.5
    # 95 percent of 32 equal pixels are 31 of them; ties are taken whole.
    assert area == 0.5


def test_landscape_rows_run_upwards():
    """The log density of a point is found at its pixel."""
    picture = landscape(None, "moons", n_pixels=64)
    extent = density_extent("moons")
    row, column = 40, 10
    x, y = ((np.array([column, row]) + 0.5) / 64 * 2 - 1) * extent
    point = torch.tensor([[x, y]], dtype=torch.float64)
    assert picture[row, column] == pytest.approx(
        float(density_log_prob("moons", point)), rel=1e-5
    )


class Elsewhere(nn.Module):
    """An energy whose parameters lie on another device than the CPU."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1, device="meta"))

    def forward(self, x):
        self.seen = x.device.type
        return torch.zeros(len(x))


def test_a_landscape_is_computed_where_the_energy_lies():
    energy = Elsewhere()
    assert not landscape(energy, "moons", n_pixels=4).any()
    assert energy.seen == "meta"
    for anywhere in (true_energy("moons"), nn.Flatten(0)):  # no parameters: the CPU
        assert evaluation._device_of(anywhere).type == "cpu"


@pytest.mark.cuda
@needs_cuda
@pytest.mark.parametrize("method", ["ED-Bern", "ED-Grid", "ED-Pool", "PCD"])
def test_a_job_on_the_gpu(method):
    recipe = replace(TINY, method=method)
    outcome = density_job("moons", recipe, QUICK_EVALUATION, 0, 16, device="cuda")
    assert {"gap", "nll", "mmd", "inside"} < outcome.scalars.keys()
    assert all(np.isfinite(value) for value in outcome.scalars.values())
    assert np.isfinite(outcome.arrays["losses"]).all()
    assert outcome.arrays["landscape"].shape == (16, 16)


@pytest.mark.cuda
@needs_cuda
def test_evaluating_on_the_gpu():
    numbers = evaluate_density(
        true_energy("8gaussians"),
        "8gaussians",
        replace(QUICK_EVALUATION, n_proposal=20_000),
        seed=1,
        device="cuda",
    )
    assert abs(numbers["gap"]) < 5 * numbers["gap_se"] + 1e-4


@pytest.mark.parametrize("density", ["circles", "swissroll"])
def test_independent_bits_miss_the_entropy_by_their_gap(density):
    """The baseline's NLL and KL, on other points each, are one divergence apart."""
    found = evaluate_independent_bits(density)
    error = math.hypot(found["nll_se"], found["gap_se"])
    over = found["nll"] - exact_entropy(density)
    assert over == pytest.approx(found["gap"], abs=5 * error)
    assert found["gap"] > 0.5 and 0.3 < found["area"] < 0.8


# ---------------------------------------------------------------- densities


@pytest.mark.parametrize("method", ["ED-Bern", "ED-Grid", "ED-Pool", "PCD"])
def test_fit_is_reproducible(method):
    recipe = replace(TINY, method=method)
    one, again, other = (
        fit_density("moons", recipe, seed=seed).losses for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)


def test_densities_count_seeds_and_resume(tmp_path):
    config = replace(MOONS, methods={"ED-Bern": 2, "ED-Grid": 1})
    experiment = get_experiment("ed/densities-table")
    result = experiment.run(config, checkpoints=tmp_path)
    table = result.scalars["table"]
    assert [len(table[m]["moons"]["gap"]) for m in table] == [2, 1]
    assert result.arrays["ED-Bern/moons"].shape == (16, 16)
    again = experiment.run(config, checkpoints=tmp_path)
    assert again.scalars == result.scalars  # the very seconds: nothing ran
    plt.close(experiment.figure(result))
    plt.close(get_experiment("ed/densities").figure(result))
    verdicts = experiment.check(replace(result, scale="full"))
    bounded = [v for v in verdicts if "entropy" in v.name]
    assert bounded and all(v.verdict == "miss" for v in bounded)  # three steps


def test_divergence_is_an_outcome():
    # A learning rate beyond float32: the first update ends in infinities.
    recipe = replace(TINY, learning_rate=1e38, n_steps=200, precision="float32")
    outcome = density_job("moons", recipe, None, 0, 16)
    assert outcome.scalars.keys() == {"diverged_at"}


def diverging(lost):
    """Let jobs be computed, all but some methods' seeds: these diverge."""

    def job(seed, **arguments):
        if (arguments["recipe"].method, seed) in lost:
            return Outcome({"diverged_at": 1})
        return density_job(seed=seed, **arguments)

    return replace(get_experiment("ed/densities-table"), job=job, parallel=False)


@pytest.mark.parametrize(
    ("lost", "n_pictures"),
    [
        ([("PCD", 0)], 2),  # the first seed only: the second's picture is shown
        ([("PCD", 0), ("PCD", 1)], 1),
        ([("PCD", 0), ("PCD", 1), ("ED-Bern", 0), ("ED-Bern", 1)], 0),
    ],
)
def test_a_table_survives_seeds_that_diverge(tmp_path, lost, n_pictures):
    config = replace(MOONS, methods={"ED-Bern": 2, "PCD": 2})
    result = diverging(lost).run(config)
    methods = [m for m in config.methods if f"{m}/moons" in result.arrays]
    assert len(methods) == n_pictures
    rows = [row["moons"] for row in result.scalars["table"].values()]
    for method, row in zip(config.methods, rows, strict=True):
        n_lost = sum(name == method for name, _ in lost)
        assert np.isnan(row.get("nll", [math.nan] * 2)).sum() == n_lost
    # NaN in a fresh result, None in a stored one.
    save_result(replace(result, scale="full"), tmp_path)
    for stored in (result, load_result(result.id, "full", tmp_path)):
        figure = get_experiment("ed/densities").figure(stored)
        words = [text.get_text() for ax in figure.axes for text in ax.texts]
        assert words == ["diverged"] * (2 - n_pictures)
        plt.close(figure)
        plt.close(get_experiment("ed/densities-table").figure(stored))
        verdicts = get_experiment("ed/densities-table").check(stored)
        nll = next(v for v in verdicts if v.name == "NLL: PCD, moons")
        assert (nll.ours, nll.verdict, nll.reason) == (
            None,
            "miss",
            "our number is not finite",
        )
    for method in config.methods:
        numbers = result.scalars["table"][method].pop("moons")
        result.scalars["table"][method]["circles"] = numbers
    covered = get_experiment("ed/densities").check(result)
    assert [v.ours is None for v in covered] == [n_pictures == 0] * 2 + [True] * 2


def test_log_z_is_compared_over_all_seeds_that_have_it():
    one = {"log_z_uniform": [1.0], "log_z_uniform_se": [0.3]}
    two = {"log_z_uniform": [2.0, None], "log_z_uniform_se": [0.3, None]}
    one |= {"log_z": [1.1], "log_z_se": [0.4]}
    two |= {"log_z": [1.5, None], "log_z_se": [0.4, None]}
    table = {"ED-Bern": {"moons": one}, "PCD": {"moons": two}}
    result = Result("ed/densities-table", "full", {}, {"table": table})
    assert log_z_apart(result) == pytest.approx(0.5 / 0.5)


def test_tables_of_the_densities_page(monkeypatch):
    bits = dict.fromkeys(("gap", "gap_se", "mmd", "mmd_se"), 0.5)
    monkeypatch.setattr(densities_table, "evaluate_independent_bits", lambda _: bits)
    stored = get_experiment("ed/densities-table").stored()
    gaps = density_table(stored, "gap")
    assert gaps.heads[1:] == (*METHODS, "independent bits")
    assert {row[-1] for row in gaps.rows} == {"500 ± 500"}
    cell = stored.scalars["table"]["ED-Bern"]["2spirals"]
    mean, _ = mean_and_error(cell, "gap")
    assert gaps.rows[0][1].startswith(f"{1e3 * mean:.1f} ± ")
    assert density_table(stored, "mmd").heads[-1] == "held-out data"
    assert density_table(stored, "gap", baseline=False).heads[1:] == METHODS
    figure = get_experiment("ed/densities-table").figure(stored)
    assert len(figure.axes) == 2
    plt.close(figure)
    pictures = get_experiment("ed/densities")
    figure = pictures.figure(pictures.stored(), densities=("checkerboard",))
    assert [ax.get_title() for ax in figure.axes] == ["truth", *METHODS[:3]]
    plt.close(figure)


def test_mean_and_error():
    cell = {"gap": [1.0, 3.0], "gap_se": [0.1, 0.1]}
    assert mean_and_error(cell, "gap") == pytest.approx((2.0, 1.0))
    cell = {"gap": [1.0], "gap_se": [0.1]}
    assert mean_and_error(cell, "gap") == pytest.approx((1.0, 0.1))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"densities": ("moon",)}, "moon"),
        ({"methods": {"ED-Magic": 1}}, "ED-Magic"),
        ({"methods": {"PCD": 0}}, "PCD"),
        ({"n_pixels": 1}, "n_pixels"),
    ],
)
def test_bad_density_configurations(change, words):
    with pytest.raises(InputError, match=words):
        DensityConfig(**change)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"method": "CD"}, "method"),
        ({"eps": 1.5}, "eps"),
        ({"method": "ED-Pool", "window": 0}, "window"),
        ({"n_steps": -1}, "n_steps"),
    ],
)
def test_bad_recipes(change, words):
    with pytest.raises(InputError, match=words):
        Recipe(**change)


# ---------------------------------------------------------------- ablations


def test_without_lost_information_nothing_is_learned():
    """At eps = 0 the loss is ln((w + M) / M), whatever the energy."""
    recipe = replace(TINY, eps=0.0, n_steps=5, precision="float32")
    losses = fit_density("moons", recipe, seed=0).losses
    np.testing.assert_allclose(losses, math.log(5 / 4), rtol=1e-5)


def test_variants_are_told_apart_and_drawn():
    recipes = tuple(replace(TINY, eps=eps) for eps in (0.1, 0.5))
    result = get_experiment("ed/epsilon").run(variants_of(*recipes))
    names = list(map(variant_name, recipes))
    assert len(set(names)) == 2 and set(names) < result.arrays.keys()
    assert all(np.isfinite(gap_of(result, recipe)) for recipe in recipes)
    figure = draw_variants(result, lambda r: f"{r.eps:g}", lambda r: -r.eps)
    assert [ax.get_title() for ax in figure.axes] == ["0.5", "0.1"]
    plt.close(figure)


def test_variants_in_one_batch_have_the_numbers_of_single_runs(monkeypatch):
    methods = ("ED-Bern", "ED-Grid", "ED-Pool")
    recipes = [
        replace(TINY, method=method, n_negatives=m, precision="float32")
        for method in methods
        for m in (2, 4)
    ]
    config = variants_of(*recipes)
    row = get_experiment("ed/w-and-m")
    alone = row.run(config)
    monkeypatch.setattr(densities, "fit_density", None)  # it must do without
    batch = row.run(config, in_one_batch=True)
    assert batch.arrays.keys() == alone.arrays.keys()
    for recipe in recipes:
        # Products in another order: float32, three steps.
        assert gap_of(batch, recipe) == pytest.approx(gap_of(alone, recipe), abs=1e-4)
    with pytest.raises(InputError, match="ed/ising-rmse has no batch"):
        get_experiment("ed/ising-rmse").run("quick", in_one_batch=True)
    with pytest.raises(InputError, match="train alike, got PCD"):
        recipes_of_pcd = [replace(TINY, method="PCD")]
        fit_densities(["moons"], recipes_of_pcd, seeds=[0])


@pytest.mark.parametrize(("names", "seeds"), [(["moons"], [0]), ([], [])])
def test_a_batch_needs_as_many_recipes_as_densities(names, seeds):
    with pytest.raises(InputError, match="must be equally many, at least one"):
        fit_densities(names, [], seeds=seeds)


TABLE = DensityConfig(
    methods={"ED-Bern": 2, "ED-Pool": 1}, recipe=replace(TINY, precision="float32")
)


def quick_table_row(monkeypatch, evaluated=()):
    """Return the row of the table, whose energies tell a few values, no evaluation.

    Their names go into the list; at the second one there a Ctrl-C comes.
    """

    def evaluate(result, seconds, density, evaluation, seed, n_pixels, device):
        if evaluated != ():
            evaluated.append(density)
            if len(evaluated) == 2:
                raise KeyboardInterrupt
        x = DensityData(density).sample_bits(20, generator=make_generator(0))
        energy = result.energy(x).mean().item()
        return Outcome({"energy": energy, "loss": float(result.losses[0])})

    monkeypatch.setattr(densities, "_evaluated", evaluate)
    row = get_experiment("ed/densities-table")
    return replace(row, extras=lambda config, seed: Outcome())


def test_a_table_of_all_densities_is_one_batch(monkeypatch):
    """With the numbers of single runs.

    The first loss to the rounding of sums of some 30 numbers up to 10 in float32.
    Afterwards Adam moves a weight by a whole step even where its slope is nothing but
    rounding: the energies may be apart by as much as one weight moves in all three
    steps. That float64 agrees to nine digits is a test of `train_ensemble`.
    """
    steps = TABLE.recipe.train_config()
    moved = sum(steps.learning_rate_at(k) for k in range(steps.n_steps))
    row = quick_table_row(monkeypatch)
    with parallel_config(n_jobs=1):
        alone = row.run(TABLE).scalars["table"]
    learn, sizes = densities.fit_densities, []

    def counted(names, *words, **options):
        sizes.append(len(names))
        return learn(names, *words, **options)

    monkeypatch.setattr(densities, "fit_densities", counted)
    batch = row.run(TABLE, in_one_batch=True).scalars["table"]
    assert sizes == [21]
    for method, line in alone.items():
        for density, cell in line.items():
            found = batch[method][density]
            assert found["loss"] == pytest.approx(cell["loss"], abs=3e-5)
            assert found["energy"] == pytest.approx(cell["energy"], abs=moved)
    values = [v for line in alone.values() for c in line.values() for v in c["loss"]]
    assert min(np.diff(sorted(values))) > 6e-5  # none stands in another's place


def test_a_batch_that_was_cut_off_goes_on(monkeypatch, tmp_path):
    """In the middle of its steps, and between the evaluations of its energies.

    Chains of PCD, which no batch can hold, run beside it.
    """
    methods = {"ED-Bern": 1, "PCD": 1}
    config = replace(TABLE, densities=("moons", "circles"), methods=methods)
    whole = quick_table_row(monkeypatch).run(config, in_one_batch=True)
    evaluated = []
    row = quick_table_row(monkeypatch, evaluated)

    def go_on(**limit):
        return row.run(config, in_one_batch=True, checkpoints=tmp_path, **limit)

    with pytest.raises(OutOfTime, match="0 of 4 jobs are done"):
        go_on(time_limit=0)
    with pytest.raises(KeyboardInterrupt):
        go_on()
    step, steps = torch.optim.Adam.step, []
    monkeypatch.setattr(
        "torch.optim.Adam.step", lambda self: (steps.append(1), step(self))
    )
    found = go_on()
    assert len(steps) == 2 * 3  # those of the chains: the batch had ended
    assert evaluated == ["moons", "circles", "circles", "moons", "circles"]
    assert not [*(tmp_path / "parts").iterdir()]
    assert found.scalars["table"] == whole.scalars["table"]


@pytest.mark.filterwarnings("ignore:.*copying from a non-meta parameter")  # it copies
def test_a_table_is_replayed_as_it_is_trained_step_by_step(monkeypatch, tmp_path):
    """To the bit, at a rate that float32 holds; on a GPU that is not there.

    What was kept of one way is not taken for the other's.
    """
    recipe = replace(
        TABLE.recipe, n_steps=N_EAGER + 2, learning_rate=2**-8, decay="constant"
    )
    config = replace(TABLE, densities=("moons", "circles"), recipe=recipe)
    row = quick_table_row(monkeypatch)

    def evaluate(result, *rest):
        sums = [
            p.detach().cpu().double().sum().item() for p in result.energy.parameters()
        ]
        return Outcome({"weights": sum(sums), "loss": float(result.losses[-1])})

    monkeypatch.setattr(densities, "_evaluated", evaluate)
    # It would follow the mocks that stand for the GPU's parts.
    monkeypatch.setattr(jobs, "code_digest", lambda *_: "")
    with pretended_graphs() as (device, graphs):
        path = "ebmtut.experiments.experiment.resolve_device"
        monkeypatch.setattr(path, lambda name: device)

        def made(**how):
            how |= {"in_one_batch": True, "device": "cuda", "checkpoints": tmp_path}
            return row.run(config, **how).scalars["table"]

        plain = made()
        assert not graphs
        assert made(cuda_graph=True) == plain
        assert [graph.n_replays for graph in graphs] == [2]


@pytest.mark.parametrize(
    ("id", "how", "words"),
    [
        (
            "ed/ising-rmse",
            {},
            "ed/ising-rmse has no steps that cuda_graph could record",
        ),
        ("ed/densities", {}, "cuda_graph records the steps of one batch: ask for both"),
        ("ed/densities", {"in_one_batch": True}, "cuda_graph needs device cuda, got"),
    ],
)
def test_a_recording_that_cannot_be_is_refused_before_any_work(id, how, words):
    row = get_experiment(id)
    with pytest.raises(InputError, match=words):
        row.run("quick", device="cpu", cuda_graph=True, **how)


def test_a_variant_that_diverges_in_a_batch_leaves_the_others_alone(monkeypatch):
    learn = densities.fit_densities

    def one_diverges(*words, **options):
        found = learn(*words, **options)
        return [DivergenceError("too steep", 2), *found[1:]] if found[1:] else found

    monkeypatch.setattr(densities, "fit_densities", one_diverges)
    recipes = [replace(TINY, eps=eps) for eps in (0.1, 0.5)]
    config = variants_of(*recipes)
    result = get_experiment("ed/epsilon").run(config, in_one_batch=True)
    assert gap_of(result, recipes[0]) == math.inf
    assert np.isfinite(gap_of(result, recipes[1]))


def test_a_map_says_which_settings_diverged():
    stored = get_experiment("ed/w-and-m").stored()
    figure = get_experiment("ed/w-and-m").figure(stored, methods=("ED-Bern",))
    (ax,) = figure.axes
    texts = [text.get_text() for text in ax.texts]
    # w = 0 down to M = 32, in the first row; w = 1 with one negative in the third.
    assert texts[:4] == ["diverged"] * 4 and texts[4:6] == ["4.84", "0.14"]
    assert texts[12] == "0.34" and len(texts) == 24
    plt.close(figure)


# -------------------------------------------------------------------- ising


def test_edge_precision():
    truth = lattice_adjacency(3).double()
    assert edge_precision(2 * truth, truth) == 1.0
    assert edge_precision(-truth, truth) == 1.0
    upper = torch.triu(1 - truth, 1)
    assert edge_precision(upper + upper.T, truth) == 0.0


@pytest.mark.parametrize("method", ["ED-Bern", "ED-Grid", "PL", "Gibbs", "GWG"])
def test_couplings_of_a_triangle_and_a_tail(method, monkeypatch):
    """Data from the exact distribution of four spins: J comes back."""
    monkeypatch.setitem(couplings.CHAINS, "GWG", 4)
    truth = torch.zeros(4, 4)
    for i, j, value in ((0, 1, 0.3), (1, 2, -0.2), (0, 2, 0.2), (2, 3, 0.4)):
        truth[i, j] = truth[j, i] = value
    states = enumerate_states(4, dtype=torch.float32)
    spins = bits_to_spins(states)
    distribution = torch.einsum("ni,ij,nj->n", spins, truth, spins).softmax(0)
    n_data = 20_000
    rows = distribution.multinomial(n_data, True, generator=make_generator(1))
    config = IsingConfig()
    config = replace(config, train=replace(config.train, n_steps=400))
    (learned,) = fit_couplings(states[rows], method, (0.0,), config, seed=0)
    # An efficient estimate errs by about 1 / (4 sqrt n) = 0.002 a coupling
    # (the gradient of s'Js in J_ij is 2 s_i s_j, twice for the symmetric pair);
    # noise and minibatches of 256 cost up to sqrt(n / (256 * 100)) of it again.
    assert (learned - truth).abs().max() < 0.03
    assert torch.equal(learned, learned.T) and not learned.diagonal().any()


def test_table_3_reports_both_penalties_and_the_null_row(tmp_path):
    config = IsingConfig(
        problems=((4, 0.1),), methods=("ED-Grid", "ED-Pool"), n_data=300, n_sweeps=50
    )
    config = replace(config, train=replace(config.train, n_steps=5, batch_size=32))
    result = get_experiment("ed/ising-rmse").run(config, checkpoints=tmp_path)
    cell = result.scalars["table"]["ED-Grid"]["4x4, 0.1"]
    assert cell["nlr"][0] >= cell["nlr_chosen"][0]
    assert {cell["penalty"][0], cell["penalty_chosen"][0]} <= set(config.penalties)
    # J = 0 on a lattice of side n has RMSE 2 sigma / n.
    assert cell["null"][0] == pytest.approx(-math.log(2 * 0.1 / 4))
    learned = torch.from_numpy(result.arrays["ED-Grid/4x4, 0.1"])
    truth = torch.from_numpy(result.arrays["truth/4x4, 0.1"])
    assert negative_log_rmse(learned, truth) == pytest.approx(cell["nlr"][0])
    for id in ("ed/ising-heatmaps", "ed/ising-rmse"):
        plt.close(get_experiment(id).figure(result))
    figure = draw_edges(result)
    assert len(figure.axes) == len(config.methods)
    others, edges = (p.get_data() for p in figure.axes[0].patches)
    for drawn, pairs in ((others, truth == 0), (edges, truth > 0)):
        kept = learned[pairs & torch.ones_like(truth).triu(1).bool()]
        counts, _ = np.histogram(kept.numpy(), drawn.edges)
        assert np.allclose(drawn.values, counts / counts.max())
    plt.close(figure)


def test_the_tables_of_couplings_have_their_baselines():
    stored = get_experiment("ed/ising-rmse").stored(largest="full")
    pseudo = load_result("ed/ising-pseudo-likelihood", "full", benchmarks_root())
    rows = stored.scalars["table"] | pseudo.scalars["table"]
    table = BY_LATTICE(replace(stored, scalars={"table": rows}))
    methods = ("pseudo-likelihood", "ED-Bern", "ED-Grid")
    assert table.heads[1:] == ("J = 0", *methods) and len(table.rows) == 7
    lattice, baseline, *scores = table.rows[0]
    assert (lattice, baseline) == ("10x10, 0.1", f"{-math.log(2 * 0.1 / 10):.2f}")
    assert all(score not in (baseline, "–") for score in scores)
    rows = {"J = 0": no_coupling(stored).scalars["table"]["ED-Bern"]}
    table = SCORES(replace(stored, scalars={"table": rows}))
    assert table.kinds == ("null",) and table.rows[0][1] == baseline


def test_studies_of_competing_methods_run_what_the_tables_lack():
    rest = competing.GWG.config("full")
    assert {*rest.problems} < {*couplings.PROBLEMS} and rest.methods == ("GWG",)
    others = competing.EB_GFN_COUPLINGS.config("full").problems
    known = competing.COUPLINGS.config("full").problems
    assert {*others, *known} == {*couplings.PROBLEMS} and not {*others} & {*known}
    densities = competing.EB_GFN_DENSITIES
    assert densities.config("full").densities == DENSITIES
    found = competing.density_job("2spirals", densities.config("quick"), 0)
    assert found.scalars["gap"] > 0.5 and len(found.arrays["accepted"]) == 3


def test_studies_of_the_penalty_change_nothing_else(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    from ising_studies import OTHERS, PERSISTENT_GIBBS, PSEUDO_LIKELIHOOD, SUMMED

    row = get_experiment("ed/ising-rmse")
    others, summed = OTHERS.config("full"), SUMMED.config("full")
    usual = IsingConfig()
    assert replace(others, penalties=usual.penalties) == usual
    pseudo = PSEUDO_LIKELIHOOD.config("full")
    assert replace(pseudo, methods=usual.methods, train=usual.train) == usual
    chains = PERSISTENT_GIBBS.config("full")
    assert replace(chains, methods=pseudo.methods) == pseudo
    paper = row.config("paper")
    same = {"penalties": paper.penalties, "problems": paper.problems}
    assert replace(summed, **same) == paper
    # A penalty of the sum over J is as many times that of the mean as J has entries.
    assert {side for side, _ in summed.problems} == {10}
    want = [penalty * 100**2 for penalty in sorted(paper.penalties)[:2]]
    assert list(summed.penalties) == pytest.approx(want)
    result = SUMMED.run("quick", train={"n_steps": 2}, n_sweeps=20)
    assert SUMMED.check(result) == []


@pytest.mark.cuda
@needs_cuda
@pytest.mark.parametrize("method", ["ED-Bern", "ED-Grid"])
def test_couplings_on_the_gpu(method):
    config = IsingConfig(n_data=300, n_sweeps=50, penalties=(20.0,))
    config = replace(config, train=replace(config.train, n_steps=5, batch_size=32))
    outcome = ising_job(4, 0.1, method, config, 0, device="cuda")
    assert outcome.arrays["coupling"].shape == (16, 16)
    assert all(np.isfinite(value) for value in outcome.scalars.values())


@pytest.mark.parametrize(
    ("change", "words"),
    [({"methods": ("PCD",)}, "methods"), ({"penalties": (-1.0,)}, "penalties")],
)
def test_bad_ising_configurations(change, words):
    with pytest.raises(InputError, match=words):
        IsingConfig(**change)
