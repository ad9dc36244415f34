"""Experiment got/wnmf-digits (Figure 4)."""

from ebmtut.experiments.got.measures import PAPER, ImagesConfig
from ebmtut.experiments.got.wnmf import wnmf_row
from ebmtut.transport import WNMFConfig

EXPERIMENT = wnmf_row(
    id="got/wnmf-digits",
    title="Wasserstein NMF of fives",
    presets={
        "quick": ImagesConfig(
            source="small digits",
            n_images=60,
            side=16,
            wnmf=WNMFConfig(n_components=10, n_epochs=400),
            n_rounds=5,
            n_iterations=400,
            n_exact=30,
            n_looks=5,
        ),
        "full": ImagesConfig(),
        "paper": PAPER,
    },
)
