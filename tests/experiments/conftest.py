"""What tests of experiments share."""

from functools import cache, partialmethod

import pytest

from ebmtut.data import DensityData
from ebmtut.experiments.dnfs import ebm_training, planes
from ebmtut.experiments.drl import images
from ebmtut.metrics import grid_log_partition


@pytest.fixture(autouse=True, scope="session")
def _a_classifier_is_trained_once():
    """Tests of one set share its classifier, which is the same in all experiments."""
    train = images.classifier_of
    once = cache(lambda name, _: train(name))  # other images, another classifier
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            images, "classifier_of", lambda name: once(name, images.image_set)
        )
        yield


@pytest.fixture
def few_images(monkeypatch):
    """A few images of each set, and classifiers that learned from them for one step."""
    load = images.image_set
    once = {name: {"n_steps": 1} for name in (*images.DATA, *images.PHOTOGRAPHS)}

    def few(name):
        known = load(name)
        parts = [known.images, known.labels, known.held_out, known.held_out_labels]
        return images.ImageSet(*(part[:64] for part in parts), known.source)

    monkeypatch.setattr(images, "image_set", few)
    monkeypatch.setattr(images, "_CLASSIFIER_OPTIONS", once)


def on_a_coarse_grid(energy, *, coarse_bits=8, **options):
    return grid_log_partition(energy, coarse_bits=4, **options)


@pytest.fixture
def few_points(monkeypatch):
    """What no configuration says of densities: few samples, and a coarse proposal."""
    for name, size in {"_HELD_OUT": 4, "_PROPOSED": 4, "_BOUNDED": 2}.items():
        monkeypatch.setattr(ebm_training, name, size)
    for module in (planes, ebm_training):
        monkeypatch.setattr(module, "grid_log_partition", on_a_coarse_grid)
    monkeypatch.setattr(DensityData, "kl", partialmethod(DensityData.kl, n=200))
