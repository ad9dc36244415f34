"""Widgets: pictures that answer when a slider moves, with or without a kernel."""

try:
    import anywidget as _anywidget  # noqa: F401
except ImportError as error:
    raise ImportError(
        "ebmtut.widgets needs anywidget: pip install 'ebmtut[book]'"
    ) from error

from ebmtut.widgets.discrepancy_explorer import (
    DiscrepancyExplorer,
    discrepancy_explorer,
)
from ebmtut.widgets.flow_explorer import (
    FlowExplorer,
    TrainedFlow,
    flow_explorer,
    flow_picture,
)
from ebmtut.widgets.landscape_explorer import LandscapeExplorer, landscape_explorer
from ebmtut.widgets.landscape_pixels import (
    PackedLandscapes,
    encode_landscape,
    pack_landscapes,
)
from ebmtut.widgets.message_explorer import (
    SMALL_GRAPHS,
    MessageExplorer,
    SmallGraph,
    message_explorer,
)
from ebmtut.widgets.message_picture import draw_laws, message_picture
from ebmtut.widgets.particle_explorer import ParticleExplorer, particle_explorer
from ebmtut.widgets.price_explorer import PriceExplorer, price_explorer
from ebmtut.widgets.recovery_explorer import RecoveryExplorer, recovery_explorer
from ebmtut.widgets.transport_explorer import (
    TWO_LAWS,
    TransportExplorer,
    TwoLaws,
    transport_explorer,
)
from ebmtut.widgets.transport_picture import transport_picture
from ebmtut.widgets.two_starts_explorer import TwoStartsExplorer, two_starts_explorer

__all__ = [
    "SMALL_GRAPHS",
    "TWO_LAWS",
    "DiscrepancyExplorer",
    "FlowExplorer",
    "LandscapeExplorer",
    "MessageExplorer",
    "PackedLandscapes",
    "ParticleExplorer",
    "PriceExplorer",
    "RecoveryExplorer",
    "SmallGraph",
    "TrainedFlow",
    "TransportExplorer",
    "TwoLaws",
    "TwoStartsExplorer",
    "discrepancy_explorer",
    "draw_laws",
    "encode_landscape",
    "flow_explorer",
    "flow_picture",
    "landscape_explorer",
    "message_explorer",
    "message_picture",
    "pack_landscapes",
    "particle_explorer",
    "price_explorer",
    "recovery_explorer",
    "transport_explorer",
    "transport_picture",
    "two_starts_explorer",
]
