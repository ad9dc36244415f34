"""Experiments of energy discrepancy: images, densities and couplings."""

import math
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from joblib import parallel_config

from ebmtut import data
from ebmtut.checks import InputError
from ebmtut.deadlines import OutOfTime
from ebmtut.energies import MLPEnergy, lattice_adjacency
from ebmtut.exact import exact_log_partition
from ebmtut.experiments import get_experiment, jobs
from ebmtut.experiments.ed import couplings, evaluation, images
from ebmtut.experiments.ed.densities import DensityConfig
from ebmtut.experiments.ed.densities_table import log_z_apart, mean_and_error
from ebmtut.experiments.ed.evaluation import (
    Evaluation,
    coverage,
    density_job,
    evaluate_density,
    evaluate_independent_bits,
    landscape,
)
from ebmtut.experiments.ed.pages import HOW, nll_table
from ebmtut.experiments.ed.recipes import Recipe, fit_density
from ebmtut.experiments.jobs import Outcome
from ebmtut.metrics import negative_log_rmse
from ebmtut.metrics.nll import estimate_log_mean_exp
from ebmtut.random import bernoulli, make_generator
from ebmtut.results import Result, load_result, save_result
from ebmtut.states import bits_to_spins, enumerate_states, gray_decode
from ebmtut.training._cuda_graph import N_EAGER
from tests.pretended_graphs import pretended_graphs

# Two distributions of independent bits on four pixels, half of the images each.
DISTRIBUTION = torch.tensor([[0.9, 0.9, 0.1, 0.1], [0.1, 0.1, 0.9, 0.9]])


def toy(n=400):
    x = bernoulli(DISTRIBUTION.repeat(n // 2, 1), generator=make_generator(3))
    return images.BinaryImages(2, x[n // 4 :], x[: n // 4], "toy")


def test_sets_are_bits_and_divided_without_overlap():
    data = images.binary_images("digits 8x8")
    assert data.pixels.shape == (1497, 64) and data.held_out.shape == (300, 64)
    for bits in (data.pixels, data.held_out):
        assert bool(((bits == 0) | (bits == 1)).all())
    dynamic = images.binary_images("MNIST 14x14, dynamic")
    # Drawn anew in every batch: what is kept are probabilities.
    inner = (dynamic.pixels > 0) & (dynamic.pixels < 1)
    assert bool(inner.any()) and bool((dynamic.held_out % 1 == 0).all())
    with pytest.raises(InputError, match="data must be"):
        images.binary_images("digits 9x9")


def test_independent_bits_are_evaluated_by_their_distribution():
    data = toy()
    x = data.held_out
    p = data.means
    want = -(x * p.log() + (1 - x) * (1 - p).log()).sum(1).mean()
    assert data.independent_nll() == pytest.approx(float(want), rel=1e-5)


def test_a_mixture_finds_the_two_distributions():
    """EM of two components comes to the distribution of the images.

    The NLL of the truth on 100 held-out images differs from that of a fit to 300 by
    about the number of parameters over twice the images, 9 / 600 nats, and by noise of
    that size; one component is worth less by nearly ln 2.
    """
    data = toy()
    chance = torch.where(data.held_out[:, None] == 1, DISTRIBUTION, 1 - DISTRIBUTION)
    truth = -float((chance.log().sum(2).logsumexp(1) - math.log(2)).mean())
    two = images.mixture_nll(data, 2, 100, generator=make_generator(0))
    one = images.mixture_nll(data, 1, 2, generator=make_generator(0))
    assert two == pytest.approx(truth, abs=0.06)
    assert one == pytest.approx(data.independent_nll(), abs=0.01)
    assert one - two > 0.5


def test_the_walk_finds_log_z():
    """Against enumeration, within five standard errors, for an energy that matters."""
    energy = MLPEnergy(
        9, 8, 3, base_probs=torch.linspace(0.05, 0.6, 9), generator=make_generator(1)
    )
    with torch.no_grad():
        for weight in energy.net.parameters():
            weight.mul_(2.5)
    energy = energy.requires_grad_(False)
    how = images.Annealing(2000, 40)
    x, weights = images.anneal(energy, how, 40, generator=make_generator(2))
    found = estimate_log_mean_exp(weights)
    want = float(exact_log_partition(energy, 9))
    start = float(torch.nn.functional.softplus(energy.base_logits).sum())
    assert abs(want - start) > 0.3  # the network has changed something
    assert abs(found.value - want) < 5 * found.stderr < 0.1
    states = enumerate_states(9).float()
    distribution = (-energy(states)).softmax(0)
    mean = weights.softmax(0).float() @ x
    # Weighted means of bits, of as many effective chains as there are at least.
    error = (mean - distribution @ states).abs().max()
    assert float(error) < 5 * 0.5 / (2000 / 2) ** 0.5


def test_variety_counts_pairs():
    x = torch.tensor([[0, 0, 1, 1], [0, 1, 1, 0], [1, 1, 1, 0]]).float()
    pairs = [(0, 1), (0, 2), (1, 2)]
    want = sum(float((x[i] != x[j]).float().mean()) for i, j in pairs) / 3
    assert images.variety(x) == pytest.approx(want)
    assert images.variety(x[:1].expand(5, -1)) == 0


@pytest.mark.parametrize("method", images.METHODS)
@pytest.mark.parametrize("network", ["perceptron", "residual"])
def test_every_method_takes_steps_and_repeats_itself(method, network):
    how = {"method": method, "network": network, "n_backward": None}
    model = images.ImageModel(**how, hidden=4, n_steps=2, batch_size=4, n_negatives=3)
    one, again = (images.fit_images(model, seed=3) for _ in range(2))
    assert one.losses.tolist() == again.losses.tolist()
    assert len(one.losses) == 2


@pytest.mark.parametrize("id", ["ed/images", "ed/images-table"])
def test_presets_name_cells_and_chains_are_slower(id):
    row = get_experiment(id)
    for config in row.presets.values():
        cells = row.cells(config)
        assert {data for _, data in cells} == set(config.data)
        for (method, _), cell in cells.items():
            rate = cell["model"].learning_rate
            slow = method in images.CHAINS
            assert rate == config.model.learning_rate / (5 if slow else 1)


def test_the_rows_from_end_to_end():
    """Few steps: every number is there, and an untrained energy claims nothing."""
    row = get_experiment("ed/images-table")
    model = {"n_steps": 2, "hidden": 4, "batch_size": 8, "n_negatives": 2}
    how = {"n_chains": 16, "n_steps": 20}
    result = row.run("quick", model=model, annealing=how)
    null = result.scalars["null"]["digits 8x8"]["nll"]
    for method in images.METHODS:
        cell = result.scalars["table"][method]["digits 8x8"]
        # Two steps leave nearly the base, whose NLL is exact.
        assert cell["nll"][0] == pytest.approx(null, abs=0.5)
        assert result.arrays[f"samples/{method}/digits 8x8"].shape == (16, 8, 8)
    claims = {v.name: v for v in row.check(result) if not v.sanity}
    assert len(claims) == len(images.DISCREPANCIES)
    assert not any(v.verdict == "match" for v in claims.values())
    pictures = get_experiment("ed/images")
    baselines = list(pictures.check(images.independent_bits(result)))
    assert not any(v.verdict == "match" for v in baselines if not v.sanity)
    assert "mixture" in repr(nll_table(result))
    assert "independent bits" in repr(HOW(row.stored()))
    assert pictures.figure(result).axes and row.figure(result).axes


TINY = Recipe(n_steps=3, batch_size=8, n_negatives=4, n_backward=2)
QUICK_EVALUATION = Evaluation(
    200, n_uniform=0, n_proposal=2000, n_repeats=1, coarse_bits=6
)
# For trainings of which only the course is tested: 16 x 16 squares in place of 64 x 64.
GLANCE = replace(QUICK_EVALUATION, coarse_bits=4)
MOONS = DensityConfig(densities=("moons",), recipe=TINY, evaluation=GLANCE, n_pixels=16)


def true_energy(density):
    """Energy of the data's own distribution, up to the width of a cell."""
    scale = data.density_scale(density)

    def energy(x):
        points = gray_decode(x.double(), scale, center=True)
        return -data.density_log_prob(density, points)

    return energy


def test_the_data_s_own_distribution_has_no_gap():
    how = replace(QUICK_EVALUATION, n_proposal=20_000)
    energy = true_energy("8gaussians")
    numbers = evaluate_density(energy, "8gaussians", how, seed=1)
    assert abs(numbers["gap"]) < 5 * numbers["gap_se"] + 1e-4
    over = numbers["nll"] - data.DensityData("8gaussians").entropy
    assert abs(over) < 5 * numbers["nll_se"]


def test_a_model_s_gap_is_its_divergence():
    """A uniform model: the gap is 32 ln 2 minus the entropy, exactly."""
    numbers = evaluate_density(
        lambda x: torch.zeros(len(x)), "circles", QUICK_EVALUATION, seed=1
    )
    exact = 32 * math.log(2) - data.DensityData("circles").entropy
    assert abs(numbers["gap"] - exact) < 5 * numbers["gap_se"] + 1e-6
    assert numbers["log_z"] == pytest.approx(32 * math.log(2), abs=1e-6)


def test_uniform_draws_agree_with_the_proposal():
    sizes = {"n_uniform": 50_000, "n_proposal": 10_000, "n_repeats": 0}
    how = replace(QUICK_EVALUATION, **sizes)
    numbers = evaluate_density(true_energy("moons"), "moons", how, seed=2)
    error = math.hypot(numbers["log_z_se"], numbers["log_z_uniform_se"])
    assert abs(numbers["log_z"] - numbers["log_z_uniform"]) < 5 * error
    assert "mmd" not in numbers


def test_the_true_landscape_covers_its_data():
    points = data.sample_density("moons", 20_000, generator=make_generator(0)).numpy()
    truth = landscape(None, "moons", n_pixels=256)
    inside, area = coverage(truth, points, data.density_extent("moons"))
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
    extent = data.density_extent("moons")
    row, column = 40, 10
    x, y = ((np.array([column, row]) + 0.5) / 64 * 2 - 1) * extent
    point = torch.tensor([[x, y]], dtype=torch.float64)
    assert picture[row, column] == pytest.approx(
        float(data.density_log_prob("moons", point)), rel=1e-5
    )


@pytest.mark.parametrize("density", ["circles", "swissroll"])
def test_independent_bits_miss_the_entropy_by_their_gap(density):
    """The baseline's NLL and KL, on other points each, are one divergence apart."""
    found = evaluate_independent_bits(density)
    error = math.hypot(found["nll_se"], found["gap_se"])
    over = found["nll"] - data.exact_entropy(density)
    assert over == pytest.approx(found["gap"], abs=5 * error)
    assert found["gap"] > 0.5 and 0.3 < found["area"] < 0.8


@pytest.mark.parametrize("method", ["ED-Bern", "ED-Grid", "ED-Pool", "PCD"])
def test_fit_is_reproducible(method):
    recipe = replace(TINY, method=method)
    one, again, other = (
        fit_density("moons", recipe, seed=seed).losses for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)


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
        verdicts = list(get_experiment("ed/densities-table").check(stored))
        nll = next(v for v in verdicts if v.name == "NLL: PCD, moons")
        assert (nll.measured, nll.verdict) == (None, "miss")
        assert nll.reason == "the book's number is not finite"
    for method in config.methods:
        numbers = result.scalars["table"][method].pop("moons")
        result.scalars["table"][method]["circles"] = numbers
    covered = list(get_experiment("ed/densities").check(result))
    assert [v.measured is None for v in covered] == [n_pictures == 0] * 2 + [True] * 2


def test_log_z_is_compared_over_all_seeds_that_have_it():
    one = {"log_z_uniform": [1.0], "log_z_uniform_se": [0.3]}
    two = {"log_z_uniform": [2.0, None], "log_z_uniform_se": [0.3, None]}
    one |= {"log_z": [1.1], "log_z_se": [0.4]}
    two |= {"log_z": [1.5, None], "log_z_se": [0.4, None]}
    table = {"ED-Bern": {"moons": one}, "PCD": {"moons": two}}
    result = Result("ed/densities-table", "full", {}, {"table": table})
    assert log_z_apart(result) == pytest.approx(0.5 / 0.5)


def test_mean_and_error():
    cell = {"gap": [1.0, 3.0], "gap_se": [0.1, 0.1]}
    assert mean_and_error(cell, "gap") == pytest.approx((2.0, 1.0))
    cell = {"gap": [1.0], "gap_se": [0.1]}
    assert mean_and_error(cell, "gap") == pytest.approx((1.0, 0.1))


def test_without_lost_information_nothing_is_learned():
    """At eps = 0 the loss is ln((w + M) / M), whatever the energy."""
    recipe = replace(TINY, eps=0.0, n_steps=5, precision="float32")
    losses = fit_density("moons", recipe, seed=0).losses
    np.testing.assert_allclose(losses, math.log(5 / 4), rtol=1e-5)


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
        x = data.DensityData(density).sample_bits(20, generator=make_generator(0))
        energy = result.energy(x).mean().item()
        return Outcome({"energy": energy, "loss": float(result.losses[0])})

    monkeypatch.setattr(evaluation, "_evaluated", evaluate)
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
    learn, sizes = evaluation.fit_densities, []

    def counted(names, *words, **options):
        sizes.append(len(names))
        return learn(names, *words, **options)

    monkeypatch.setattr(evaluation, "fit_densities", counted)
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

    monkeypatch.setattr(evaluation, "_evaluated", evaluate)
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
            "cuda_graph must be False for ed/ising-rmse, which has no steps",
        ),
        ("ed/densities", {}, "cuda_graph records the steps of one batch: ask for both"),
        ("ed/densities", {"in_one_batch": True}, "cuda_graph needs device cuda, got"),
    ],
)
def test_a_recording_that_cannot_be_is_refused_before_any_work(id, how, words):
    row = get_experiment(id)
    with pytest.raises(InputError, match=words):
        row.run("quick", device="cpu", cuda_graph=True, **how)


def test_edge_precision():
    truth = lattice_adjacency(3).double()
    assert couplings.edge_precision(2 * truth, truth) == 1.0
    assert couplings.edge_precision(-truth, truth) == 1.0
    upper = torch.triu(1 - truth, 1)
    assert couplings.edge_precision(upper + upper.T, truth) == 0.0


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
    config = couplings.IsingConfig()
    config = replace(config, train=replace(config.train, n_steps=400))
    (learned,) = couplings.fit_couplings(states[rows], method, (0.0,), config, seed=0)
    # An efficient estimate errs by about 1 / (4 sqrt n) = 0.002 a coupling
    # (the gradient of s'Js in J_ij is 2 s_i s_j, twice for the symmetric pair);
    # noise and minibatches of 256 cost up to sqrt(n / (256 * 100)) of it again.
    assert (learned - truth).abs().max() < 0.03
    assert torch.equal(learned, learned.T) and not learned.diagonal().any()


def test_table_3_reports_both_penalties_and_the_null_row(tmp_path):
    config = couplings.IsingConfig(
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
