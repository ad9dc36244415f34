"""How do chains fail with smaller steps, and with a Metropolis test?

    python studies/drl/collapse.py [--runs 3]

Trainings of `drl/ablation` at four times the usual rate, without clipping: with no
remedy, with half the step size, and with a Metropolis test. For every update the study
notes the row whose energy differs most between the data point and the end of its chain.
"""

import argparse
import time
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch

from ebmtut.experiments.drl import images
from ebmtut.experiments.drl.ablation import VARIANTS
from ebmtut.results import Result, collect_provenance, save_result

NAMES = ("no remedy", "half the step size", "acceptance test")


def watched(recipe: images.ImageRecipe, seed: int) -> tuple[np.ndarray, str]:
    """Train; of each update return the median and the largest energy difference.

    And of the row with the largest one: its sign, its level, the distance of the end of
    the chain from its initial point in units of the noise; and the fraction of chains
    that end where they began.
    """
    recovery = recipe.recovery(images.image_set(recipe.data).images[0].numel())
    noises = torch.tensor(recipe.noise.noises)
    seen: list[list[float]] = []
    sampler, given = recovery.sampler, {}

    def remembered(energy, above, level, draw):
        a = torch.tensor(recipe.noise.shrinkages)[level][:, None, None]
        given["start"] = above / a
        given["end"] = None
        given["end"] = sampler(energy, above, level, draw)
        return given["end"]

    recovery.sampler = remembered

    def loss(energy, x, *, generator):
        try:
            return recovery(energy, x, generator=generator)
        finally:
            if recovery.last is not None and given["end"] is not None:
                data, samples, level = recovery.last
                with torch.no_grad():
                    gap = energy(data, level) - energy(samples, level)
                moved = (samples - given["start"]).flatten(1).norm(dim=1)
                k = int(gap.abs().argmax())
                far = float(moved[k] / noises[level[k]])
                stuck = float((moved == 0).float().mean())
                size = gap.abs()
                row = (size.median(), size.max(), gap[k].sign(), level[k], far, stuck)
                seen.append([float(one) for one in row])

    message = images.train_images(recipe, seed, loss=loss).message
    return np.array(seen), message


def main() -> None:
    """Run the trainings, and store what was noted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[1])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    started, table, arrays, settings = time.time(), {}, {}, {}
    for name in NAMES:
        recipe = replace(images.QUICK, **VARIANTS[f"denoiser, {name}"])
        settings[name] = asdict(recipe)
        found = [watched(recipe, seed) for seed in range(arguments.runs)]
        for seed, (noted, _) in enumerate(found):
            arrays[f"{name}/{seed}"] = noted
        messages = [message for _, message in found]
        table[name] = {"steps": [len(n) for n, _ in found], "messages": messages}
        print(name, table[name], flush=True)
        for noted, _ in found:
            print(np.array2string(noted[-6:], precision=3, suppress_small=True))
    provenance = collect_provenance(seed=0, device="cpu", started=started)
    of = {"n_runs": arguments.runs, "recipes": settings}
    result = Result("drl/collapse", "full", of, {"table": table}, arrays, provenance)
    print(save_result(result, arguments.root))


if __name__ == "__main__":
    main()
