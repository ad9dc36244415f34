"""An energy of 32 bits and its sampler, learned together as the paper does it.

The rows of the smaller plane sum over all states; here likelihoods are estimated as in
the first chapter, and the flow's by the bound of its reversed paths. Source: Ou, Zhang
and Li (2025), Section 4.2 and Appendix E.2.
"""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import torch

from ebmtut.checks import DivergenceError, InputError
from ebmtut.data import DensityData
from ebmtut.energies import Energy, MLPEnergy
from ebmtut.experiments.dnfs.planes import distance, new_flow
from ebmtut.experiments.dnfs.wide_planes import (
    coarse_law,
    coarse_picture,
    exact_draws,
)
from ebmtut.experiments.ed.judging import (
    Evaluation,
    evaluate_density,
    judge_independent_bits,
)
from ebmtut.experiments.jobs import Outcome
from ebmtut.experiments.streams import stream_seed
from ebmtut.flows import Flow, reverse_elbo, simulate
from ebmtut.metrics import BernoulliProposal, mmd
from ebmtut.paths import AnnealingPath
from ebmtut.random import make_generator
from ebmtut.schedules import cosine
from ebmtut.training import FlowFollower, ResumableLoop, average_weights

#: The first chapter's, with the paper's million uniform draws.
JUDGED = Evaluation(n_uniform=1_000_000)
#: States of the data at which the flow's likelihood is bounded.
_BOUNDED = 200


def wide_joint(
    density: str,
    *,
    n_steps: int,
    n_flow_steps: int,
    n_last: int,
    n_time_steps: int,
    n_samples: int,
    width: int,
    n_layers: int,
    learning_rate: float,
    energy_learning_rate: float,
    seed: int,
    checkpoint: Path | None = None,
    device: str = "cpu",
) -> Outcome:
    """Learn an energy and a flow by the paper's recipe, in turns."""
    data = DensityData(density)
    generator = make_generator(seed, device)
    energy = MLPEnergy(data.n_sites, generator=make_generator(seed)).to(device)
    averaged = copy.deepcopy(energy).requires_grad_(False)
    path = AnnealingPath(energy)
    follower = FlowFollower(
        new_flow(
            "paper", path, width=width, n_layers=n_layers, seed=seed, device=device
        ),
        None,
        n_trajectories=n_samples,
        n_time_steps=n_time_steps,
        learning_rate=learning_rate,
    )
    adam = torch.optim.AdamW(energy.parameters(), energy_learning_rate)
    parts: dict[str, Any] = {
        "energy": energy,
        "averaged": averaged,
        "adam": adam,
        "follower": follower,
    }
    loop = ResumableLoop(
        checkpoint,
        {
            "density": density,
            "steps": [n_steps, n_flow_steps, n_last, n_time_steps, n_samples],
            "rates": [learning_rate, energy_learning_rate],
            "seed": seed,
        },
        parts,
        generator=generator,
    )

    def diverged(step: int) -> DivergenceError:
        return DivergenceError(
            f"the energy diverged at step {step}: the largest log-ratio of its "
            f"flow was {follower.max_log_ratio:.3g}; try a smaller "
            f"energy_learning_rate ({energy_learning_rate})",
            step,
        )

    for step in loop.steps(n_steps):
        try:
            follower.fit(n_flow_steps, generator=generator)
            drawn = simulate(
                follower.flow, n_samples, n_time_steps, generator=generator
            )
        except DivergenceError as error:
            raise diverged(step) from error
        x = data.sample_bits(n_samples, generator=generator)
        loss = energy(x).mean() - drawn.log_weights.softmax(0) @ energy(drawn.x)
        if not bool(loss.isfinite()):
            raise diverged(step)
        adam.zero_grad()
        loss.backward()
        adam.step()
        with torch.no_grad():
            average_weights(
                list(averaged.parameters()), list(energy.parameters()), step, 0.999
            )
    energy.load_state_dict(averaged.state_dict())
    falling = cosine(1.0, 0.0, n_last + 1)
    for step in loop.steps(n_last):
        follower.fit(1, share=falling(step), generator=generator)
    flow = Flow(path, follower.flow.network, rates="one_way")
    judged = _judged(
        energy, flow, density, n_time_steps, stream_seed("evaluation", seed), device
    )
    learned = {
        "clipped": follower.n_clipped,
        "clipped share": follower.clipped_share,
        "cpu s": loop.seconds,
    }
    return Outcome(judged.scalars | learned, judged.arrays)


@torch.no_grad()
def _judged(
    energy: Energy,
    flow: Flow,
    density: str,
    n_time_steps: int,
    seed: int,
    device: str,
) -> Outcome:
    """Hold the energy's law, the flow's samples and independent bits against data."""
    data, generator = DensityData(density), make_generator(seed, device)
    n = JUDGED.n_data
    found = evaluate_density(energy, density, JUDGED, seed=seed, device=device)
    x = data.sample_bits(n, generator=generator)
    samples = {
        "": exact_draws(energy, n, generator=generator)[0],
        "flow ": simulate(flow, n, n_time_steps, generator=generator).x,
        "null ": BernoulliProposal.fit(x).sample(n, generator=generator).to(x),
    }
    seen = coarse_law(data.sample_bits(10 * n, generator=generator))
    null = judge_independent_bits(density)
    bound, stderr = _flow_bound(flow, data, generator)
    scalars = {
        "entropy": data.entropy,
        "KL": found["gap"],
        "KL stderr": found["gap_se"],
        "NLL": found["nll"],
        "flow KL": bound,
        "flow bound": bound,
        "flow bound stderr": stderr,
        "null KL": null["gap"],
    }
    laws = {"data": seen}
    for name, drawn in samples.items():
        law = laws[f"{name or 'energy '}".strip()] = coarse_law(drawn)
        scalars[f"{name}TV"] = float(distance(law, seen))
        scalars[f"{name}MMD"] = 1e4 * mmd(drawn, x)
    pictures = {k: coarse_picture(v).numpy().astype("f4") for k, v in laws.items()}
    return Outcome(scalars, pictures)


def _flow_bound(
    flow: Flow, data: DensityData, generator: torch.Generator
) -> tuple[float, float]:
    """Bound the flow's KL from above by reversed paths; its standard error."""
    pilot = simulate(flow, 32, 16, keep_states=True, generator=generator).states
    assert pilot is not None
    met = [flow.terms(x, k / 16)[:2] for k, x in enumerate(pilot)]
    largest = max(float(rates.sum(1).max()) for pair in met for rates in pair)
    x = data.sample_bits(_BOUNDED, generator=generator)
    try:
        elbo = reverse_elbo(flow, x, bound=4 * largest + 1, generator=generator)
    except (InputError, DivergenceError):  # a rate was above the bound, or infinite
        return math.nan, math.nan
    return -float(elbo.mean()) - data.entropy, float(elbo.std()) / _BOUNDED**0.5
