"""Law of kinds of arrays: measures and fits of the same numbers are equal, whatever holds them."""

from tempfile import TemporaryFile

import numpy as np
import pandas as pd
import pytest
from public import LABELS, LOGITS, PROBABILITIES, REGISTRY, N, numbers, pl

WEIGHTS = np.linspace(0.5, 1.5, N)


def read_only(a):
    a = a.copy()
    a.flags.writeable = False
    return a


def in_polars(a):
    return pl.DataFrame(a, schema=["0", "1"]) if a.ndim == 2 else pl.Series(a)


def mapped(a):
    """A read-only file in memory."""
    with TemporaryFile() as file:
        a.tofile(file)
        file.flush()
        return np.memmap(file, a.dtype, "r", shape=a.shape)


KINDS = {
    "mapped": mapped,
    "booleans": lambda a: a.astype(bool) if a.dtype.kind == "i" else a,
    "half": lambda a: a.astype(np.float16) if a is WEIGHTS else a,
    "list": lambda a: a.tolist(),
    "tuple": lambda a: tuple(map(tuple, a.tolist())) if a.ndim == 2 else tuple(a.tolist()),
    "pandas": lambda a: pd.DataFrame(a) if a.ndim == 2 else pd.Series(a, index=np.arange(N) + 7),
    "nullable": lambda a: (pd.DataFrame(a) if a.ndim == 2 else pd.Series(a)).convert_dtypes(),
    "object": lambda a: a.astype(object),
    "Fortran": np.asfortranarray,
    "read-only": read_only,
    "strided": lambda a: np.repeat(a, 2, axis=0)[::2],
    "backwards": lambda a: a[::-1].copy()[::-1],
    "big-endian": lambda a: a.astype(a.dtype.newbyteorder(">")),
    "small": lambda a: a.astype(np.float32 if a.dtype.kind == "f" else np.int8),
}
if pl is not None:
    KINDS["polars"] = in_polars

MEASURES = [
    path
    for path, call in REGISTRY.items()
    if {"y_true", "y_proba", "sample_weight"} <= call.parameters and "Display" not in path
]
FITS = ["AutoCalibrator.fit", "IsotonicCalibration.fit", "VectorScaling.fit"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", [*MEASURES, *FITS])
def test_results_do_not_depend_on_the_kind_of_array(path):
    call = REGISTRY[path]
    arrays = {"sample_weight": WEIGHTS}
    arrays |= (
        {"X": LOGITS, "y": LABELS} if path in FITS else {"y_true": LABELS, "y_proba": PROBABILITIES}
    )
    expected = numbers(call(**arrays))
    some = ["list", "nullable"] if path.startswith("report.") else KINDS  # reports draw
    for kind in some:
        found = numbers(call(**{name: KINDS[kind](array) for name, array in arrays.items()}))
        tolerance = 5e-3 if kind in ("small", "half") else 1e-9
        np.testing.assert_allclose(found, expected, atol=tolerance, err_msg=kind)


@pytest.mark.slow
@pytest.mark.usefixtures("few_resamples")
@pytest.mark.filterwarnings("ignore")
def test_all_figures_of_a_report_are_those_of_plain_arrays():
    """Other laws compare the quick figures of a report alone."""

    def figures(y, P, w, **params):
        report = REGISTRY["report.validation_report"](
            y_true=y, y_proba=P, sample_weight=w, **params
        )
        return numbers([report.measures_, report.risk_])

    absent = np.arange(N) < N // 5  # in rows of weight 0 that follow
    names = np.array(["survived", "died"])[np.append(LABELS, 1 - LABELS[absent])]
    weights = pd.Series(np.append(WEIGHTS, np.zeros(absent.sum())), index=np.arange(len(names)) + 7)
    risks = [*PROBABILITIES[:, 1], *PROBABILITIES[absent, 1]]
    np.testing.assert_allclose(
        figures(names, risks, weights, pos_label="died"),
        figures(LABELS, PROBABILITIES, WEIGHTS),
        atol=1e-9,
    )
