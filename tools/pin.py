"""Print the pins of everything that the package, its book and its tests install.

Walks the requirements of the installed ebmtut, so that a stray package in the same
environment is not pinned. `make pin` writes them to requirements.txt, which every
install of this repository takes as its constraints.
"""

import sys
from importlib.metadata import PackageNotFoundError, distribution

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

__all__ = ["main", "pins"]

OLDEST = "3.11.0"  # of the Pythons that the pins must suit
EXTRAS = ("book", "test", "dev", "bench", "transport", "graphs", "cluster")

HEADER = """\
# What the tests last ran with: the constraints of every install. Made by `make pin`.
# Upgrading: edit a line (or pyproject.toml), `make test`, `make pin`.
"""


def pins(name: str, extras: tuple[str, ...] = ()) -> dict[str, str]:
    """Collect the installed versions that a package needs, directly or not.

    Parameters
    ----------
    name
        An installed distribution; it is not pinned itself.
    extras
        Its extras to follow.

    Returns
    -------
    dict of str to str
        Name -> version, without a local suffix such as ``+cpu``, which names a build
        and not a version.

    Raises
    ------
    ValueError
        If an installed version does not run on the oldest supported Python.
    """
    found: dict[str, str] = {}
    waiting = [(name, extras)]
    seen = set()
    while waiting:
        current, wanted = waiting.pop()
        if (current, wanted) in seen:
            continue
        seen.add((current, wanted))
        try:
            installed = distribution(current)
        except PackageNotFoundError:
            continue  # needed on another system only
        suits = installed.metadata["Requires-Python"]
        if suits and not SpecifierSet(suits).contains(OLDEST):
            raise ValueError(
                f"{current} {installed.version} needs Python {suits}, and ebmtut "
                f"supports {OLDEST}: install an older version of it"
            )
        found[canonicalize_name(current)] = Version(installed.version).public
        for line in installed.requires or []:
            requirement = Requirement(line)
            marker = requirement.marker
            if marker is None or any(
                marker.evaluate({"extra": extra}) for extra in ("", *wanted)
            ):
                waiting.append((requirement.name, tuple(sorted(requirement.extras))))
    del found[canonicalize_name(name)]
    return found


def main() -> int:
    """Run from the command line."""
    print(HEADER, end="")
    for name, version in sorted(pins("ebmtut", EXTRAS).items()):
        print(f"{name}=={version}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
