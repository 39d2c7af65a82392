"""Example logits: simulated with known probabilities, and from a trained network."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike
from scipy.special import softmax
from sklearn.utils import Bunch, check_random_state

from skcalib._rows import map_blocks
from skcalib._typing import Array, ArrayLike, Floats

from ._input.parameters import check_integer, check_real

__all__ = ["load_digits_logits", "make_logits"]


def make_logits(
    n_samples: int = 1000,
    n_classes: int = 10,
    *,
    temperature: float = 2.0,
    offset: ArrayLike = 0.0,
    spread: float = 2.0,
    dtype: DTypeLike = np.float64,
    return_proba: bool = False,
    random_state: int | np.random.RandomState | None = None,
) -> tuple[Array, ...]:
    r"""Simulate logits that are miscalibrated in a known way, and labels.

    True logits :math:`z_{ik} \sim \mathcal N(0, \text{spread}^2)` are drawn, then labels from
    their softmax, so that the probabilities :math:`\mathrm{softmax}(z_i)` are calibrated. The
    function returns the logits

    .. math:: T z_{ik} + c_k .

    Vector scaling calibrates them. Temperature scaling calibrates them if there is no offset.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of rows.
    n_classes : int, default=10
        Number of columns, at least 2.
    temperature : float, default=2.0
        Temperature T that restores the true logits; above 1 the logits are over-confident.
    offset : float or array-like of shape (n_classes,), default=0.0
        Offsets c that are added to the columns.
    spread : float, default=2.0
        Standard deviation of the true logits. A larger spread makes the classifier more accurate.
    dtype : dtype, default=float64
        Type of the logits: float64 or float32.
    return_proba : bool, default=False
        Whether to return the true probabilities as well.
    random_state : int, RandomState instance or None, default=None
        Seed or generator. Pass an int for reproducible data.

    Returns
    -------
    logits : ndarray of shape (n_samples, n_classes)
        Miscalibrated logits.
    y : ndarray of shape (n_samples,)
        Labels from 0 to ``n_classes - 1``.
    proba : ndarray of shape (n_samples, n_classes)
        True probabilities, only with ``return_proba=True``.

    Raises
    ------
    ValueError
        If ``n_samples`` is negative, ``n_classes`` is below 2, or ``temperature`` or ``spread`` is
        not a positive number.

    Examples
    --------
    >>> from skcalib.datasets import make_logits
    >>> logits, y = make_logits(500, 3, temperature=1.5, random_state=0)
    >>> logits.shape, y.shape
    ((500, 3), (500,))
    """
    check_integer("n_samples", n_samples, low=0)
    check_integer("n_classes", n_classes, low=2)
    check_real("temperature", temperature)
    check_real("spread", spread)
    random = check_random_state(random_state)
    true_logits = random.normal(scale=spread, size=(n_samples, n_classes))
    proba = map_blocks(lambda Z: softmax(Z, axis=1), true_logits)
    # Draw labels by inverting the cumulative distribution of each row.
    u = random.uniform(size=n_samples)
    y = map_blocks(lambda P, u: (P.cumsum(axis=1)[:, :-1] <= u[:, None]).sum(axis=1), proba, u)
    logits = (temperature * true_logits + np.asarray(offset)).astype(dtype)
    return (logits, y, proba) if return_proba else (logits, y)


def load_digits_logits() -> Bunch:
    """Train an over-confident neural network on scikit-learn's digits, and return its logits.

    The network is an :class:`~sklearn.neural_network.MLPClassifier`. It learns 100 of the 1797
    images until it classifies them perfectly. Its accuracy on held-out images is 87 %, and its mean
    confidence much higher, as for large modern networks. All seeds are fixed: each call returns the
    same arrays, within a second.

    Returns
    -------
    Bunch
        With the members

        - ``logits_calibration`` : ndarray of shape (848, 10), to fit a calibrator to;
        - ``y_calibration`` : ndarray of shape (848,);
        - ``logits_test`` : ndarray of shape (849, 10), to evaluate the calibrator;
        - ``y_test`` : ndarray of shape (849,);
        - ``classifier`` : the fitted network;
        - ``X_calibration``, ``X_test`` : the images for these logits, 64 columns.

    Examples
    --------
    >>> from skcalib.datasets import load_digits_logits
    >>> digits = load_digits_logits()
    >>> digits.logits_calibration.shape, digits.logits_test.shape
    ((848, 10), (849, 10))
    """
    # Import here: no other part of skcalib needs these modules, and they take time to load.
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
    from sklearn.neural_network import MLPClassifier

    X, y = load_digits(return_X_y=True)
    X_train, X_rest, y_train, y_rest = train_test_split(
        X / 16, y, train_size=100, stratify=y, random_state=0
    )
    X_calibration, X_test, y_calibration, y_test = train_test_split(
        X_rest, y_rest, test_size=0.5, stratify=y_rest, random_state=0
    )
    classifier = MLPClassifier(
        (128, 128), alpha=0.0, learning_rate_init=0.01, max_iter=1000, random_state=0
    ).fit(X_train, y_train)

    def logits(X: Floats) -> Floats:
        return np.log(np.maximum(classifier.predict_proba(X), np.finfo(float).tiny))

    return Bunch(
        logits_calibration=logits(X_calibration),
        y_calibration=y_calibration,
        logits_test=logits(X_test),
        y_test=y_test,
        classifier=classifier,
        X_calibration=X_calibration,
        X_test=X_test,
    )
