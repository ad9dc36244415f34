"""Run an experiment, store its result with the verdicts, draw its figure."""

import dataclasses
import io
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from ebmtut.checks import InputError
from ebmtut.experiments.experiment import Experiment, resolve_device
from ebmtut.experiments.injected import check_injected, executed_cells
from ebmtut.experiments.verdicts import Verdict, to_json
from ebmtut.plotting import use_style
from ebmtut.random import check_seed
from ebmtut.results import Result, check_writable, load_result, save_result
from ebmtut.results.atomic import replace_file
from ebmtut.results.store import default_root, result_folder


def check_parameters(seed: int, device: str, results_dir: str) -> str:
    """Look at what all notebooks are told, before any work."""
    check_injected(executed_cells())
    check_seed(seed)
    if not isinstance(results_dir, (str, Path)):
        raise InputError(f"results_dir must be a folder or '', got {results_dir!r}")
    if results_dir:
        check_writable(results_dir)
    return resolve_device(device)


def run_experiment(
    experiment: Experiment[Any],
    scale: str,
    *,
    seed: int = 0,
    device: str = "auto",
    root: Path | None = None,
    in_one_batch: bool = False,
    cuda_graph: bool = False,
    **options: Any,
) -> tuple[Path, list[Verdict]]:
    """Run a preset, with options of `Experiment.run`, and store what it gave."""
    experiment.config(scale)
    check_seed(seed)
    device = experiment.device(device)
    if cuda_graph:
        experiment.check_cuda_graph(device, in_one_batch)
    root = default_root() if root is None else root
    check_writable(result_folder(experiment.id, scale, root).parent)

    # Kept beside the results, so that the same command goes on after a kill.
    name = f"{experiment.id.replace('/', '-')}-{scale}-seed{seed}"
    kept = check_writable(root / ".tmp" / name)
    try:
        lock = FileLock(kept / ".lock", timeout=0).acquire()
    except Timeout:
        raise InputError(
            f"{experiment.id} at scale {scale}, seed {seed}, is at work in {root} "
            "already: wait for it, or give another folder"
        ) from None
    with lock:
        result = experiment.run(
            scale,
            seed=seed,
            device=device,
            checkpoints=kept,
            in_one_batch=in_one_batch,
            cuda_graph=cuda_graph,
            **options,
        )
        # Stored before anything else can fail; compared and drawn from the stored file.
        save_result(result, root)
        shutil.rmtree(kept, ignore_errors=True)
    with suppress(OSError):  # another run's folder may be there
        kept.parent.rmdir()
    return redraw(experiment, scale, root)


def redraw(
    experiment: Experiment[Any], scale: str, root: Path | None = None
) -> tuple[Path, list[Verdict]]:
    """Compare and draw a stored result again, computing nothing."""
    result = load_result(experiment.id, scale, root)
    verdicts = experiment.verdicts(result)
    evidence = {"verdicts": [to_json(verdict) for verdict in verdicts]}
    stored = dataclasses.replace(result, scalars=result.scalars | evidence)
    picture = _png(experiment, result)
    folder = save_result(stored, root)
    replace_file(folder / "figure.png", picture)
    return folder, verdicts


def _png(experiment: Experiment[Any], result: Result) -> bytes:
    import matplotlib.pyplot as plt

    buffer = io.BytesIO()
    with plt.rc_context():
        use_style()
        figure = experiment.figure(result)
        figure.savefig(buffer, format="png", bbox_inches="tight")
        plt.close(figure)
    return buffer.getvalue()
