"""Which sets of data consist of files."""

from ebmtut.data.color_images import CELEBA_FILE, CIFAR10_FILE
from ebmtut.data.datasets import RemoteFile
from ebmtut.data.faces import OLIVETTI_FILES
from ebmtut.data.lsun import LSUN_FILES
from ebmtut.data.mnist import MNIST_FILES
from ebmtut.data.omniglot import OMNIGLOT_FILES

__all__ = ["DATASETS"]

#: The files of each set, by its name. Of the faces, either file will do.
DATASETS: dict[str, tuple[RemoteFile, ...]] = {
    "mnist": tuple(MNIST_FILES.values()),
    "omniglot": tuple(OMNIGLOT_FILES.values()),
    "olivetti, either file": tuple(OLIVETTI_FILES.values()),
    "cifar10": (CIFAR10_FILE,),
    "celeba": (CELEBA_FILE,),
    "lsun": tuple(LSUN_FILES.values()),
}
