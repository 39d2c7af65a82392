"""Pictures of calibration as scikit-learn displays. matplotlib is imported when one is drawn."""

from ._confidence import ConfidenceDisplay
from ._decisions import NetBenefitDisplay, RiskCoverageDisplay
from ._decomposition import ScoreDecompositionDisplay
from ._reliability import ReliabilityDisplay
from ._reliability_grid import ReliabilityGridDisplay
from ._segments import SegmentDisplay
from ._sweep import TemperatureSweepDisplay

__all__ = [
    "ConfidenceDisplay",
    "NetBenefitDisplay",
    "ReliabilityDisplay",
    "ReliabilityGridDisplay",
    "RiskCoverageDisplay",
    "ScoreDecompositionDisplay",
    "SegmentDisplay",
    "TemperatureSweepDisplay",
]
