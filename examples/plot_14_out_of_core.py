"""
14. Out-of-core calibration
===========================

Calibrators read a memory-mapped array block by block, and a monitor computes measures batch by
batch. The logits never have to be in memory as a whole.
"""

# %%
# A file with 200 000 rows of logits of 100 classes, 80 MB in single precision, is written in
# parts. The logits are over-confident by a factor of two, and some classes are over-predicted. A
# file of 80 GB would be treated in the same way.

import tempfile
from pathlib import Path

import numpy as np

from skcalib.datasets import make_logits

N_ROWS, N_CLASSES, PART = 200_000, 100, 10_000
directory = tempfile.TemporaryDirectory()
path = Path(directory.name) / "logits.npy"

file = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(N_ROWS, N_CLASSES))
y = np.empty(N_ROWS, np.uint8)
for start in range(0, N_ROWS, PART):
    rows = slice(start, start + PART)
    file[rows], y[rows] = make_logits(
        PART, N_CLASSES, offset=np.linspace(0, 2, N_CLASSES), random_state=start
    )
del file
print(f"{path.stat().st_size / 1e6:.0f} MB")

# %%
# Calibrators are fitted to the first half and evaluated on the second. ``tracemalloc`` measures
# the peak memory of NumPy and Python, without the pages of the file that the operating system
# caches. A fit allocates a few blocks per thread, the parameters, and about eight bytes per label.

import time
import tracemalloc

import pandas as pd

from skcalib import TemperatureScaling, VectorScaling

logits = np.load(path, mmap_mode="r")


def measured(work):
    """The result of some work, its seconds, and its peak memory in MB."""
    tracemalloc.start()
    start = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - start
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return result, seconds, peak / 1e6


table = {}
for n_rows in (25_000, 50_000, 100_000):
    # A strength that is given saves the passes of the search for one.
    for calibrator in (TemperatureScaling(), VectorScaling(alpha=1)):
        vector, seconds, peak = measured(lambda c=calibrator, n=n_rows: c.fit(logits[:n], y[:n]))
        table[type(calibrator).__name__, n_rows] = {
            "logits [MB]": logits[:n_rows].nbytes / 1e6,
            "peak memory [MB]": peak,
            "time [s]": seconds,
        }
table = pd.DataFrame(table).T.rename_axis(["calibrator", "rows"])
table.round(2)

# %%
# Compared with the size of the logits:

import matplotlib.pyplot as plt

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
looks = {"TemperatureScaling": ("o-", "#0072B2"), "VectorScaling": ("s--", "#D55E00")}
for name, (style, color) in looks.items():
    peak = table.loc[name, "peak memory [MB]"]
    ax.plot(peak.index, peak, style, color=color, label=f"fit of {name}")
ax.plot(peak.index, table.loc[name, "logits [MB]"], "k:", label="size of the logits")
ax.set(xlabel="rows", ylabel="MB", xlim=(0, None), ylim=(0, None))
ax.set_xticks([0, 25_000, 50_000, 75_000, 100_000])
ax.legend()
plt.show()

# %%
# The probabilities would be as large as the file. So they are evaluated in parts as well: a
# :class:`~skcalib.monitor.CalibrationMonitor` keeps the sums of its bins and not the rows.

from scipy.special import softmax

from skcalib import ReliabilityDisplay
from skcalib.monitor import CalibrationMonitor

second_half = range(N_ROWS // 2, N_ROWS, PART)


def monitored(predict_proba):
    monitor = CalibrationMonitor(np.arange(N_CLASSES))
    for start in second_half:
        rows = slice(start, start + PART)
        monitor.update(y[rows], predict_proba(logits[rows]))
    return monitor


monitors = {}
for name, predict_proba in {
    "uncalibrated": lambda Z: softmax(Z, axis=1),
    "vector scaling": vector.predict_proba,
}.items():
    monitors[name], seconds, peak = measured(lambda p=predict_proba: monitored(p))
    error = monitors[name].measure("expected_calibration_error")
    rows = monitors[name].n_samples_
    print(f"{name}: ECE {error:.4f} from {rows} rows, peak memory {peak:.0f} MB, {seconds:.1f} s")

# %%
# Both reliability diagrams, drawn from the sums. Confidence intervals are narrow in bins with many
# rows.

figure, axes = plt.subplots(1, 2, figsize=(9, 5), layout="constrained")
for ax, (name, monitor) in zip(axes, monitors.items(), strict=True):
    ReliabilityDisplay(monitor.curve(), name=name.capitalize()).plot(ax)
plt.show()

# %%
# The file can be removed once no array is mapped to it.

logits = None
directory.cleanup()
