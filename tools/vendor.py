"""Check or refresh the third-party scripts that the book carries.

A reader without a network still gets typeset mathematics and working widgets, because
the book brings MathJax and the widget manager along instead of linking to a CDN.

    python -m tools.vendor             # check every file against SHA256SUMS
    python -m tools.vendor --refresh   # fetch the pinned packages from npm again

To move to a newer version: change `PACKAGES`, run ``--refresh``, put the integrity
that it prints into `PACKAGES`, and open a page with a widget.
"""

import importlib.metadata
import json
import shutil
import subprocess
import sys
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from tools.paths import BOOK

VENDOR = BOOK / "_static" / "vendor"
SUMS = "SHA256SUMS"

REQUIREJS_LICENSE = """\
RequireJS 2.3.8, Copyright jQuery Foundation and other contributors.
Released under the MIT license: https://github.com/requirejs/requirejs

The npm package carries no licence file; require.js names its licence in its head.
"""


class Package(NamedTuple):
    """An npm package and the files of it that the book needs."""

    spec: str
    integrity: str
    files: dict[str, str]


PACKAGES = {
    "mathjax": Package(
        "mathjax@3.2.2",
        "sha512-Bt+SSVU8eBG27zChVewOicYs7Xsdt40qm4+UpHyX7k0/"
        "O9NliPc+x77k1/FEsPsjKPZGJvtRZM1vO+geW0OhGw==",
        {
            "LICENSE": "",
            "es5/tex-mml-chtml.js": "es5",
            "es5/input/tex/extensions/*.js": "es5",
            "es5/output/chtml/fonts/woff-v2/*.woff": "es5",
        },
    ),
    "html-manager": Package(
        "@jupyter-widgets/html-manager@1.0.14",
        "sha512-wglgQQ+VMj+MBKkTttdeoMtOah/H2A1w5GU1OAVXmDQq"
        "ZYTK6C+oHZjQMxcNezIpiqUjC1YHKOo5XdP3ENvBng==",
        {"LICENSE": "", "dist/embed-amd.js": "dist", "dist/*.woff2": "dist"},
    ),
    "requirejs": Package(
        "requirejs@2.3.8",
        "sha512-7/cTSLOdYkNBNJcDMWf+luFvMriVm7eYxp4BcFCsAX0w"
        "F421Vyce5SXP17c+Jd5otXKGNehIonFlyQXSowL6Mw==",
        {"require.js": ""},
    ),
}


def check(folder: Path = VENDOR) -> list[str]:
    """Compare the vendored files with their recorded hashes."""
    recorded = {*(folder / SUMS).read_text("utf-8").splitlines()}
    differ = {line.partition("  ")[2] for line in recorded ^ {*_lines(folder)}}
    return [f"not as recorded: {name}" for name in sorted(differ)]


def refresh(folder: Path = VENDOR) -> None:
    """Fetch every package anew and rewrite the folder and its hashes."""
    with tempfile.TemporaryDirectory() as temporary:
        made = Path(temporary) / "vendor"
        for name, package in PACKAGES.items():
            _copy(_fetch(package, Path(temporary)), package, made / name)
        (made / "requirejs" / "LICENSE").write_text(REQUIREJS_LICENSE, "utf-8")
        _copy_anywidget(made / "anywidget")
        (made / SUMS).write_text("\n".join([*_lines(made), ""]), "utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(made, folder)


def _fetch(package: Package, temporary: Path) -> Path:
    """Download a package with the recorded integrity, and unpack it."""
    command = ["npm", "pack", "--json", "--silent", package.spec]
    done = subprocess.run(command, cwd=temporary, check=True, stdout=subprocess.PIPE)
    (packed,) = json.loads(done.stdout)
    if packed["integrity"] != package.integrity:
        raise ValueError(f"{package.spec} has integrity {packed['integrity']}")
    folder = temporary / packed["id"]
    shutil.unpack_archive(temporary / packed["filename"], folder, filter="data")
    return folder / "package"


def _copy(source: Path, package: Package, target: Path) -> None:
    """Copy the files that the book needs."""
    for pattern, cut in package.files.items():
        for path in source.rglob(pattern):
            file = target / path.relative_to(source / cut)
            file.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, file)


def _copy_anywidget(target: Path) -> None:
    """Take anywidget's front end from the installed wheel, so that the two match."""
    distribution = importlib.metadata.distribution("anywidget")
    target.mkdir(parents=True)
    for path in distribution.files or []:
        if path.match("anywidget/nbextension/index.js") or path.name == "LICENSE":
            shutil.copy2(Path(str(distribution.locate_file(path))), target / path.name)


def _lines(folder: Path) -> list[str]:
    """Return the lines of `SUMS`: the hash and the name of every other file."""
    return [
        f"{sha256(p.read_bytes()).hexdigest()}  {p.relative_to(folder).as_posix()}"
        for p in sorted(folder.rglob("*"))
        if p.is_file() and p.name != SUMS
    ]


def main() -> int:
    """Run from the command line."""
    if "--refresh" in sys.argv[1:]:
        refresh()
    wrong = check()
    print("\n".join(wrong) or "vendored files: as recorded")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
