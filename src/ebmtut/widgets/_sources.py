"""What the widgets carry: scripts and styles as one text each, and random numbers."""

import re
from pathlib import Path

import torch

from ebmtut.random import check_generator

_HERE = Path(__file__).parent
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./(\w+\.js)";\n', re.MULTILINE)


def script(name: str) -> str:
    """Put a module and all that it imports into one."""
    parts: dict[str, str] = {}

    def add(name: str) -> None:
        if name not in parts:
            text = (_HERE / name).read_text("utf-8")
            for other in _IMPORT.findall(text):
                add(other)
            parts[name] = _IMPORT.sub("", text)

    add(name)
    return "\n".join(parts.values())


def style(name: str) -> str:
    """Put the common style and one widget's own, which may overrule it, into one."""
    return "\n".join((_HERE / part).read_text("utf-8") for part in ("frame.css", name))


def exponentials(*shape: int, generator: torch.Generator) -> bytes:
    """Draw exponentials of mean 1, float32."""
    check_generator(generator)
    device = generator.device
    draws = torch.rand(shape, generator=generator, dtype=torch.float32, device=device)
    noise: bytes = (-torch.log1p(-draws)).numpy().tobytes()
    return noise
