r"""Label shift: class priors from unlabelled rows, and a test of whether only these have changed.

Under label shift the logits of each class are distributed as in the calibration rows, and only the
priors :math:`\pi` of the classes differ. Whatever is computed from logits alone is then
distributed as a mixture of what it is in each class, with the weights :math:`\pi`: so are the
probabilities, by which the likelihood of :math:`\pi` is known, and so are cells, into which rows
are sorted by their predicted class and its confidence.

The predicted class is that of the largest ratio of probability to calibration prior, which is the
prediction for equal priors: rare classes are predicted as well.
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize
from scipy.special import chdtrc

from skcalib._optimize.mixture import MixtureLoss, least_squares_weights
from skcalib._optimize.newton import parts_of
from skcalib._rows import Bools, Floats, Indices, Plan, Ranked, Rows, arrays as xa
from skcalib._scores.bins import equal_mass_bins
from skcalib._scores.columns import top_and_rest

# Bins of confidence: so many over all predicted classes, and no fewer than the second for each.
CELLS, LEAST_BINS = 40, 2

# The table of cells and labels is that of every k-th row if there are twice as many rows or more.
TABLE_ROWS = 1 << 20

# Margins are no larger, also where all other classes are masked.
LARGEST = 1e300

# Cells with a smaller expected weight are pooled for the test.
LEAST_EXPECTED = 5.0

# Up to so many probability ratios are stored; of more, each pass makes them anew.
STORED = 1 << 24

# Largest gradient, by logarithms of priors, at which the search for the most likely ones ends; and
# at which it has converged if it ends for another reason, by rounding or after as many iterations.
GAP, LARGEST_CHANGE, MAX_ITERATIONS = 1e-10, 1e-6, 1000

# At least so many unlabelled rows are added to those of each class where their sampling is
# estimated, since few rows of a class are in few cells; and how often they are divided among these.
ROWS_ADDED, DIVISIONS = 20.0, 100

# Classes with fewer calibration rows are not tested if more of the unlabelled rows are of them.
LEAST_ROWS = 30.0

# Rows in all predicted classes that are added to those of each class where the sampling of a
# confusion matrix is estimated, as Agresti and Coull do.
ROWS_OF_CONFUSION = 4.0

# Differences of classes that are smaller, relative to the largest, are none.
RCOND = 1e-6

# The smallest normal number.
TINY = np.finfo(np.float64).tiny

# A confusion matrix with a larger condition number is singular.
SINGULAR = 1e3


class Table(NamedTuple):
    """Weight of calibration rows by cell and label, where there is any.

    The cell of a row is its predicted class times the number of bins, plus the bin of its margin.
    """

    edges: Floats  #: (K, n_bins - 1), of the margins of rows with each predicted class
    codes: Indices  #: (m,), cell times K, plus label
    weights: Floats  #: (m,)

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return len(self.edges) * (self.edges.shape[1] + 1)

    def dense(self) -> Floats:
        """Weight of each cell and label: (n_cells, K)."""
        K = len(self.edges)
        counts = np.bincount(self.codes, self.weights, self.n_cells * K)
        return counts.reshape(-1, K).astype(np.float64)


def prediction_offsets(calibration_priors: Floats, labels: Floats) -> Floats:
    """What is taken off the logits for predictions; classes without labels are not predicted."""
    offsets: Floats = np.where(labels > 0, np.log(calibration_priors), LARGEST)
    return offsets


def table_of(rows: Rows, offsets: Floats) -> Table:
    """The table of labelled rows, whose bins of a predicted class have equal weight."""
    predicted = rows.with_logits(rows.map(partial(_predictions, offsets), Plan(room=4)))
    tabulated = partial(_tabulated, len(offsets))
    found: Table = predicted.sample(tabulated, TABLE_ROWS, or_all=True)
    return found


def _predictions(offsets: Floats, Z: Floats, *_: Any) -> Floats:
    """Predicted class of each row for equal priors, and its margin: (m, 2)."""
    top, margin = top_and_rest(xa.double(xa.both_columns(Z)) - offsets)[:2]
    return np.stack([top.astype(np.float64), np.minimum(margin, LARGEST)], axis=1)


def _tabulated(n_classes: int, rows: Rows) -> Table:
    top, margin, w = rows.X[:, 0].astype(np.intp), rows.X[:, 1], rows.w
    n_bins = max(LEAST_BINS, CELLS // n_classes)
    edges: Floats = np.full((n_classes, n_bins - 1), LARGEST)
    order = np.argsort(top, kind="stable")
    ends = np.searchsorted(top[order], np.arange(n_classes + 1))
    for k in np.flatnonzero(np.diff(ends)):
        some = order[ends[k] : ends[k + 1]]
        scores, place = np.unique(margin[some], return_inverse=True)
        mass = np.bincount(place, None if w is None else w[some]).astype(np.float64)
        ordered = Ranked(scores, mass, np.zeros_like(mass))
        inner = equal_mass_bins(ordered, np.array([n_bins])).high[:-1]
        edges[k, : len(inner)] = inner
    codes = _cells(edges, rows.X) * n_classes + rows.y
    found, place = np.unique(codes, return_inverse=True)
    return Table(edges, found, np.bincount(place, w).astype(np.float64))


def _cells(edges: Floats, predictions: Floats) -> Indices:
    """The cell of each row."""
    top, margin = predictions[:, 0].astype(np.intp), predictions[:, 1]
    bins: Indices = (margin[:, None] > edges[top]).sum(axis=1)
    return top * (edges.shape[1] + 1) + bins


def cell_weights(rows: Rows, table: Table, offsets: Floats) -> Floats:
    """Weight of the rows in each cell: (n_cells,)."""
    edges, n_cells = table.edges, table.n_cells

    def weights(Z: Floats, _: Any, w: Floats | None) -> Floats:
        return np.bincount(_cells(edges, _predictions(offsets, Z)), w, n_cells).astype(np.float64)

    return rows.sum(weights, Plan(room=4))


class Estimate(NamedTuple):
    """Priors of classes, and how well they are known."""

    priors: Floats  #: (K,)
    standard_errors: Floats  #: (K,)
    log_likelihood_ratio: float  #: of the rows, against the priors of the calibration rows
    n_passes: int
    converged: bool


def most_likely_priors(rows: Rows, calibration_priors: Floats, labels: Floats) -> Estimate:
    """Maximum likelihood with one pseudo-row, which is divided like the calibration priors.

    ``labels`` (K,) are the weights of calibration rows. Priors of classes without any are zero.
    """
    present, calibration_weight = labels > 0, float(labels.sum())
    start = calibration_priors[present] / calibration_priors[present].sum()
    ratios = partial(_ratios, np.log(calibration_priors[present]), present)
    loss = MixtureLoss(rows, start, ratios)
    if rows.n_rows * len(start) <= STORED:
        loss = MixtureLoss(rows.with_logits(rows.map(ratios, Plan(room=4))), start)
    # In logarithms, since with the pseudo-row no prior is zero: that takes a tenth of the passes
    # of a search within bounds where many priors are small.

    def in_logarithms(u: Floats) -> tuple[float, Floats, Floats]:
        """Of the Hessian without the diagonal of the gradient, which vanishes at the minimum."""
        x = np.exp(u)
        value, gradient, hessian = loss.second_order(x)
        return value, x * gradient, x[:, None] * hessian * x

    fun, jac, hess = parts_of(in_logarithms, 3, start.shape)
    found = minimize(
        fun, np.log(start), jac=jac, hess=hess, method="trust-ncg",
        options={"gtol": GAP, "maxiter": MAX_ITERATIONS, "max_trust_radius": 100.0},
    )  # fmt: skip
    x = np.exp(found.x) / np.exp(found.x).sum()
    gain = (loss.second_order(start)[0] - found.fun) * loss.weight
    variances = _variances(x, loss.second_order(x)[2], start, loss.weight, calibration_weight)
    # The gradient is what an iteration of EM would change the priors by.
    converged = bool(np.abs(found.jac).max() <= LARGEST_CHANGE)
    priors, errors = _spread(present, x), _spread(present, np.sqrt(variances))
    return Estimate(priors, errors, float(gain), found.nfev, converged)


def _ratios(log_priors: Floats, present: Bools, Z: Floats, *_: Any) -> Floats:
    """Ratios of probabilities to calibration priors of some classes, the largest of a row being 1.

    A row in which all of these are masked tells nothing of their priors.
    """
    L = xa.log_softmax(xa.double(Z))[:, present] - log_priors
    top = L.max(axis=1, keepdims=True)
    return np.exp(np.where(top > -np.inf, L - np.where(top > -np.inf, top, 0), 0))


def _variances(
    x: Floats, hessian: Floats, before: Floats, weight: float, calibration_weight: float
) -> Floats:
    r"""Those of priors :math:`\pi'`, by the observed information :math:`H`.

    Relative errors :math:`\varepsilon` of the calibration priors, which are as uncertain as the
    frequencies of labels, add :math:`(\mathrm{diag}(\pi') - H^{-1})\, \varepsilon` to them.
    """
    inverse = np.linalg.pinv(hessian, hermitian=True)
    along = inverse.sum(axis=0)
    of_rows = np.diag(inverse) - along**2 / along.sum()
    of_priors = (np.diag(x) - inverse) ** 2 @ (1 / before)
    return np.maximum(of_rows / weight + of_priors / calibration_weight, 0)


def _spread(present: Bools, values: Floats) -> Floats:
    """Values of the classes that are present, and zero for others."""
    out = np.zeros(len(present))
    out[present] = values
    return out


def priors_by_confusion(of_cells: Floats, table: Table, calibration_priors: Floats) -> Estimate:
    """Black box shift estimation: priors that lead to the shares of the predicted classes.

    A ValueError if the confusion matrix of predicted classes and labels is singular.
    """
    K = len(calibration_priors)
    counts, N = table.dense().reshape(K, -1, K).sum(axis=1), float(of_cells.sum())
    present = counts.sum(axis=0) > 0
    counts = counts[np.ix_(present, present)]
    labels = counts.sum(axis=0)
    shares = of_cells.reshape(K, -1).sum(axis=1)[present] / N
    confusion = counts / labels
    condition = float(np.linalg.cond(confusion))
    if condition > SINGULAR:
        raise ValueError(
            "The confusion matrix of the calibration rows must be invertible for method='bbse', "
            f"got a condition number of {condition:.3g}, above {SINGULAR:g}: some classes have "
            "predictions like those of others. Use method='em', or calibrate with more rows."
        )
    inverse = np.linalg.pinv(confusion)
    priors = inverse @ shares
    if priors.min() < 0:
        priors = least_squares_weights(confusion, shares)
    start = calibration_priors[present] / calibration_priors[present].sum()
    priors = (N * priors + start) / (N + 1)
    # With the pseudo-row as well: a single row is not known to be of the only class that occurs.
    shares = (N * shares + confusion @ start) / (N + 1)
    rows = ROWS_OF_CONFUSION
    smoothed = (counts + rows / len(counts)) / (labels + rows)
    of_shares = _covariance(smoothed, priors, labels, N + 1, shares)
    errors = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", inverse, of_shares, inverse), 0))
    return Estimate(_spread(present, priors), _spread(present, errors), 0.0, 1, converged=True)


def _covariance(
    of_classes: Floats, priors: Floats, labels: Floats, weight: float, shares: Floats
) -> Floats:
    """Covariance (B, B) of the shares of cells, less those that the priors lead to.

    Both the rows of weight ``weight`` and the calibration rows, ``labels`` (K,) of each class, are
    drawn; ``of_classes`` (B, K) are the shares of cells in each class.
    """
    factors = priors**2 / labels
    drawn = np.diag(shares) - np.outer(shares, shares)
    of_labels = np.diag(of_classes @ factors) - (of_classes * factors) @ of_classes.T
    return drawn / weight + of_labels


class ShiftTest(NamedTuple):
    """Whether cells are a mixture of those of the classes."""

    pvalue: float  #: NaN if there are too few rows for a test
    distance: float  #: share of the rows that are in other cells than in the closest mixture


def label_shift_test(of_cells: Floats, table: Table, priors: Floats) -> ShiftTest:
    """Chi-square of the shares of cells, at the least over all priors.

    The degrees of freedom are the number of cells less that of the classes.
    """
    counts = table.dense()
    labels = counts.sum(axis=0)
    some = labels > 0
    counts, labels, x = counts[:, some], labels[some], priors[some]
    N = float(of_cells.sum())
    expected = np.minimum(N * (counts / labels) @ x, counts.sum(axis=1))
    counts, of_cells = _pooled(expected, counts), _pooled(expected, of_cells)
    few = (labels < LEAST_ROWS) & (N * x > labels)
    if len(of_cells) <= len(x) or few.any():
        return ShiftTest(np.nan, 0.0)
    of_classes, x = _under_label_shift(of_cells, counts, x)
    x, least, freedom = _closest(of_cells, counts, labels, of_classes, x)
    distance = float(np.abs(of_cells / N - counts / labels @ x).sum()) / 2
    return ShiftTest(float(chdtrc(freedom, least)), distance)


def _under_label_shift(of_cells: Floats, counts: Floats, x: Floats) -> tuple[Floats, Floats]:
    """Shares of cells in each class, (n_cells, K), and priors, if only these have changed.

    They are what EM finds for both sets of rows, with as many of the unlabelled ones as these are
    more than the calibration rows of a class. Shares of the calibration rows alone would say that
    cells without any of these are certain to be empty.
    """
    labels, overall = counts.sum(axis=0), (counts.sum(axis=1) + of_cells)[:, None]
    shares, x = counts + overall / overall.sum(), np.maximum(x, RCOND)
    for _ in range(DIVISIONS):
        divided = shares / shares.sum(axis=0) * x
        divided *= of_cells[:, None] / np.maximum(divided.sum(axis=1, keepdims=True), TINY)
        rows = np.maximum(divided.sum(axis=0), TINY)
        added = np.maximum(rows - labels, np.minimum(rows, ROWS_ADDED))
        shares, x = counts + divided * (added / rows), rows / rows.sum()
    return shares / shares.sum(axis=0), x


def _closest(
    of_cells: Floats, counts: Floats, labels: Floats, smoothed: Floats, x: Floats
) -> tuple[Floats, float, int]:
    """Priors of the mixture closest to the shares of cells, its chi-square, and the freedom left.

    The covariance is that for the shares of cells ``smoothed`` and the priors ``x``.
    """
    N, of_classes = float(of_cells.sum()), counts / labels
    expected = smoothed @ x
    # Of cells that no class is in, half a row is expected: the covariance has a root.
    drawn = np.maximum(expected, 0.5 / N)
    covariance = _covariance(smoothed, x, labels, N, drawn / drawn.sum())
    root = cholesky(covariance[:-1, :-1], lower=True)  # shares sum to one
    G = solve_triangular(root, of_classes[:-1], lower=True)
    b = solve_triangular(root, (of_cells / N)[:-1], lower=True)
    A, residual = G[:, 1:] - G[:, :1], b - G @ x
    step, _, rank, _ = np.linalg.lstsq(A, residual, rcond=RCOND)
    least = float(np.sum((residual - A @ step) ** 2))
    # Classes with all but the same cells may have priors far outside of [0, 1] at this least, which
    # say nothing of the covariance. Those of the least in the simplex are as certain as need be.
    root = np.sqrt(RCOND * np.mean(G**2) * len(G))
    G, b = np.vstack([G, root * np.eye(len(x))]), np.append(b, root * x)
    return least_squares_weights(G, b), least, len(residual) - int(rank)


def _pooled(expected: Floats, values: Floats) -> Floats:
    """Values of cells, with those of which too few rows are expected as one."""
    small = expected < LEAST_EXPECTED
    if small.any() and expected[small].sum() < LEAST_EXPECTED:
        small[np.where(small, np.inf, expected).argmin()] = True
    if not small.any():
        return values
    return np.concatenate([values[~small], values[small].sum(axis=0, keepdims=True)])
