"""The classifier learns reproducibly and refuses images that do not fit."""

import torch

from ebmtut.data import glyph_digits
from ebmtut.metrics import train_image_classifier
from ebmtut.metrics.image_classifier import shifted
from ebmtut.random import make_generator


def digits(n: int, seed: int):
    data = glyph_digits(n, generator=make_generator(seed), side=12)
    return 2 * data.images - 1, data.labels


def test_it_tells_held_out_digits_apart() -> None:
    images, labels = digits(600, 0)
    classifier = train_image_classifier(
        images, labels, generator=make_generator(0), n_steps=250
    )
    held_out, truth = digits(300, 1)
    told = classifier.probabilities(held_out)
    assert torch.allclose(told.sum(1), torch.ones(300))
    # Guessing has 0.1 with a standard error of 0.017.
    assert (told.argmax(1) == truth).double().mean() > 0.9
    assert classifier.features(held_out).shape == (300, 64)
    # Some processors add in another order where a batch is small: sums of 288 products
    # of order one differ by at most 288 roundings.
    assert torch.allclose(
        classifier.features(held_out, block=7),
        classifier.features(held_out),
        rtol=0,
        atol=288 * 10 * torch.finfo(torch.float32).eps,
    )


def test_its_weights_have_the_dtype_of_the_images() -> None:
    (images, labels), generator = digits(20, 0), make_generator(0)
    of = images.double(), labels
    classifier = train_image_classifier(*of, generator=generator, n_steps=2)
    assert classifier.head.weight.dtype == torch.float64


def test_images_are_moved_whole_and_by_every_number_of_pixels() -> None:
    # Pixels of one image differ, and those of two colours, too.
    images = torch.arange(400 * 2 * 25.0).reshape(400, 2, 5, 5)
    moved = shifted(images, 1, generator=make_generator(0))
    assert moved.shape == images.shape
    padded = torch.nn.functional.pad(images, [1] * 4, mode="replicate")
    windows = {
        (i, j): padded[:, :, i : i + 5, j : j + 5] for i in range(3) for j in range(3)
    }
    same = torch.stack(
        [(moved == window).flatten(1).all(1) for window in windows.values()]
    )
    # A ninth of the images each: 44, with a standard deviation of 6.3.
    assert bool((same.sum(0) == 1).all())
    assert bool(((same.sum(1) - 400 / 9).abs() < 5 * 6.3).all())
