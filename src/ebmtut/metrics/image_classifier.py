"""A small classifier for evaluating images by its features, classes and confidence.

The Frechet distance needs the features of a network. This network is trained on the
labelled images of a set within seconds. A distance in its features should be reported
with the network's name, its seed and its accuracy on held-out images.
"""

from typing import Annotated, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ebmtut._gradients import with_gradients
from ebmtut.checks import (
    Count,
    Natural,
    NonNegative,
    Positive,
    Range,
    check_range,
    check_type,
    checked,
)
from ebmtut.random import check_generator, spawn_seed
from ebmtut.tensor_checks import check_floats, check_shape, check_within

__all__ = ["ImageClassifier", "train_image_classifier"]


class ImageClassifier(nn.Module):
    """Three convolutions, 64 features, a linear layer to the classes.

    Parameters
    ----------
    channels, n_features
        Of the first convolution, others have twice as many; units that `features`
        returns.
    dtype
        Of the weights.
    """

    @checked
    def __init__(
        self,
        side: Annotated[int, Range(low=8)],
        n_classes: Annotated[int, Range(low=2)] = 10,
        channels: Count = 16,
        n_features: Count = 64,
        n_colors: Count = 1,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        of: Any = {"dtype": dtype, "device": "cpu"}
        self.side, self.n_colors = side, n_colors
        wide, left = 2 * channels, side
        layers: list[nn.Module] = [
            nn.Conv2d(n_colors, channels, 3, padding=1, **of),
            nn.ReLU(),
        ]
        n_in = channels
        while left > 4:
            layers += [nn.Conv2d(n_in, wide, 3, stride=2, padding=1, **of), nn.ReLU()]
            n_in, left = wide, (left + 1) // 2
        self.body = nn.Sequential(
            *layers,
            nn.Conv2d(n_in, wide, 3, padding=1, **of),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(wide * left * left, n_features, **of),
            nn.ReLU(),
        )
        self.head = nn.Linear(n_features, n_classes, **of)

    @torch.no_grad()
    def features(
        self, images: Float[Tensor, "batch ..."], *, block: int = 512
    ) -> Float[Tensor, "batch n_features"]:
        """Features of images, without a gradient.

        Parameters
        ----------
        images
            (batch, side, side), or (batch, n_colors, side, side); in [-1, 1].
        """
        square = (self.side, self.side)
        grey = self.n_colors == 1 and images.dim() == 3
        shape = (None, *square) if grey else (None, self.n_colors, *square)
        check_floats("images", images, shape)
        images = images.reshape(-1, self.n_colors, *square)
        parts = [self.body(part) for part in images.split(block)]
        return torch.cat(parts) if parts else images.new_zeros(0, self.head.in_features)

    @torch.no_grad()
    def probabilities(
        self, images: Float[Tensor, "batch ..."]
    ) -> Float[Tensor, "batch n_classes"]:
        """Probabilities of the classes, as for `features`."""
        probabilities: Tensor = self.head(self.features(images)).softmax(1)
        return probabilities

    def forward(
        self, images: Float[Tensor, "batch n_colors side side"]
    ) -> Float[Tensor, "batch n_classes"]:
        """Logits of the classes, with gradients, for training."""
        logits: Tensor = self.head(self.body(images))
        return logits


@with_gradients
@checked
def train_image_classifier(
    images: Float[Tensor, "n ..."],
    labels: Int[Tensor, " n"],
    *,
    generator: torch.Generator,
    n_steps: Count = 600,
    batch_size: Count = 64,
    learning_rate: Positive = 4e-3,
    pixel_noise: NonNegative = 0.5,
    largest_shift: Natural = 0,
    channels: int = 16,
) -> ImageClassifier:
    """Train the classifier by cross-entropy: AdamW, linear warm-up, cosine decay.

    Parameters
    ----------
    images, labels
        (n, side, side) or (n, n_colors, side, side), in [-1, 1]; classes from 0.
    pixel_noise, largest_shift
        Standard deviation of the noise, and shift in pixels, of training images.
    """
    check_generator(generator)
    check_type("images", images, Tensor)
    side, n_colors = images.shape[-1], images.shape[1] if images.dim() == 4 else 1
    shape = (None, side, side) if images.dim() == 3 else (None, n_colors, side, side)
    check_floats("images", images, shape)
    check_within("images", images, -1, 1)
    check_shape("labels", labels, (len(images),))
    check_range("len(images)", len(images), low=1, integer=True)
    check_range("labels.min()", int(labels.min()), low=0, integer=True)
    # The layers draw their weights from the global stream: keep that as it was.
    with torch.random.fork_rng(devices=[]):
        torch.random.manual_seed(spawn_seed(generator))
        classes = int(labels.max()) + 1
        how: Any = {"n_colors": n_colors, "dtype": images.dtype}
        classifier = ImageClassifier(side, classes, channels, **how)
    images = images.reshape(-1, n_colors, side, side)
    optimizer = torch.optim.AdamW(classifier.parameters(), weight_decay=1e-2)
    rates = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, learning_rate, total_steps=n_steps
    )
    of: Any = {"generator": generator, "device": generator.device}
    for _ in range(n_steps):
        index = torch.randint(len(images), (batch_size,), **of)
        batch = images[index]
        if largest_shift:
            batch = shifted(batch, largest_shift, generator=generator)
        noise = torch.randn(batch.shape, dtype=images.dtype, **of)
        logits = classifier(batch + pixel_noise * noise)
        loss = nn.functional.cross_entropy(logits, labels[index])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rates.step()
    return classifier.eval().requires_grad_(False)


def shifted(
    images: Float[Tensor, "n n_colors side side"],
    largest: int,
    *,
    generator: torch.Generator,
) -> Float[Tensor, "n n_colors side side"]:
    """Move each image by up to ``largest`` pixels along both axes."""
    n, _, side, _ = images.shape
    padded = nn.functional.pad(images, [largest] * 4, mode="replicate")
    corner = torch.randint(
        2 * largest + 1, (2, n, 1), generator=generator, device=generator.device
    )
    rows, columns = corner + torch.arange(side, device="cpu")
    image = torch.arange(n, device="cpu")[:, None, None]
    # Indices beside the slice come first, so that the colours end up last.
    moved = padded[image, :, rows[:, :, None], columns[:, None, :]]
    return moved.permute(0, 3, 1, 2)
