"""Logits for scores on other scales, such as stated confidences and log-probabilities."""

from __future__ import annotations

from numbers import Real
from typing import Any, Literal, Self

import numpy as np
from scipy.special import logit
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import validate_data

from skcalib._input.arrays import as_array, as_numpy, check_in_memory
from skcalib._input.logits import LARGEST, ROUNDING, as_floats
from skcalib._input.parameters import check_option
from skcalib._typing import ArrayLike, Floats
from skcalib._version import Versioned

# Smallest total probability of options that were not returned: the rounding error of 1 in float32.
MIN_REMAINDER = 2.0**-24

# Largest errors of the sum of probabilities: log-probabilities with one decimal, and for each
# column probabilities with two decimals.
SUM_ROUNDING, COLUMN_ROUNDING = 0.05, 0.005


class ScoreTransformer(Versioned, OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    r"""Transformer of scores from a language model or judge to logits, for calibrators.

    Nothing is fitted. With scores s on a scale from low to high in steps of h, such as a stated
    confidence of 0 to 100 or a grade of 1 to 5, each column becomes log-odds,

    .. math:: z = \log \frac{s - \text{low} + h / 2}{\text{high} - s + h / 2} ,

    which are finite at both ends of the scale. Scores are not rounded to steps.

    One column of probabilities p becomes :math:`\log (p / (1 - p))`, and one column of
    log-probabilities l, such as means over the tokens of an answer, becomes
    :math:`\log (e^l / (1 - e^l))`. Several columns of probabilities or log-probabilities belong to
    classes, such as the options of a question. Their log-probabilities are logits.

    **Several models, one probability each.** Pass ``scale=(0, 1), step=1e-6, missing="keep"``.
    Each column becomes :math:`\log (p / (1 - p))`, with an error of at most
    :math:`h / 2 / \min(p, 1 - p)`, and missing probabilities stay NaN. Log-odds are between -14.5
    and 14.5. With "probability" the columns would be classes. Their sum in a row is at most 1, and
    a sum above 1.05 is an error, or with more than ten columns above 1 + 0.005 times their number.

    **Probabilities of 0 and 1 become finite.** They are clipped at the machine epsilon
    :math:`\epsilon` and, in one column, at :math:`1 - \epsilon`. So log-odds are between -36 and 36
    for float64, and between -16 and 16 for float32. If zeros are frequencies, such as the votes of
    100 trees, pass ``scale=(0, 1), step=0.01``.

    **Pass NaN for options that were not returned.** An API returns the largest log-probabilities
    only. In each row, the m missing options share the remaining probability equally, up to the
    smallest probability of a returned option:

    .. math:: \ell_\text{missing} = \min\Big( \log \frac{1 - \sum_j e^{\ell_j}}{m} ,\;
        \min_j \ell_j \Big) .

    A logit of -inf means that an option is impossible, and is not replaced. A row without any
    returned option has equal logits.

    Parameters
    ----------
    scale : (float, float), "probability" or "log-probability"
        The ends of the scale, as in ``(0, 100)`` or ``(1, 5)``, or the kind of probabilities.
    step : float, default=1
        Distance h between neighbouring scores on a numeric scale: 1 for grades, 0.01 for
        confidences between 0 and 1, and 5 for a model that states multiples of 5 only.
    missing : {"fill", "keep"}, default="fill"
        "fill" replaces options that were not returned, and refuses other missing scores. "keep"
        returns NaN for a missing score in a column, and for a row without any returned option. In
        other rows it replaces missing log-probabilities, and refuses missing probabilities.
        :class:`~skcalib.fusion.FusionCalibrator` accepts NaN.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_columns,)
        Column names, if ``X`` had string names.

    See Also
    --------
    LogitTransformer : Logits of a classifier.
    skcalib.fusion.FusionCalibrator : Several scores per row, some of them missing.
    skcalib.judge.calibrated_mean : Rate of an event in many scored rows, from few labels.

    Notes
    -----
    Do not normalise the log-probabilities of the returned options to a sum of one. Missing options
    would then have almost no probability. Leave out or fill in rows without a score, or use the
    score as a feature of :class:`~skcalib.conditional.ConditionalCalibrator`, which allows missing
    features.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from skcalib import PlattScaling
    >>> from skcalib.judge import ScoreTransformer
    >>> stated = np.array([[100], [95], [80], [100], [60], [90]])
    >>> ScoreTransformer((0, 100)).transform(stated).ravel().round(1)
    array([5.3, 2.9, 1.4, 5.3, 0.4, 2.2])
    >>> calibrator = make_pipeline(ScoreTransformer((0, 100)), PlattScaling())
    >>> calibrator.fit(stated, [1, 1, 0, 1, 1, 0]).predict_proba(stated).shape
    (6, 2)

    Options A, B and C of two questions. C was not returned for the first question:

    >>> options = np.log([[0.7, 0.2, np.nan], [0.3, 0.3, 0.4]])
    >>> np.exp(ScoreTransformer("log-probability").transform(options)).round(2)
    array([[0.7, 0.2, 0.1],
           [0.3, 0.3, 0.4]])

    Probabilities of a model without logits:

    >>> ScoreTransformer("probability").transform([[0.0], [0.2], [0.5], [1.0]]).ravel().round(1)
    array([-36. ,  -1.4,   0. ,  36. ])

    One probability from each of three models, the second without an answer:

    >>> models = ScoreTransformer((0, 1), step=1e-6, missing="keep")
    >>> models.transform([[0.9, np.nan, 0.8]]).round(2)
    array([[2.2 ,  nan, 1.39]])
    """

    def __init__(
        self, scale: Any, *, step: float = 1.0, missing: Literal["fill", "keep"] = "fill"
    ) -> None:
        self.scale = scale
        self.step = step
        self.missing = missing

    def fit(self, X: ArrayLike, y: Any = None) -> Self:  # noqa: ARG002
        """Check the scores; nothing is fitted.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_columns)
            Scores, or probabilities of options, with NaN for options not returned.
        y : object, default=None
            Ignored.

        Returns
        -------
        self : object
            The transformer.

        Raises
        ------
        ValueError
            If a parameter is invalid, if scores are outside the scale, or if they are NaN without
            ``missing="keep"``. Also if more than two different scores lie within one step, or
            probabilities are outside [0, 1]. Also if several probabilities, or the
            returned log-probabilities of a row with NaN, sum to more than 1.
        """
        scores, ends = self._checked(X, least_rows=1)
        distinct = np.unique(scores[~np.isnan(scores)])
        if ends and len(distinct) > 2 and distinct[-1] - distinct[0] <= self.step:
            raise ValueError(
                f"step must be the distance between neighbouring scores, got step={self.step:g} "
                f"and {len(distinct)} scores from {distinct[0]:g} to {distinct[-1]:g}. Pass "
                "scale=(0, 1), step=0.01 for confidences between 0 and 1."
            )
        validate_data(self, X, skip_check_array=True)
        return self

    def transform(self, X: ArrayLike) -> Floats:
        """Return log-odds of scores, or logits of options.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_columns)
            As in :meth:`fit`.

        Returns
        -------
        ndarray of the shape of ``X``
            Finite, except for options with log-probability -inf. float32 for float32 scores, else
            float64.
        """
        scores, ends = self._checked(X)
        if hasattr(self, "n_features_in_"):  # without a fit there are no names to compare
            validate_data(self, X, reset=False, skip_check_array=True)
        if ends:
            (low, high), half = ends, self.step / 2
            scores = np.clip(scores, low, high)
            return np.log((scores - low + half) / (high - scores + half))
        if self.scale == "probability":
            scores = np.clip(scores, np.finfo(scores.dtype).eps, 1)
            if scores.shape[1] == 1:
                return logit(np.minimum(scores, 1 - np.finfo(scores.dtype).eps))
            scores = np.log(scores)
        if scores.shape[1] > 1:
            filled = _with_missing(scores)
            if self.missing == "keep":
                filled[np.isnan(scores).all(axis=1)] = np.nan
            return filled
        scores = np.minimum(scores, -MIN_REMAINDER)
        return scores - np.log(-np.expm1(scores))

    def _checked(self, X: Any, least_rows: int = 0) -> tuple[Floats, tuple[float, float] | None]:
        """Return scores (n, n_columns) on the scale, and its ends, or None for probabilities."""
        ends = _ends(self.scale, self.step)
        check_option("missing", self.missing, ["fill", "keep"])
        check_in_memory([X])
        values, name = as_numpy(as_array(X, flat=True), "X"), type(self).__name__
        scores = as_floats(values, "X", estimator=name, least_rows=least_rows)
        options = ends is None and scores.shape[1] > 1
        nan_ok = options or self.missing == "keep"
        low, high = ends or (0.0, 1.0)
        wanted = f"scores from {low:g} to {high:g}"
        remedy = "pass the scale of the scores, such as scale=(0, 100) or 'log-probability'"
        if self.scale == "log-probability":
            low, high = -np.inf if options else float(np.finfo(scores.dtype).min), 0.0
            wanted = "log-probabilities of at most 0"
            remedy = "pass scale='probability' for probabilities"
        slack = ROUNDING * (high - low) if ends else ROUNDING
        off = ~((scores >= low - slack) & (scores <= high + slack) | (np.isnan(scores) & nan_ok))
        if off.any():
            missing = "none of them NaN or infinite"
            if options:
                missing = "NaN for options that were not returned"
            raise ValueError(
                f"X must hold {wanted}, {missing}, got {off.sum()} of {off.size} that are others, "
                f"the first {scores[off][0]:.9g}. Leave out rows without a score, or pass "
                f"missing='keep' for FusionCalibrator, and {remedy}."
            )
        if options:
            _check_options(scores, self.scale, self.missing)
        return scores, ends

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.allow_nan = isinstance(self.scale, str) or self.missing == "keep"
        return tags


def _ends(scale: Any, step: Any) -> tuple[float, float] | None:
    """Return the ends of the scale, or None for probabilities and log-probabilities."""
    if isinstance(scale, str) and scale in ("probability", "log-probability"):
        return None
    pair = isinstance(scale, tuple | list) and len(scale) == 2
    if pair and all(isinstance(x, Real) and abs(float(x)) < LARGEST for x in (*scale, step)):
        low, high = float(scale[0]), float(scale[1])
        if 0 < float(step) <= high - low:
            return low, high
    raise ValueError(
        "scale must be 'probability', 'log-probability' or the ends of a scale, (low, high), and "
        f"step above 0 and at most high - low, got scale={scale!r} and step={step!r}. Pass (0, "
        "100) for percentages or (0, 1) and step=0.01 for fractions."
    )


def _check_options(options: Floats, scale: str, missing: str) -> None:
    """Raise a ValueError if rows (n, K) cannot be options of one question, or gaps are unclear."""
    is_log = scale == "log-probability"
    nan = np.isnan(options)
    sums = np.nansum(np.exp(options) if is_log else options, axis=1, dtype=np.float64)
    excess = sums > 1 + max(SUM_ROUNDING, COLUMN_ROUNDING * options.shape[1])
    if is_log:  # without gaps any log-probabilities are logits, such as means over tokens
        excess &= nan.any(axis=1)
    remedy = (
        "For one probability from each of several models pass scale=(0, 1), step=1e-6, "
        f"missing='keep'{' and the probabilities np.exp(X)' if is_log else ''}. "
    )
    if excess.any():
        raise ValueError(
            "Several columns of X must be the options of one question or the classes of one model, "
            f"with probabilities that sum to at most 1 in each row, got {excess.sum()} of "
            f"{len(sums)} rows with more, the first {sums[excess][0]:.3g}. {remedy}"
            "For several models with a column per class transform each model alone"
            f"{'' if is_log else ', and divide stated probabilities of options by their sum'}."
        )
    partial = nan.any(axis=1) & ~nan.all(axis=1)
    if missing == "keep" and not is_log and partial.any():
        raise ValueError(
            "With missing='keep', each row of X must have all probabilities or none, got "
            f"{partial.sum()} of {len(sums)} rows with some of them. {remedy}"
            "For options that were not returned pass missing='fill'."
        )


def _with_missing(options: Floats) -> Floats:
    """Replace NaN in log-probabilities (n, K) by shares of the remaining probability."""
    missing = np.isnan(options)
    remainder = 1 - np.exp(np.where(missing, -np.inf, options)).sum(axis=1, dtype=np.float64)
    share = np.log(np.maximum(remainder, MIN_REMAINDER) / np.maximum(missing.sum(axis=1), 1))
    smallest = np.where(np.isfinite(options), options, np.inf).min(axis=1)
    filled = np.where(missing, np.minimum(share, smallest)[:, None], options)
    return filled.astype(options.dtype)
