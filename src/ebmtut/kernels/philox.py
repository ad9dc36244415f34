"""Random numbers by counting: what the GPU's kernels use, in plain torch.

Philox4x32 (Salmon, Moraes, Dror and Shaw, 2011) maps four counters and a key to four
words. No state is carried along, so that any number of programs run at once; with seven
rounds it passes all of its authors' tests.
"""

from __future__ import annotations

from jaxtyping import Int
from torch import Tensor

ROUNDS = 7
WORD = 2**32 - 1  # all bits of a word
_ROUND_A, _ROUND_B = 0xD2511F53, 0xCD9E8D57
_KEY_A, _KEY_B = 0x9E3779B9, 0xBB67AE85


def philox(
    seed: int, counters: tuple[Tensor | int, ...], n_rounds: int = ROUNDS
) -> tuple[Int[Tensor, "*shape"], ...]:
    """Return four words of 32 bits for each set of four counters."""
    c0, c1, c2, c3 = counters
    k0, k1 = seed & WORD, seed >> 32 & WORD
    for _ in range(n_rounds):
        # Products wrap around at 2^64; the mask drops the sign that a shift brings.
        a, b = c0 * _ROUND_A, c2 * _ROUND_B
        c0, c1, c2, c3 = (
            (b >> 32 & WORD) ^ c1 ^ k0,
            b & WORD,
            (a >> 32 & WORD) ^ c3 ^ k1,
            a & WORD,
        )
        k0, k1 = k0 + _KEY_A & WORD, k1 + _KEY_B & WORD
    return c0, c1, c2, c3  # type: ignore[return-value]
