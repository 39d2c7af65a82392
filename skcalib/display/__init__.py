"""Pictures of calibration as scikit-learn displays. matplotlib is imported when one is drawn."""

from ._confidence import ConfidenceDisplay
from ._decomposition import ScoreDecompositionDisplay
from ._reliability import ReliabilityDisplay
from ._reliability_grid import ReliabilityGridDisplay
from ._sweep import TemperatureSweepDisplay

__all__ = [
    "ConfidenceDisplay",
    "ReliabilityDisplay",
    "ReliabilityGridDisplay",
    "ScoreDecompositionDisplay",
    "TemperatureSweepDisplay",
]
