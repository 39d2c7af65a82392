"""Calibrated probabilities for classifiers, as scikit-learn estimators."""

from . import binning, compose, display, meta, monitor, report, scaling, selection
from ._version import __version__ as __version__
from .binning import *
from .compose import *
from .display import *
from .meta import *
from .monitor import *
from .report import *
from .scaling import *
from .selection import *

__all__ = binning.__all__ + compose.__all__ + display.__all__ + meta.__all__
__all__ += monitor.__all__ + report.__all__ + scaling.__all__ + selection.__all__
