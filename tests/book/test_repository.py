"""What the repository says of itself is true: commands, pins, vendored files, text."""

import re
import shutil
import subprocess
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tools.contract import IMAGES
from tools.paths import ROOT
from tools.vendor import VENDOR, check

# Hosts of package registries: an install follows the user's own configuration.
# Put together here, so that this file does not find itself.
REGISTRIES = re.compile(
    "|".join([r"pypi\." + "org", "python" + "hosted", "npm" + "js"])
)
# Folders of one machine, which mean nothing on a reader's.
MACHINE = re.compile(r"(?<![\w.~}/])/(?:root|home|Users|work|tmp|mnt)/[\w.-]+")
PICTURE = re.compile(rf'"(?:{"|".join(map(re.escape, IMAGES))})": "[^"]*"')


def make_targets(makefile):
    return set(re.findall(r"^([a-z][\w-]*):(?!=)", makefile, re.MULTILINE))


def make_commands(markdown):
    code = re.findall(r"```.*?```|`[^`\n]+`", markdown, re.DOTALL)
    return set(re.findall(r"\bmake ((?!PYTHON)[a-z][\w-]*)", "\n".join(code)))


def unmet(ranges, pins):
    """Requirements that no pin satisfies."""
    pinned = dict(
        line.partition(";")[0].rstrip().partition("==")[::2]  # a pin may be a system's
        for line in pins.splitlines()
        if line and not line.startswith("#")
    )
    wanted = [Requirement(text) for text in ranges]
    return [
        str(requirement)
        for requirement in wanted
        if (name := canonicalize_name(requirement.name)) not in pinned
        or Version(pinned[name]) not in requirement.specifier
    ]


# Nobody's: what tests of such leaks pretend.
INVENTED = {"/home/me", "/home/someone"}


def telltales(text):
    """Paths of one machine and hosts of registries in a text, pictures left out."""
    # In a notebook's JSON a line ends in a backslash and a letter.
    text = PICTURE.sub("", text).replace("\\n", "\n")
    paths = [path for path in MACHINE.findall(text) if path not in INVENTED]
    return paths + REGISTRIES.findall(text)


def committed_texts():
    """Text files that git tracks, without third parties' code."""
    done = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    texts = {}
    for name in filter(None, done.stdout.split("\0")):
        file = ROOT / name
        if VENDOR in file.parents or not file.is_file():
            continue
        raw = file.read_bytes()
        if b"\0" not in raw:
            texts[name] = raw.decode("utf-8", "replace")
    return texts


def test_every_page_names_only_commands_that_exist():
    targets = make_targets((ROOT / "Makefile").read_text("utf-8"))
    pages = [*ROOT.glob("*.md"), *(ROOT / "book").rglob("*.md")]
    wrong = {
        page.relative_to(ROOT): missing
        for page in pages
        if (missing := make_commands(page.read_text("utf-8")) - targets)
    }
    assert not wrong


def test_pins_satisfy_the_ranges():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    ranges = list(project["dependencies"])
    for extra in project["optional-dependencies"].values():
        ranges += extra
    assert unmet(ranges, (ROOT / "requirements.txt").read_text("utf-8")) == []


def test_nothing_committed_tells_of_a_machine():
    texts = committed_texts()
    assert texts
    wrong = {name: found for name, text in texts.items() if (found := telltales(text))}
    assert not wrong


def test_continuous_integration_runs_what_a_person_runs():
    assert re.search(r"^(exec )?make test$", (ROOT / ".ci" / "run").read_text(), re.M)


def test_unknown_command_is_caught():
    readme = "Run `make book`, then:\n```\nmake tset\n```\nWe make do."
    assert make_commands(readme) == {"book", "tset"}
    assert make_targets("book: x ## why\nPYTHON := 3\n.PHONY: book\n") == {"book"}


@pytest.mark.parametrize("pins", ["torch==1.9\n", "# torch==2.5\n", ""])
def test_bad_pin_is_caught(pins):
    assert unmet(["torch>=2.4"], pins) == ["torch>=2.4"]
    assert unmet(["torch>=2.4"], "torch==2.5\n") == []
    assert unmet(["torch>=2.4"], "torch==2.3 ; sys_platform == 'linux'\n")


@pytest.mark.parametrize(
    "text",
    [
        *("see " + "/root" + "/x.py", '"' + "/home" + '/ada/a"', "pypi." + "org"),
        '"text": ["in\\n' + "/home" + '/ada/x"]',
    ],
)
def test_telltale_is_caught(text):
    assert telltales(text)


@pytest.mark.parametrize("spoilt", ["changed", "missing", "unrecorded"])
def test_tampered_vendored_file_is_caught(tmp_path, spoilt):
    folder = shutil.copytree(VENDOR / "requirejs", tmp_path / "vendor" / "requirejs")
    sums = (VENDOR / "SHA256SUMS").read_text("utf-8").splitlines()
    kept = [line for line in sums if "  requirejs/" in line]
    (folder.parent / "SHA256SUMS").write_text("\n".join(kept) + "\n")
    assert check(folder.parent) == []
    script = folder / "require.js"
    if spoilt == "missing":
        script.unlink()
    else:
        target = script if spoilt == "changed" else folder / "more.js"
        target.write_text("alert(1)")
    (found,) = check(folder.parent)
    assert found.startswith("not as recorded: ")
