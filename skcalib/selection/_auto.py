"""The default calibrator: candidates that are weighted by cross-validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from skcalib._base import BaseCalibrator
from skcalib._engine.blocks import both_columns
from skcalib._engine.inputs import check_in_memory
from skcalib._engine.rows import Rows
from skcalib._scores.mixed import mix_logits
from skcalib._typing import Array, Floats, Indices
from skcalib._validation.parameters import check_option

__all__ = ["AutoCalibrator"]
