"""What a calibrator computes, as the nodes of an ONNX graph.

``calibrated`` of a calibrator and the value of the logits adds them. Formulas are in modules of
their own, each a function registered with ``formula`` for one class. They follow ``_calibrated``
and its kin of the classes, and compute in the dtype of the logits unless they say otherwise.
"""

from collections.abc import Callable, Sequence
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np

from skcalib._base import BaseCalibrator
from skcalib._rows.arrays import TINY, Floats

from ._graph import Value, both_columns, expm1, log1p, softmax, where

# Numbers between these, and their products and quotients with log-odds, are held by single
# precision.
HELD = 1e-30, 1e30


class Outputs(NamedTuple):
    """Values of the outputs, of the dtype of the logits that were given."""

    logits: Value  #: calibrated, of the shape of the logits, as of ``transform``
    probabilities: Value  #: with a column for each class, as of ``predict_proba``
    scores: Value  #: with a column for each class, whose largest is predicted
    indicator: Value | None = None  #: of several labels which a row has, as of ``predict``


@singledispatch
def formula(calibrator: Any, Z: Value) -> Outputs:
    """The outputs of a calibrator, for logits of which those of masked classes are -inf."""
    raise NotImplementedError


def calibrated(calibrator: Any, Z: Value) -> Outputs:
    """The same, if there is a formula of exactly that class."""
    kind = type(calibrator)
    if kind not in formula.registry:
        what = "a class of your own" if isinstance(calibrator, BaseCalibrator) else "none of them"
        raise TypeError(
            f"to_onnx has formulas of the calibrators of skcalib, got {kind.__name__}, which is "
            f"{what}. Use one of these calibrators."
        )
    if isinstance(calibrator, BaseCalibrator) and not calibrator._takes_masked:  # noqa: SLF001
        Z = where(Z.equals(-np.inf), np.nan, Z)  # the library raises an error
    return formula(calibrator, Z)


def applied(
    chain: Sequence[Any], Z: Value, calibrated: Callable[[Any, Value], Outputs] = calibrated
) -> Outputs:
    """The outputs of the last of calibrators that are applied one after the other."""
    first, *others = chain
    found = calibrated(first, Z)
    for member in others:
        found = calibrated(member, found.logits)
    return found


def as_outputs(calibrator: BaseCalibrator, Z: Value, logits: Value) -> Outputs:
    """The outputs of a calibrator whose probabilities are the softmax of calibrated logits."""
    K = calibrator.n_features_in_
    S = both_columns(logits, K)
    kept = calibrator._keeps_order or calibrator._keeps_predictions  # noqa: SLF001
    return Outputs(logits, softmax(S), both_columns(Z, K) if kept else S)


def as_mixed_outputs(calibrator: Any, Z: Value, unmixed: Value, smoothing: float) -> Outputs:
    """The outputs of one whose probabilities are then mixed with the uniform distribution."""
    K = calibrator.n_features_in_
    S = both_columns(unmixed, K)
    scores = both_columns(Z, K) if calibrator._keeps_order else S  # noqa: SLF001
    if smoothing == 0:
        return Outputs(unmixed, softmax(S), scores)
    probabilities = mixed_probabilities(S, smoothing).astype(Z.dtype)
    return Outputs(mix_logits(unmixed, smoothing, K), probabilities, scores)


def finite_unless_masked(f: Callable[[Value], Value], Z: Value) -> Value:
    """``f`` of finite logits, made finite, and -inf for masked classes.

    As in the library, a quarter of the range, so that differences of two logits are finite as well.
    """
    largest = float(np.finfo(Z.dtype).max) / 4
    out = f(Z.at_least(-largest)).at_least(-largest).at_most(largest)
    return where(Z.equals(-np.inf), -np.inf, out)


def mixed_probabilities(S: Value, smoothing: float) -> Value:
    """Softmax of logits (n_rows, K), mixed with the uniform distribution of the classes of a row.

    Those of masked classes are 0, and no others are.
    """
    S = holding(S, smoothing)
    is_class = (-np.inf < S).astype(S.dtype)
    return softmax(S) * (1 - smoothing) + is_class * (max(smoothing, TINY) / is_class.sum())


def mix_logits(Z: Value, smoothing: float, n_columns: int) -> Value:
    """Logits of the mixture, for logits (n_rows, K), or log-odds (n_rows, 1) of two classes.

    Those of several classes are its log-probabilities.
    """
    if smoothing == 0:
        return Z
    if n_columns > 1:
        return mixed_probabilities(Z, smoothing).log().astype(Z.dtype)
    # The odds of the more probable class less one, as in the library.
    S = holding(Z, smoothing)
    below = -S.abs()
    # Not as a sum with it: onnxruntime leaves out what is 0 in single precision.
    least = max(smoothing / 2, TINY)
    less = (below.exp() * ((1 - smoothing / 2) / least) + 1.0) * least
    excess = log1p(expm1(below) * (smoothing - 1) / less)
    return where(S < 0.0, -excess, excess).astype(Z.dtype)


def mixture(parts: Sequence[Value], weights: Floats) -> Value:
    """Logarithms of the mixture of probabilities with these logarithms, by weights of each."""
    shifted = [L + w for L, w in zip(parts, np.log(weights), strict=True)]
    if len(shifted) == 1:
        return shifted[0]
    top = shifted[0]
    for L in shifted[1:]:
        top = top.at_least(L)
    top = where(top.equals(-np.inf), 0.0, top)
    first, *others = ((L - top).exp() for L in shifted)
    return sum(others, start=first).log() + top


def divided(Z: Value, temperature: float) -> Value:
    """Logits divided by a temperature, with the rounding errors of the library."""
    numbers = np.finfo(Z.dtype)
    held = float(numbers.tiny) <= temperature <= float(numbers.max)
    return ((Z if held else Z.astype(np.float64)) / temperature).astype(Z.dtype)


def holding(Z: Value, *parameters: Any) -> Value:
    """The value in double precision if a parameter needs it, else as it is.

    Runtimes on devices may be slow with double precision, or lack it.
    """
    sizes = np.abs(np.concatenate([np.ravel(values) for values in parameters]))
    low, high = HELD
    held = ((sizes == 0) | ((sizes > low) & (sizes < high))).all()
    return Z if held else Z.astype(np.float64)
