"""The bar of a learner that may go on where it was stopped."""

from __future__ import annotations

from collections.abc import Iterable

from tqdm import tqdm


def counted(
    steps: Iterable[int], n_steps: int, *, taken: int, label: str, progress: bool
) -> tqdm[int]:
    """Count the steps that are left of ``n_steps``, with a bar if asked."""
    return tqdm(steps, desc=label, disable=not progress, initial=taken, total=n_steps)
