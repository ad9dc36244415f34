"""Half of a handwritten two is clamped, and PMP completes the other half.

A restricted Boltzmann machine of 14 x 14 pixels is learned as in `pmp/rbm-twos` (100
hidden units, 400 updates, 25 sweeps), without the twos that are completed.
Run: python studies/pmp/inpainting.py   (a minute, one core)
"""

from __future__ import annotations

import time
from pathlib import Path

import torch

from ebmtut.experiments import get_experiment
from ebmtut.experiments.pmp.rbm_digits import rbm_data
from ebmtut.losses import learn_rbm
from ebmtut.message_passing import perturb_and_max_product
from ebmtut.random import make_generator
from ebmtut.results import Result, collect_provenance, save_result

ID = "pmp/inpainting"
FOLDER = Path(__file__).resolve().parents[1]
N_HELD_OUT, N_SHOWN, N_EACH, N_SWEEPS, SEED = 100, 8, 3, 100, 0
N_VISIBLE, N_HIDDEN, N_STEPS = 196, 100, 400
TOP = torch.arange(N_VISIBLE) < N_VISIBLE // 2  # the clamped pixels


def main() -> None:
    """Learn, complete, and count wrong pixels in the free half."""
    torch.set_num_threads(1)
    started = time.time()
    config = get_experiment("pmp/rbm-twos").config("paper", shrink=2)
    x, source = rbm_data(config, SEED)
    held_out, train = x[:N_HELD_OUT], x[N_HELD_OUT:]
    settings = {
        "n_hidden": N_HIDDEN,
        "n_steps": N_STEPS,
        "batch_size": config.batch_size,
        "n_chains": config.n_chains,
        "learning_rate": config.learning_rate,
    }
    arrays, table = {"data": held_out[:N_SHOWN]}, {}

    def keep(name: str, completed: torch.Tensor) -> None:
        """Score completions, N_EACH for each held-out two, and keep the first ones."""
        wrong = (completed != held_out.repeat_interleave(N_EACH, 0))[:, ~TOP]
        per_image = wrong.float().mean(1).view(N_HELD_OUT, N_EACH).mean(1)
        mean, error = per_image.mean(), per_image.std() / N_HELD_OUT**0.5
        table[name] = {"wrong": float(mean), "stderr": float(error)}
        arrays[name] = completed.view(N_HELD_OUT, N_EACH, -1)[:N_SHOWN]
        print(name, table[name], flush=True)

    known = held_out.repeat_interleave(N_EACH, 0)
    generator = make_generator(SEED + 1)
    model = learn_rbm(
        train, "PMP", n_sweeps=25, init="symmetric", generator=generator, **settings
    ).model
    free = torch.full((len(known), N_VISIBLE + N_HIDDEN), torch.nan)
    free[:, :N_VISIBLE] = torch.where(TOP, known, torch.nan)
    completed = perturb_and_max_product(
        model, len(known), N_SWEEPS, clamp=free, init="symmetric", generator=generator
    )
    keep("PMP", completed[:, :N_VISIBLE])
    uniform = torch.rand(known.shape, generator=generator)
    keep("independent pixels", (uniform < train.mean(0)).to(x))
    distance = (known[:, None, TOP] != train[:, TOP]).sum(-1)
    nearest = train[distance.argmin(1)]
    keep("nearest training image", torch.where(TOP, known, nearest))
    scalars = {"table": table, "source": source, "n_train": len(train)}
    kept = {name: image.to(torch.uint8).numpy() for name, image in arrays.items()}
    made = collect_provenance(seed=SEED, started=started)
    settings |= {"n_sweeps": N_SWEEPS, "n_held_out": N_HELD_OUT, "n_each": N_EACH}
    print(save_result(Result(ID, "full", settings, scalars, kept, made), FOLDER))


if __name__ == "__main__":
    main()
