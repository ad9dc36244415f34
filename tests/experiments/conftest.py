"""What tests of experiments share."""

from functools import cache

import pytest

from ebmtut.experiments.drl import images


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
