"""Rows of different lengths, such as candidates of a search engine, are refused with the remedy."""

import numpy as np
import pytest
from families import CALIBRATORS

from skcalib import TemperatureScaling
from skcalib.metrics import expected_calibration_error

ROWS = [[0.5, -1.0, 0.1], [0.4, 0.3, 0.2, -0.5]] * 10
FORMS = {
    "lists": ROWS,
    "tuples": tuple(map(tuple, ROWS)),
    "arrays": [np.array(row) for row in ROWS],
    "objects": np.array([np.array(row) for row in ROWS], dtype=object),
}
Y = np.arange(20) % 3


@pytest.mark.parametrize("form", FORMS)
def test_ragged_rows_are_to_be_padded(form):
    X = FORMS[form]
    fitted = TemperatureScaling().fit(np.eye(3)[Y] + np.sin(np.arange(60)).reshape(20, 3), Y)
    for kind in CALIBRATORS:
        with pytest.raises(ValueError, match="pad rows to the longest row with -inf"):
            kind().fit(X, Y)
    with pytest.raises(ValueError, match="with -inf"):
        fitted.predict_proba(X)
    with pytest.raises(ValueError, match="with zeros"):
        expected_calibration_error(Y, X)
