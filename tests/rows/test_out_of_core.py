"""Files larger than the memory that a process may have, and many threads at a time."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from families import CALIBRATORS

import skcalib
from skcalib import metrics
from skcalib.datasets import make_logits

pytestmark = pytest.mark.slow

# The file is as large as the memory that may be allocated after the imports.
N, K = 250_000, 20
PROGRAM = """
import resource, sys
import numpy as np
import skcalib
from skcalib import metrics

Z, y = np.load(sys.argv[1], mmap_mode="r"), np.load(sys.argv[2])
P = np.load(sys.argv[3], mmap_mode="r")
warm = slice(0, 3000)
skcalib.VectorScaling().fit(Z[warm], y[warm])  # late imports, and threads
now = int(open("/proc/self/statm").read().split()[5]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_DATA, (now + Z.nbytes, now + Z.nbytes))
try:
    np.ones(Z.nbytes // 8 + (1 << 22))
except MemoryError:
    pass
else:
    sys.exit("the limit does not hold")
for kind in sys.argv[4].split(","):
    fitted = getattr(skcalib, kind)().fit(Z, y)
    print(float(fitted.predict_proba(Z[warm]).var()))
for kind in ("top-label", "classwise"):
    print(metrics.expected_calibration_error(y, P, kind=kind))
print(metrics.smooth_calibration_error(y, P))
"""
KINDS = ["TemperatureScaling", "VectorScaling", "PlattScaling", "HistogramBinning"]


@pytest.mark.skipif(sys.platform != "linux", reason="limits of other systems differ")
def test_files_larger_than_memory_are_fitted(tmp_path):
    """Fits and measures of a mapped file equal fits and measures of an array."""
    Z, y, P = make_logits(N, K, return_proba=True, random_state=0)
    files = [str(tmp_path / name) for name in ("z.npy", "y.npy", "p.npy")]
    for file, array in zip(files, (Z, y.astype(np.uint8), P), strict=True):
        np.save(file, array)
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, *files, ",".join(KINDS)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},  # no memory for the stacks of threads
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    found = list(map(float, run.stdout.split()))
    fits = [getattr(skcalib, kind)().fit(Z, y) for kind in KINDS]
    spreads = [fitted.predict_proba(Z[:3000]).var() for fitted in fits]
    errors = [metrics.expected_calibration_error(y, P, kind=k) for k in ("top-label", "classwise")]
    smooth = metrics.smooth_calibration_error(y, P)
    np.testing.assert_allclose(found, [*spreads, *errors, smooth], rtol=1e-12)


@pytest.mark.parametrize("kind", CALIBRATORS)
def test_many_threads_predict_at_a_time(kind):
    """Threads that predict at the same time do not mix up their rows."""
    Z, y = make_logits(12_000, 5, random_state=0)
    calibrator = kind().fit(Z[:2000], y[:2000])
    expected = calibrator.predict_proba(Z)
    parts = [slice(k, None, 16) for k in range(16)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda part: calibrator.predict_proba(Z[part]), parts * 3))
    for part, P in zip(parts * 3, found, strict=True):
        # Products of matrices of other sizes may be rounded in another way.
        np.testing.assert_allclose(P, expected[part], rtol=1e-12)
