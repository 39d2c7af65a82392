"""Smooth curves of rows on a grid of scores."""

import numpy as np

from skcalib._input.measures import Scored
from skcalib._scores.kernel import N_CELLS, NARROWEST, SmoothCurve, on_grid


def test_curve_far_from_all_scores_is_the_diagonal_without_rows():
    p = np.append(np.linspace(0.19, 0.21, 1000), np.linspace(0.79, 0.81, 1000))
    curve = SmoothCurve.of(*Scored(None, p, p, None)[1:])  # the event is its own probability
    assert curve.bandwidth == NARROWEST
    distance = np.abs(curve.score[:, None] - [0.19, 0.21, 0.79, 0.81]).min(axis=1)
    far, near = distance > 7 * NARROWEST, distance < 5 * NARROWEST
    assert (curve.density[far] == 0).all()
    assert (curve.n_rows[far] == 0).all()
    np.testing.assert_array_equal(curve.value[far], curve.score[far])
    assert (curve.density[near] > 0).all()
    assert (curve.n_rows[near] > 0).all()


def test_values_are_divided_between_the_two_nearest_midpoints():
    scores = np.array([0.0, 3.75, 100.5, N_CELLS - 0.1]) / N_CELLS
    values = np.array([[1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 5.0, 0.0]]).T
    sums = on_grid(np.stack([scores, scores], axis=1), values)
    expected = np.zeros((2, N_CELLS))
    expected[0, [0, 3, 4, 100, N_CELLS - 1]] = 1, 1.5, 0.5, 3, 4
    expected[1, 100] = 5
    np.testing.assert_allclose(sums, expected, atol=1e-9)
