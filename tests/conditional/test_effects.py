"""Formulas of calibration given features: levels of columns, and their effects on the scores."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax

from skcalib.conditional._columns import fitted_columns
from skcalib.conditional._effects import effect_scores, fit_effects


def test_effects_minimise_their_objective():
    """The objective of the module's docstring, for three classes, a masked one, and weights."""
    rng = np.random.default_rng(0)
    n, K, n_levels, strength = 300, 3, 5, 7.0
    L = log_softmax(2 * rng.normal(size=(n, K)), axis=1)
    L[0] = np.log(0.3), np.log(0.7), -np.inf
    y, w = rng.integers(2, size=n), rng.exponential(size=n)
    levels = rng.integers([2, n_levels + 1], size=(n, 2))

    def objective(x):
        effects = np.vstack([x.reshape(n_levels, 1 + K), np.zeros(1 + K)])
        log_p = log_softmax(effect_scores(effects, L, levels), axis=1)
        return strength / 2 * x @ x - w @ log_p[np.arange(n), y]

    found = fit_effects(L, y, w, levels, n_levels, strength)
    x = found[:-1].ravel()
    best = minimize(objective, x, method="BFGS", options={"gtol": 1e-8})
    np.testing.assert_allclose(x, best.x, atol=2e-2)
    assert objective(x) <= best.fun + 1e-3
    assert not found[-1].any()
    # Scores by hand, for a row in the levels 1 and 3.
    slope = 1 + found[1, 0] + found[3, 0]
    want = slope * (L[5] - L[5].mean()) + found[1, 1:] + found[3, 1:]
    np.testing.assert_allclose(effect_scores(found, L[5:6], np.array([[1, 3]]))[0], want)


def test_levels_are_frequent_categories_and_intervals_of_equal_size():
    """Categories in five rows or more; intervals of equal size; missing numbers; all others."""
    words = np.array(["b"] * 6 + ["a"] * 5 + ["rare"] * 4 + [None] * 5, object)
    numbers = np.array([*range(15), *[np.nan] * 5])
    columns, F = fitted_columns(pd.DataFrame({"w": words, "x": numbers}), 20, None, "from_dtype")
    assert columns.levels[0].tolist() == ["a", "b"]
    assert F[:, 0].tolist() == [1] * 6 + [0] * 5 + [-1] * 9
    deciles = np.quantile(range(15), np.arange(1, 10) / 10, method="lower")
    np.testing.assert_array_equal(columns.levels[1], deciles)
    levels = columns.level_rows(F)
    assert columns.first.tolist() == [0, 2, 13]
    assert levels[:, 0].tolist() == [1] * 6 + [0] * 5 + [13] * 9  # the last row is of no level
    assert levels[0, 1] == 2
    assert levels[14, 1] == 11
    assert (levels[15:, 1] == 12).all()
    new = columns.numbers([["a", 1e9], ["z", None]], 2)
    assert columns.level_rows(new).tolist() == [[0, 11], [13, 12]]
    weights = np.where(words == "rare", 2, 0.5)  # 3 of "b", 2.5 of "a", 8 of "rare"
    assert fitted_columns(words, 20, weights, "from_dtype")[0].levels[0].tolist() == ["rare"]
    with_missing = np.array([1, None, 2.5] * 5, object)
    assert not fitted_columns(with_missing, 15, None, "from_dtype")[0].is_categorical.any()


@pytest.mark.parametrize(
    "library", ["pandas", "pandas, missing", "pandas series", "polars", "pyarrow"]
)
def test_columns_of_a_categorical_type_hold_categories(library):
    """Integer categories are categories; columns of integers are numbers."""
    numbers = np.arange(60) % 3
    column = pd.Series(numbers).where(numbers > 0 if "missing" in library else numbers >= 0)
    column = column.astype("category")
    frame = pd.DataFrame({"a": column, "n": numbers})
    if library == "polars":
        pl = pytest.importorskip("polars")
        text = pl.Series(numbers.astype(str))
        frame = pl.DataFrame({"a": text.cast(pl.Categorical), "n": numbers})
    if library == "pyarrow":
        frame = pytest.importorskip("pyarrow").Table.from_pandas(frame)
    columns, F = fitted_columns(column if "series" in library else frame, 60, None, "from_dtype")
    assert columns.is_categorical.tolist() == ([True] if "series" in library else [True, False])
    n_levels = 2 if "missing" in library else 3
    assert len(columns.levels[0]) == n_levels
    assert set(F[:, 0]) == {*range(n_levels)} | ({-1} if "missing" in library else set())
