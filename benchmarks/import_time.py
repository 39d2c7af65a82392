"""Seconds to import skcalib, beside those of what it needs of scikit-learn and scipy.

Each in a new process; medians of several, in turn. Run ``python benchmarks/import_time.py``.
"""

import subprocess
import sys
from functools import partial

from timing import medians

PIECES = (
    "sklearn.base, sklearn.utils.validation, sklearn.model_selection, sklearn.metrics, "
    "sklearn.pipeline, sklearn.linear_model, scipy.optimize, scipy.sparse.linalg, scipy.fft"
)
IMPORTS = {
    "python alone": "sys",
    "numpy": "numpy",
    "pieces of scikit-learn and scipy": PIECES,
    "skcalib": "skcalib",
    "skcalib.metrics, skcalib.datasets": "skcalib.metrics, skcalib.datasets",
}


def imported(names):
    subprocess.run([sys.executable, "-c", f"import {names}"], check=True)


if __name__ == "__main__":
    tasks = {label: partial(imported, names) for label, names in IMPORTS.items()}
    for label, seconds in medians(tasks, 7).items():
        print(f"{label:36}{seconds:6.2f} s")
