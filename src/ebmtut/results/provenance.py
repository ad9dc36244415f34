"""Where a result comes from: command, parameters, seed, code, machine, time."""

import importlib.metadata
import os
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ebmtut import __version__

__all__ = ["Provenance", "collect_provenance", "git_commit", "versions"]

_PACKAGES = ("torch", "numpy", "scipy", "numba")


@dataclass(frozen=True)
class Provenance:
    """What is needed to make a result again.

    Attributes
    ----------
    command
        The command line, without folders of the machine.
    parameters
        What was asked for besides the configuration.
    commit
        With ``-dirty`` if the package differs from it, or ``"unknown"``.
    device
        What computed it, such as ``"cpu (AMD EPYC 9R14, 1 thread)"``.
    versions
        Of Python and of the packages that the numbers depend on.
    started
        Start, UTC, ISO 8601.
    duration_s
        Seconds from start to end.
    jobs_s
        Summed over processes and interrupted runs; 0 where nobody counted.
    """

    command: str = "unknown"
    parameters: dict[str, Any] = field(default_factory=dict)
    seed: int | None = None
    commit: str = "unknown"
    device: str = "unknown"
    versions: dict[str, str] = field(default_factory=dict)
    started: str = ""
    duration_s: float = 0.0
    jobs_s: float = 0.0


def collect_provenance(
    *,
    seed: int | None,
    device: str = "cpu",
    started: float | None = None,
    command: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    jobs_s: float = 0.0,
) -> Provenance:
    """Collect the provenance of a run that ends now.

    Parameters
    ----------
    started, command
        ``time.time()`` at the start; by default this process's command line.

    Returns
    -------
    provenance
        Paths in command and parameters are cut to their last part.
    """
    now = time.time()
    begin = now if started is None else started
    words = shlex.split(command) if command is not None else sys.argv
    return Provenance(
        command=shlex.join(_without_folders(words)),
        parameters=_without_folders(dict(parameters or {})),
        seed=seed,
        commit=git_commit(),
        device=_describe(device),
        versions=versions(),
        started=datetime.fromtimestamp(begin, UTC).isoformat(timespec="seconds"),
        duration_s=round(now - begin, 3),
        jobs_s=round(jobs_s, 3),
    )


def git_commit() -> str:
    """Commit of the checkout that this package is run from, or ``"unknown"``."""
    package = Path(__file__).resolve().parents[1]
    root = package.parents[1]
    # An installed copy may lie inside some other repository.
    if not (root / ".git").exists() or package != root / "src" / "ebmtut":
        return "unknown"
    try:
        commit = _git(root, "rev-parse", "HEAD")
        changed = _git(root, "status", "--porcelain", "--", "src")
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return f"{commit}-dirty" if changed else commit


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(root), *words],
        capture_output=True,
        check=True,
        text=True,
        timeout=20,
    )
    return done.stdout.strip()


def versions() -> dict[str, str]:
    """Versions of Python, of this package and of those that its numbers depend on."""
    installed = {name: importlib.metadata.version(name) for name in _PACKAGES}
    return {"python": platform.python_version(), "ebmtut": __version__, **installed}


def _describe(device: str) -> str:
    import torch  # who only reads results does without

    if device.startswith("cuda"):
        return f"cuda ({torch.cuda.get_device_name(device)})"
    threads = torch.get_num_threads()
    plural = "s" if threads > 1 else ""
    return f"{device} ({_processor()}, {threads} thread{plural})"


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _without_folders(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_folders(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_folders(entry) for entry in value]
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, str):
        flag, equals, tail = value.partition("=")
        if equals and Path(tail).is_absolute():
            return f"{flag}={Path(tail).name}"
        return Path(value).name if Path(value).is_absolute() else value
    return value
