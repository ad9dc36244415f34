"""Data: two-dimensional densities in bits, Ising samples, images."""

from ebmtut.data.catalog import DATASETS
from ebmtut.data.color_images import (
    CELEBA_FILE,
    CIFAR10_FILE,
    load_celeba,
    load_cifar10,
)
from ebmtut.data.contours import contours, digits_at_hand
from ebmtut.data.datasets import (
    DataUnavailable,
    RemoteFile,
    cache_folder,
    fetch,
    sha256_of,
)
from ebmtut.data.densities import (
    DENSITIES,
    DensityData,
    density_extent,
    density_log_prob,
    density_scale,
    differential_entropy,
    exact_entropy,
    sample_density,
)
from ebmtut.data.faces import OLIVETTI_FILES, drawn_faces, load_faces, load_olivetti
from ebmtut.data.graphs import GRAPH_SIZES, random_graphs
from ebmtut.data.images import ImageData, binarize, glyph_digits
from ebmtut.data.ising_data import ising_samples
from ebmtut.data.lsun import LSUN_FILES, load_lsun
from ebmtut.data.mnist import MNIST_FILES, load_digits, load_mnist, read_idx
from ebmtut.data.omniglot import OMNIGLOT_FILES, load_omniglot
from ebmtut.data.own_graphs import pairwise_graph, read_graph
from ebmtut.data.shapes import SHAPES, ShapeImages, shape_images, shapes
from ebmtut.data.tables import read_bits, read_histograms, read_numbers

__all__ = [
    "CELEBA_FILE",
    "CIFAR10_FILE",
    "DATASETS",
    "DENSITIES",
    "GRAPH_SIZES",
    "LSUN_FILES",
    "MNIST_FILES",
    "OLIVETTI_FILES",
    "OMNIGLOT_FILES",
    "SHAPES",
    "DataUnavailable",
    "DensityData",
    "ImageData",
    "RemoteFile",
    "ShapeImages",
    "binarize",
    "cache_folder",
    "contours",
    "density_extent",
    "density_log_prob",
    "density_scale",
    "differential_entropy",
    "digits_at_hand",
    "drawn_faces",
    "exact_entropy",
    "fetch",
    "glyph_digits",
    "ising_samples",
    "load_celeba",
    "load_cifar10",
    "load_digits",
    "load_faces",
    "load_lsun",
    "load_mnist",
    "load_olivetti",
    "load_omniglot",
    "pairwise_graph",
    "random_graphs",
    "read_bits",
    "read_graph",
    "read_histograms",
    "read_idx",
    "read_numbers",
    "sample_density",
    "sha256_of",
    "shape_images",
    "shapes",
]
