"""What the widget of features hands to the page."""

import numpy as np
import pytest
import torch

from ebmtut.widgets import feature_explorer


def test_pictures_are_packed_by_sampler_step_and_feature() -> None:
    one, two = torch.rand(2, 3, 4, 5, 5, generator=torch.manual_seed(0))
    wrong = {"PMP": [0.3, 0.2, 0.1], "Gibbs": [0.3, 0.3, 0.25]}
    widget = feature_explorer([1, 5, 9], {"PMP": one, "Gibbs": two}, wrong, step=2)
    assert widget.step == 2
    assert (widget.n_features, widget.side) == (4, 5)
    assert widget.names == ["PMP", "Gibbs"]
    assert widget.wrong[1] == pytest.approx([30, 30, 25])
    pixels = np.frombuffer(widget.pixels, np.uint8).reshape(2, 3, 4, 5, 5)
    assert np.abs(pixels[1] / 255 - two.numpy()).max() < 0.003
