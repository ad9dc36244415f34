"""Wasserstein NMF: images as mixtures of learned images, by two methods."""

from ebmtut.transport.wnmf.mirror_descent import (
    AcceleratedDescent,
    accelerated_start,
    accelerated_step,
    mirror_step,
)
from ebmtut.transport.wnmf.smoothed_wnmf import (
    SmoothedWNMF,
    smoothed_conjugate,
    smoothed_wnmf,
)
from ebmtut.transport.wnmf.state import (
    WNMFConfig,
    WNMFState,
    as_measures,
    wnmf_start,
)
from ebmtut.transport.wnmf.wasserstein_nmf import (
    run_until_mixed,
    wasserstein_nmf,
    wnmf_epoch,
    wnmf_temperature,
)

__all__ = [
    "AcceleratedDescent",
    "SmoothedWNMF",
    "WNMFConfig",
    "WNMFState",
    "accelerated_start",
    "accelerated_step",
    "as_measures",
    "mirror_step",
    "run_until_mixed",
    "smoothed_conjugate",
    "smoothed_wnmf",
    "wasserstein_nmf",
    "wnmf_epoch",
    "wnmf_start",
    "wnmf_temperature",
]
