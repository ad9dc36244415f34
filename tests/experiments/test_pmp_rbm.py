"""Learning RBMs on a model small enough to list, its rows, and pmp/persistent."""

import math
from dataclasses import asdict

import pytest
import torch

from ebmtut.checks import InputError
from ebmtut.energies import RBM, BoltzmannMachine
from ebmtut.exact import exact_probabilities
from ebmtut.experiments import get_experiment
from ebmtut.experiments.pmp import persistent
from ebmtut.experiments.pmp.rbm_digits import RBMConfig, distances, rbm_job, reference
from ebmtut.losses import RBM_METHODS, bit_moments, draw_rbm, learn_rbm, rbm_learning
from ebmtut.message_passing import perturb_and_max_product
from ebmtut.metrics import mmd
from ebmtut.random import bernoulli, make_generator
from ebmtut.results import Result
from ebmtut.samplers import block_gibbs
from ebmtut.states import bits_to_spins, enumerate_states

SIZES = {"n_hidden": 4, "n_sweeps": 10, "batch_size": 50, "n_chains": 50}


@pytest.fixture
def pairs():
    """Bits in which the second half repeats the first, and 1s are rare."""
    half = bernoulli(torch.full((400, 3), 0.3), generator=make_generator(0))
    return half.repeat(1, 2)


def learn(x, method, **options):
    options = {**SIZES, "n_steps": 300, "learning_rate": 0.05, **options}
    return learn_rbm(x, method, **options, generator=make_generator(1)).model


@pytest.mark.parametrize(
    ("method", "hidden"),
    [(method, "mean") for method in RBM_METHODS if method != "PCD-100"]
    + [("PCD-7", "mean"), ("PMP", "sample")],
)
def test_every_method_learns_the_means(pairs, method, hidden):
    """The fixed point of learning has the data's means, whatever draws samples."""
    of_method = {
        # One sweep an update follows slowly: small steps, and more of them.
        "PCD-1": {"n_steps": 1500, "learning_rate": 0.005},
        # A program takes milliseconds: few of them, and larger steps.
        "LP": {"n_steps": 120, "n_chains": 10, "learning_rate": 0.05},
    }.get(method, {})
    model = learn(pairs, method, hidden=hidden, **{"learning_rate": 0.02, **of_method})
    n = 500 if method == "LP" else 2000
    v = draw_rbm(method, model, n, (10,), generator=make_generator(3))[10][:, :6]
    assert (v.mean(0) - pairs.mean(0)).abs().max() < 0.12
    assert model.weight.abs().max() > 0.3


def test_chains_learn_the_distribution(pairs):
    """Gibbs-trained weights are a model: its exact distribution has the copies."""
    model = learn(pairs, "PCD-20", n_hidden=6, n_steps=400)
    with torch.no_grad():
        states = enumerate_states(6).to(pairs)
        distribution = torch.softmax(-model(states), 0)
    copies = (states[:, :3] == states[:, 3:]).float().mean(1)
    # All data are copies; a model of the means alone has as many as chance makes.
    p = pairs.mean(0)[:3]
    by_chance = float((p**2 + (1 - p) ** 2).mean())
    assert float(distribution @ copies) > (1 + by_chance) / 2


def test_the_same_seed_learns_the_same(pairs):
    state = torch.random.get_rng_state()
    one, same = learn(pairs, "PMP", n_steps=5), learn(pairs, "PMP", n_steps=5)
    assert torch.equal(one.weight, same.weight)
    assert torch.equal(state, torch.random.get_rng_state())


def test_divergence_is_told(pairs, monkeypatch):
    def not_a_number(method, model, n, sweeps, init, generator):
        return {sweeps[0]: torch.full((n, 10), float("nan"))}

    monkeypatch.setattr(rbm_learning, "_draw", not_a_number)
    learned = learn_rbm(pairs, "PMP", **SIZES, n_steps=5, generator=make_generator(0))
    assert learned.diverged


@pytest.mark.parametrize(
    "options",
    [
        {"method": "PMMP"},
        {"method": "PCD-0"},
        {"method": "CD-k"},
        {"hidden": "both"},
        {"optimizer": "adma"},
        {"init": "half"},
        {"batch_size": 401},
        {"learning_rate": -1.0},
        {"learning_rate": math.nan},
    ],
)
def test_bad_input_is_named(pairs, options):
    arguments = {"method": "PMP", **SIZES, "n_steps": 1, **options}
    with pytest.raises(InputError, match=f"{next(iter(options))} must be"):
        learn_rbm(pairs, **arguments, generator=make_generator(0))


@pytest.mark.parametrize(("method", "n_sweeps"), [("PCD-3", [3, 3]), ("CD-2", [2, 2])])
def test_where_the_chains_of_learning_start(pairs, method, n_sweeps, monkeypatch):
    """Those of CD at data, one each; those of PCD where the last update left them."""
    runs = []

    def watched(model, v, k, *, generator):
        end = block_gibbs(model, v, k, generator=generator)
        runs.append((v, k, end[:, :6]))
        return end

    monkeypatch.setattr(rbm_learning, "block_gibbs", watched)
    learn(pairs, method, n_steps=2, batch_size=30, n_chains=20)
    (first, _, end), (second, _, _) = runs
    assert [k for _, k, _ in runs] == n_sweeps
    if method == "CD-2":
        rows = {tuple(row) for row in pairs.tolist()}
        for start in (first, second):
            assert len(start) == 30 and {tuple(v) for v in start.tolist()} <= rows
    else:
        assert len(first) == 20 and torch.equal(second, end)


def test_the_experiments_of_the_paper_start_messages_at_zero(monkeypatch):
    """Whatever the package's default: as in the authors' program."""
    starts = []

    def watched(model, n, k, *, init, generator):
        starts.append(init)
        return perturb_and_max_product(model, n, k, init=init, generator=generator)

    monkeypatch.setattr(rbm_learning, "perturb_and_max_product", watched)
    config = RBMConfig(source="drawn", **{**TINY, "n_steps": 1, "sweeps": (1,)})
    rbm_job("PMP", config, 0)
    assert starts == ["zero", "zero"]


def test_one_sweep_from_the_symmetric_start_treats_all_flipped_alike():
    """A model that is symmetric under flips is drawn so from N = W/2, not from 0."""
    weight = torch.full((3, 4), 2.0)
    model = RBM(weight, -weight.sum(1) / 2, -weight.sum(0) / 2)
    n = 20_000
    means = {
        init: draw_rbm("PMP", model, n, (1,), init=init, generator=make_generator(0))[1]
        .mean(0)
        .numpy()
        for init in ("zero", "symmetric")
    }
    five = 5 * 0.5 / math.sqrt(n)
    assert (abs(means["symmetric"] - 0.5) < five).all()
    assert (means["zero"] < 0.5 - five).all()
    with pytest.raises(InputError, match="init must be"):
        draw_rbm("PMP", model, 2, (1,), init="half", generator=make_generator(0))


def test_longer_chains_are_the_same_chains():
    g = make_generator(0)
    model = RBM(torch.randn(3, 4, generator=g), torch.zeros(3), torch.zeros(4))
    seen = draw_rbm("PCD-1", model, 5, (2, 7), generator=make_generator(1))
    alone = draw_rbm("PCD-1", model, 5, (2,), generator=make_generator(1))
    assert torch.equal(seen[2], alone[2]) and seen[7].shape == (5, 7)


def test_distances_of_the_data_to_itself():
    x = enumerate_states(6).float()[:48]
    same = distances(x[:32], reference(x))
    assert same["nearest"] == 0.0 and distances(x, reference(x))["pairs"] == 0.0
    squared = mmd(x[:32], x, kernel="average_hamming", statistic="v")
    assert same["log_mmd2"] == pytest.approx(math.log(squared), rel=1e-6)
    far = distances(torch.ones(32, 6), reference(x))
    assert far["sharp"] > same["sharp"] and far["log_mmd2"] > same["log_mmd2"]


TINY = {
    "shrink": 4,
    "n_hidden": 5,
    "n_steps": 3,
    "n_sweeps": 4,
    "sweeps": (4, 8),
    "n_judged": 10,
    "n_chains": 5,
    "batch_size": 10,
}


def test_a_job_gives_the_threads_back():
    torch.set_num_threads(3)
    config = RBMConfig(source="drawn", **{**TINY, "n_steps": 1, "sweeps": (1,)})
    rbm_job("PMP", config, 0)
    assert torch.get_num_threads() == 3


ROW = get_experiment("pmp/persistent")
SMALL = persistent.PersistentConfig(
    sizes=(4,),
    rhos=(0.99, 1.0),
    sweeps=(1, 3),
    n_steps=2,
    n_chains=5,
    n_data=20,
    n_judged=10,
    judged_sweeps=3,
    n_seeds=2,
)


def test_couplings_of_the_glass_have_the_documented_scale():
    """Read off the distribution: 4 J_ij by inclusion and exclusion of two bits."""
    n, strength = 60, 0.7
    glass = persistent.spin_glass(n, strength, generator=make_generator(0))
    # J_ij s_i s_j is 4 J_ij x_i x_j, and terms of one bit.
    pairs = glass.symmetric_weight.detach()[tuple(torch.triu_indices(n, n, 1))] / 4
    scale = float(pairs.square().mean().sqrt())
    want = strength / n**0.5
    # A root mean square of m normals has a relative standard error 1/sqrt(2m).
    assert abs(scale / want - 1) < 5 / math.sqrt(2 * len(pairs))


def test_moments_of_a_listed_glass_are_exact():
    glass = persistent.spin_glass(5, 1.0, generator=make_generator(1))
    x, moments = persistent.sample_truth(glass, 40_000, generator=make_generator(2))
    states = enumerate_states(5, dtype=torch.float64)
    probs = exact_probabilities(glass, 5).exp()
    want = torch.einsum("s,si,sj->ij", probs, states, states)
    torch.testing.assert_close(moments.double(), want, rtol=0, atol=1e-6)
    assert ((bit_moments(x)[1] - moments).abs() < 5 * 0.5 / 200).all()


def test_moment_error_by_hand():
    one = torch.tensor([[0.5, 0.1], [0.1, 0.5]])
    other = torch.tensor([[0.5, 0.4], [0.4, 0.9]])
    # Differences 0, 0.3, 0.4 over i <= j.
    assert persistent.moment_error(one, other) == pytest.approx(math.sqrt(0.25 / 3))


@pytest.mark.parametrize("rho", [None, 0.0, 1.0])
def test_frozen_noise_repeats_itself_and_fresh_noise_does_not(rho):
    fields = BoltzmannMachine(torch.zeros(8, 8), torch.zeros(8))
    generator = make_generator(0)
    start = persistent.start_noise(rho, 50, 8, generator=generator)
    first = persistent.keep_noise(
        start, fields, rho=rho, n_sweeps=2, generator=generator
    )
    second = persistent.keep_noise(
        first, fields, rho=rho, n_sweeps=2, generator=generator
    )
    one, two = first.x, second.x
    assert torch.equal(one, two) == (rho == 1.0)
    mean = float(bits_to_spins(torch.cat([one, two])).mean())
    assert abs(mean) < 5 / math.sqrt(400)


def test_every_way_meets_the_same_glass_and_data():
    ways = ROW.run(SMALL).scalars["table"]["4"]
    for name in ("data error", "null error"):
        assert len({tuple(cells["1"][name]) for cells in ways.values()}) == 1


@pytest.mark.parametrize(
    ("fresh_few", "frozen_many", "words"),
    [(0.2, 0.1, ["match", "match"]), (0.01, 0.001, ["miss", "miss"])],
)
def test_the_check_can_hold_and_fail(fresh_few, frozen_many, words):
    def cells(few, many):
        return {"1": {"error": [few]}, "9": {"error": [many]}}

    table = {
        "PMP": cells(fresh_few, 0.01),
        "rho=0.99": cells(0.05, 0.05),
        "rho=1": cells(0.05, frozen_many),
    }
    result = Result("pmp/persistent", "quick", asdict(SMALL), {"table": {"4": table}})
    verdicts = list(ROW.check(result))
    assert [v.verdict for v in verdicts] == words
