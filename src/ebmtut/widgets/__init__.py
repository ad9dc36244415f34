"""Widgets: pictures that answer when a slider moves, with or without a kernel."""

try:
    import anywidget as _anywidget  # noqa: F401
except ImportError as error:
    raise ImportError(
        "ebmtut.widgets needs anywidget: pip install 'ebmtut[sweep]', or [book]"
    ) from error

from ebmtut.widgets.collapse_explorer import CollapseExplorer, collapse_explorer
from ebmtut.widgets.comparison_explorer import ComparisonExplorer, comparison_explorer
from ebmtut.widgets.discrepancy_explorer import (
    DiscrepancyExplorer,
    discrepancy_explorer,
)
from ebmtut.widgets.dual_explorer import DualExplorer, dual_explorer
from ebmtut.widgets.feature_explorer import FeatureExplorer, feature_explorer
from ebmtut.widgets.flow_explorer import (
    FlowExplorer,
    TrainedFlow,
    flow_explorer,
    flow_picture,
)
from ebmtut.widgets.landscape_explorer import LandscapeExplorer, landscape_explorer
from ebmtut.widgets.message_explorer import (
    FIRST_SAMPLE,
    SMALL_GRAPHS,
    MessageExplorer,
    SmallGraph,
    message_explorer,
)
from ebmtut.widgets.particle_explorer import ParticleExplorer, particle_explorer
from ebmtut.widgets.recovery_explorer import RecoveryExplorer, recovery_explorer
from ebmtut.widgets.transport_explorer import (
    TWO_DISTRIBUTIONS,
    TransportExplorer,
    TwoDistributions,
    transport_explorer,
)
from ebmtut.widgets.two_modes_explorer import TwoModesExplorer, two_modes_explorer
from ebmtut.widgets.two_spins_explorer import TwoSpinsExplorer, two_spins_explorer
from ebmtut.widgets.two_starts_explorer import TwoStartsExplorer, two_starts_explorer

__all__ = [
    "FIRST_SAMPLE",
    "SMALL_GRAPHS",
    "TWO_DISTRIBUTIONS",
    "CollapseExplorer",
    "ComparisonExplorer",
    "DiscrepancyExplorer",
    "DualExplorer",
    "FeatureExplorer",
    "FlowExplorer",
    "LandscapeExplorer",
    "MessageExplorer",
    "ParticleExplorer",
    "RecoveryExplorer",
    "SmallGraph",
    "TrainedFlow",
    "TransportExplorer",
    "TwoDistributions",
    "TwoModesExplorer",
    "TwoSpinsExplorer",
    "TwoStartsExplorer",
    "collapse_explorer",
    "comparison_explorer",
    "discrepancy_explorer",
    "dual_explorer",
    "feature_explorer",
    "flow_explorer",
    "flow_picture",
    "landscape_explorer",
    "message_explorer",
    "particle_explorer",
    "recovery_explorer",
    "transport_explorer",
    "two_modes_explorer",
    "two_spins_explorer",
    "two_starts_explorer",
]
