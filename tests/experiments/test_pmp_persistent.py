"""Experiment pmp/persistent: its metrics on cases with known answers."""

import math
from dataclasses import asdict

import pytest
import torch

from ebmtut.energies import BoltzmannMachine
from ebmtut.exact import exact_probabilities
from ebmtut.experiments import get_experiment
from ebmtut.experiments.pmp import persistent
from ebmtut.losses import bit_moments
from ebmtut.random import make_generator
from ebmtut.results import Result
from ebmtut.states import bits_to_spins, enumerate_states

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
