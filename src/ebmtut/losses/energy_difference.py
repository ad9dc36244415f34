"""Energy differences between data and samples that show that chains have failed.

Where a chain fails, its end is treated as a sample, and the energy learns to make the
next one fail worse. No number need be NaN: only the difference shows it.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from ebmtut.checks import DivergenceError, Positive, checked

__all__ = ["saturated_gap"]

#: Decay of the running mean of the median differences: a hundred batches.
_MEMORY = 0.99


@checked
def saturated_gap(
    gap: Float[Tensor, " batch"], trusted: Positive
) -> Float[Tensor, " batch"]:
    r"""Clip the difference of each row, E(data) - E(sample), in the loss.

    Within :math:`\pm c` it is left alone. A sample far more likely than the data counts
    :math:`c\, (1 + \log(g / c))`. One far less likely, :math:`g < -c`, comes from a
    chain that has failed; :math:`c \log(-g / c)` lowers the energy there, so that the
    next chain does not fail worse.

    Parameters
    ----------
    trusted
        c, positive.

    Examples
    --------
    >>> import torch
    >>> from ebmtut.losses import saturated_gap
    >>> saturated_gap(torch.tensor([0.5, 2.0, 20.0]), 2.0)
    tensor([0.5000, 2.0000, 6.6052])
    """
    size = gap.abs().clamp(min=trusted)
    excess = trusted * torch.log(size / trusted)
    return torch.where(
        gap > trusted, trusted + excess, torch.where(gap < -trusted, excess, gap)
    )


def check_difference(
    difference: Tensor,
    values: Tensor,
    level: Tensor,
    *,
    largest: float | None,
    trusted: float | None,
    usual: Tensor | None,
    clipped: Tensor,
) -> None:
    """Stop a training whose chains have failed.

    Where the mean of the clipped differences is not finite or larger than ``largest``,
    and, with a clipped loss, where ``usual``, the running mean of median differences,
    is below -c / 2.
    """
    # Read together: a GPU is waited for once.
    median, mean = torch.stack([difference.median(), clipped.mean()]).tolist()
    if trusted is not None and usual is not None:
        usual.lerp_(usual.new_tensor(median), 1 - _MEMORY)
        if float(usual) < -trusted / 2:
            words = (
                f"is usually {float(usual):.3g}, less than -c / 2 = {-trusted / 2:.3g}"
            )
            raise DivergenceError(_told(words, difference, values, level), step=-1)
    if not math.isfinite(mean):
        raise DivergenceError(_told("is not finite", clipped, values, level), step=-1)
    if largest is not None and abs(mean) > largest:
        words = f"is {abs(mean):.3g}, more than {largest:g}"
        raise DivergenceError(_told(words, clipped, values, level), step=-1)


def _told(words: str, gap: Tensor, values: Tensor, level: Tensor) -> str:
    at = int(level[gap.abs().nan_to_num(nan=float("inf")).argmax()])
    return (
        f"the energy gap between data and samples {words}; worst at level {at}, "
        f"largest energy {float(values.abs().max()):.3g}: the chains no longer "
        "follow the energy. Try a smaller learning rate, or a shorter training"
    )
