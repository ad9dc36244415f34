"""Widgets: pictures that answer when a slider moves, with or without a kernel."""

from ebmtut.widgets.landscape_explorer import LandscapeExplorer, landscape_explorer
from ebmtut.widgets.landscape_pixels import (
    PackedLandscapes,
    decode_landscape,
    encode_landscape,
    pack_landscapes,
)

__all__ = [
    "LandscapeExplorer",
    "PackedLandscapes",
    "decode_landscape",
    "encode_landscape",
    "landscape_explorer",
    "pack_landscapes",
]
