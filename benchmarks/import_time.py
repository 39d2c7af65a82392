"""Seconds to import skcalib, and the parts of scikit-learn and scipy that it needs.

Medians of several new processes each, run in turn. Run ``python benchmarks/import_time.py``.
"""

import subprocess
import sys
from functools import partial

from timing import medians

PARTS = (
    "sklearn.base, sklearn.utils.validation, sklearn.model_selection, sklearn.metrics, "
    "sklearn.pipeline, sklearn.linear_model, scipy.optimize, scipy.sparse.linalg, scipy.fft"
)
IMPORTS = {
    "python alone": "sys",
    "numpy": "numpy",
    "parts of scikit-learn and scipy": PARTS,
    "skcalib": "skcalib",
    "skcalib.metrics, skcalib.datasets": "skcalib.metrics, skcalib.datasets",
}


def imported(names):
    subprocess.run([sys.executable, "-c", f"import {names}"], check=True)


if __name__ == "__main__":
    tasks = {label: partial(imported, names) for label, names in IMPORTS.items()}
    for label, seconds in medians(tasks, 7).items():
        print(f"{label:36}{seconds:6.2f} s")
