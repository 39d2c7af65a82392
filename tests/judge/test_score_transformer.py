"""Scores as logits: the formulas, options that were not returned, and refused input."""

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, strategies as st
from scipy.special import expit, logit
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags

from skcalib import PlattScaling, TemperatureScaling
from skcalib.fusion import FusionCalibrator
from skcalib.judge import ScoreTransformer, calibrated_mean

SCALES = [((0, 100), 1), ((1, 5), 1), ((0, 1), 0.01), ([-3.0, 3.0], 0.5), ((0, 1), 1)]
OPTIONS = ScoreTransformer("log-probability")


@pytest.mark.parametrize(("scale", "step"), SCALES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, int])
def test_a_step_has_the_same_odds_from_either_end(scale, step, dtype):
    low, high = scale
    n = round((high - low) / step) + 1
    scores = np.linspace(low, high, n).astype(dtype if step == 1 else float)[:, None]
    transformer = ScoreTransformer(scale, step=step)
    found = transformer.fit_transform(scores)
    # The middles of n intervals of the same length.
    np.testing.assert_allclose(expit(found)[:, 0], (np.arange(n) + 0.5) / n, rtol=1e-5)
    np.testing.assert_allclose(found, -found[::-1], atol=1e-5)
    assert found.dtype == (np.float32 if scores.dtype == np.float32 else np.float64)
    twice = np.hstack([scores, scores[::-1]])
    np.testing.assert_array_equal(transformer.transform(twice[:, :1]), found)
    np.testing.assert_array_equal(clone(transformer).fit_transform(twice)[:, 1:], found[::-1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_log_odds_of_a_log_probability(dtype):
    p = np.array([1e-30, 0.2, 0.5, 0.99, 1], dtype)[:, None]
    found = clone(OPTIONS).fit_transform(np.log(p))
    np.testing.assert_allclose(found[:-1], logit(p[:-1]), rtol=1e-5)
    assert found.dtype == dtype
    # A probability of one, up to rounding, is 1 - 2^-24, the resolution of float32.
    assert found[-1, 0] == pytest.approx(24 * np.log(2)) == OPTIONS.transform([[1e-8]])[0, 0]
    assert OPTIONS.transform([[-2e-7]])[0, 0] < found[-1, 0]
    assert OPTIONS.transform(np.array([[-1e-6]], dtype))[0, 0] == pytest.approx(13.81551, abs=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logits_of_probabilities(dtype):
    proba, eps = ScoreTransformer("probability"), np.finfo(dtype).eps
    p = np.array([0, 1e-12, 0.2, 0.5, 0.99, 1], dtype)[:, None]
    found = proba.fit_transform(p)
    np.testing.assert_allclose(found, logit(np.clip(p, eps, 1 - eps)), rtol=1e-6)
    np.testing.assert_allclose(proba.transform(1 - p)[[0, 2, 3, 5]], -found[[0, 2, 3, 5]], 1e-4)
    assert found.dtype == dtype
    # Several columns are classes; a probability of 0 does not make a class impossible.
    P = np.array([[0.7, 0.2, np.nan], [0, 0.3, 0.7], [1, 0, 0]], dtype)
    logits = clone(proba).fit_transform(P)
    np.testing.assert_allclose(np.exp(logits[0]), [0.7, 0.2, 0.1], rtol=1e-6)
    np.testing.assert_allclose(np.exp(logits[1:]), np.maximum(P[1:], eps), rtol=1e-6)
    assert logits.dtype == dtype
    kept = ScoreTransformer("probability", missing="keep").transform([[np.nan], [0.5]])
    np.testing.assert_array_equal(kept, [[np.nan], [0]])


def test_probabilities_in_a_pipeline_are_logits():
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(3), 200)
    y = np.arange(200) % 3
    pipe = make_pipeline(ScoreTransformer("probability"), TemperatureScaling()).fit(P, y)
    expected = TemperatureScaling().fit(np.log(P), y).predict_proba(np.log(P))
    np.testing.assert_allclose(pipe.predict_proba(P), expected, rtol=1e-6)


@given(seed=st.integers(0, 10**6), n_returned=st.integers(0, 6), known=st.floats(0.01, 1))
def test_missing_options_share_the_remaining_probability(seed, n_returned, known):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(6), 5)
    # Some of the probability goes to other tokens, and one option may be impossible.
    P = np.log(known * P)
    P[:, 0] = -np.inf if seed % 2 else P[:, 0]
    largest = np.argsort(np.argsort(-P, axis=1), axis=1) < n_returned
    returned = np.where(largest | (P == -np.inf), P, np.nan)
    found = clone(OPTIONS).fit_transform(returned)
    np.testing.assert_array_equal(found[~np.isnan(returned)], returned[~np.isnan(returned)])
    for full, row, is_missing in zip(P, found, np.isnan(returned), strict=True):
        m = is_missing.sum()
        if m:
            fill = np.unique(row[is_missing])
            least = full[~is_missing & np.isfinite(full)].min(initial=0)
            left = 1 - np.exp(full[~is_missing]).sum()
            # Both bound the missing log-probability; the smaller bound is used.
            assert len(fill) == 1
            assert fill[0] == pytest.approx(min(np.log(left / m), least), abs=1e-9)
            assert m * np.exp(fill[0]) >= np.exp(full[is_missing]).sum() - 1e-9 or fill[0] == least
    again = OPTIONS.transform(returned.astype(np.float32))
    assert again.dtype == np.float32
    assume(known < 0.999)
    np.testing.assert_allclose(again, found, rtol=1e-3)


def test_missing_options_get_the_float32_remainder():
    options = np.log([[0.75, 0.25, np.nan, np.nan], [np.nan] * 4])
    found = OPTIONS.transform(options)
    np.testing.assert_allclose(found[0, 2:], np.log(2.0**-24 / 2))
    np.testing.assert_allclose(found[1], np.log(1 / 4))


def test_scores_are_calibrated_in_a_pipeline():
    rng = np.random.default_rng(0)
    stated = pd.DataFrame({"stated": rng.integers(0, 21, 500) * 5})
    y = rng.uniform(size=500) < expit((stated["stated"] - 80) / 20)
    pipe = make_pipeline(ScoreTransformer((0, 100), step=5), PlattScaling()).fit(stated, y)
    again = pickle.loads(pickle.dumps(pipe))
    np.testing.assert_array_equal(again.predict_proba(stated), pipe.predict_proba(stated))
    by_hand = np.log((stated + 2.5) / (102.5 - stated))
    expected = PlattScaling().fit(by_hand, y).predict_proba(by_hand)
    np.testing.assert_allclose(pipe.predict_proba(stated), expected)
    assert pipe[0].get_feature_names_out().tolist() == ["stated"]
    with pytest.raises(ValueError, match="feature names"):
        pipe[0].transform(stated.rename(columns={"stated": "other"}))
    options = np.log(rng.dirichlet(np.ones(4), 100))
    options[::2, 3] = np.nan
    y = np.where(rng.uniform(size=100) < 0.2, 3, np.nan_to_num(options, nan=-9).argmax(axis=1))
    make_pipeline(clone(OPTIONS), TemperatureScaling()).fit(options, y).predict_proba(options)


PERCENT, LEVELS, LOG = {"scale": (0, 100)}, {"scale": (1, 5)}, {"scale": "log-probability"}


@pytest.mark.parametrize(
    ("params", "X", "word"),
    [
        (PERCENT, [[50], [101]], "1 of 2 .*101.*scale"),
        (LEVELS, [[0], [3], [5]], "1 of 3 .*0"),
        (PERCENT, [[50], [np.nan]], "NaN .*1 of 2"),
        (PERCENT, [[0.2], [0.9], [0.5]], "step=0.01"),
        (LOG, [[-1.0], [np.nan]], "NaN"),
        (LOG, [[-1.0, 0.1]], "scale='probability'"),
        ({"scale": "probability"}, [[0.5], [1.1]], "1.1"),
        ({"scale": "probability"}, [[0.5], [np.nan]], "NaN"),
        ({"scale": "odds"}, [[0.5]], "scale='odds'"),
        ({"scale": (5, 1)}, [[3]], r"scale=\(5, 1\)"),
        (LEVELS | {"step": 0}, [[3]], "step=0.01"),
        (LEVELS | {"step": 4.5}, [[3]], "step=4.5"),
        ({"scale": (0, np.inf)}, [[3]], "scale"),
        ({"scale": (0, 50, 100)}, [[3]], "scale"),
        (PERCENT, [1, 2, 3], "2D"),
    ],
)
def test_wrong_scores_and_scales_are_named_with_the_remedy(params, X, word):
    transformer = ScoreTransformer(**params)
    with pytest.raises(ValueError, match=f"(?s){word}"):
        transformer.fit(X)
    assert "n_features_in_" not in vars(transformer)


def test_rounding_errors_at_the_ends_and_names_without_a_fit():
    for ends, scores in [((0, 0.3), [[0.1 + 0.2], [-1e-17]]), ((0.1, 1), [[1 + 1e-7], [0.1]])]:
        found = ScoreTransformer(ends, step=0.1).transform(np.array(scores))
        expected = ScoreTransformer(ends, step=0.1).transform(np.array(ends)[::-1, None])
        np.testing.assert_array_equal(found, expected)
    stated = pd.DataFrame({"stated": [50, 60]})
    assert ScoreTransformer((0, 100)).transform(stated).shape == (2, 1)
    with pytest.raises(ValueError, match=r"1\.000002"):
        ScoreTransformer((0, 1), step=0.1).transform([[1.000002]])


def test_tags_of_input_and_refusal_of_dask():
    assert get_tags(OPTIONS).input_tags.allow_nan
    assert not get_tags(ScoreTransformer((0, 100))).input_tags.allow_nan
    da = pytest.importorskip("dask.array")
    with pytest.raises(ValueError, match="in memory"):
        ScoreTransformer((0, 100)).fit(da.ones((10, 1)))
    for k in range(3):
        args = [[0, 1] * 5] * 3
        args[k] = da.asarray(args[k])
        with pytest.raises(ValueError, match="in memory"):
            calibrated_mean(*args)


@pytest.mark.parametrize("kind", [np.asarray, pd.DataFrame, list])
def test_scores_as_text_are_refused(kind):
    """Otherwise "nan", which str makes of a missing score, would be a missing score."""
    scores = kind(np.array([[0.2], [np.nan], [0.4]]).astype(str).tolist())
    transformer = ScoreTransformer((0, 1), step=0.01, missing="keep")
    for use in (
        transformer.fit,
        transformer.transform,
        lambda X: FusionCalibrator(1).fit(X, [0, 1, 1]),
    ):
        with pytest.raises(ValueError, match="text"):
            use(scores)


# --------------------------------------------------------------------------------------
# Columns of several models.

MODELS = np.array([[0.9, np.nan, 0.8], [0.2, 0.1, 0.4], [np.nan, np.nan, 0.02], [np.nan] * 3])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_small_step_gives_log_odds_of_several_models_with_gaps(dtype):
    transformer = ScoreTransformer((0, 1), step=1e-6, missing="keep")
    found = transformer.fit_transform(MODELS.astype(dtype))
    np.testing.assert_allclose(found, logit(MODELS), rtol=1e-5)
    p = np.array([0, 1e-5, 1e-3, 0.5, 0.999, 1])[:, None]
    ends = clone(transformer).fit_transform(p)
    bound = 5e-7 / np.minimum(p, 1 - p)[1:-1]
    assert (np.abs(ends - logit(p))[1:-1] <= bound + 1e-12).all()
    np.testing.assert_allclose(ends[[0, -1], 0], [-14.5, 14.5], atol=0.01)


@pytest.mark.parametrize("missing", ["fill", "keep"])
@pytest.mark.parametrize("method", ["fit", "transform"])
def test_columns_of_several_models_are_no_options(missing, method):
    remedy = (
        r"(?s)1 of 4 rows with more, the first 1\.7\. .*scale=\(0, 1\), step=1e-6, missing='keep'"
    )
    whole = np.where(np.isnan(MODELS), [0.9, 0, 0.8], MODELS)
    whole[2:] = [0.5, 0.2, 0.3]
    for X in (MODELS, whole):
        with pytest.raises(ValueError, match=remedy):
            getattr(ScoreTransformer("probability", missing=missing), method)(X)
    with pytest.raises(ValueError, match=remedy + r" and the probabilities np\.exp\(X\)"):
        getattr(ScoreTransformer("log-probability", missing=missing), method)(np.log(MODELS))


def test_kept_gaps_in_some_of_several_probabilities_are_refused():
    kept = ScoreTransformer("probability", missing="keep")
    with pytest.raises(ValueError, match=r"(?s)1 of 3 rows with some.*step=1e-6.*missing='fill'"):
        kept.fit(MODELS[1:])
    found = kept.transform([[0.2, 0.3, 0.5], [np.nan] * 3])
    np.testing.assert_allclose(found, [np.log([0.2, 0.3, 0.5]), [np.nan] * 3])


def test_sums_of_options_may_have_rounding_errors():
    rounded = np.full((2, 40), 0.03)  # 39 times 1/39 and a small one, with two decimals
    rounded[:, -1] = 0
    proba = ScoreTransformer("probability")
    np.testing.assert_allclose(proba.transform(rounded)[:, :-1], np.log(0.03))
    np.testing.assert_allclose(proba.transform([[0.5, 0.54]]), np.log([[0.5, 0.54]]))
    one_decimal = [[0.0, -3.0, np.nan]]
    np.testing.assert_array_equal(OPTIONS.transform(one_decimal)[:, :2], [[0, -3]])
    # Means of log-probabilities over the tokens of each option do not sum to one.
    means = np.array([[-0.1, -0.2, -0.3]])
    np.testing.assert_array_equal(OPTIONS.transform(means), means)
