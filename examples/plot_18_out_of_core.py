"""
More rows than memory
=====================

Logits in a file can be calibrated where they lie. Calibrators read a memory-mapped array block by
block, a monitor measures in batches, and neither needs more memory for more rows.
"""

# %%
# A file of 200 000 rows of logits of 100 classes, 80 MB in single precision, is written in parts.
# All logits are twice as large as they should be, and some classes are given too often. It would be
# no different with a file of 80 GB.

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
# The first half is to fit, the second to judge. ``tracemalloc`` tells how much memory was asked for
# at most, by numpy as by everything else; the pages of the file are not in it, which the operating
# system reads and drops as it sees fit. A fit takes a few blocks for each thread, and the
# parameters. All that grows with the rows are their labels, by some eight bytes each.

import time
import tracemalloc

import pandas as pd

from skcalib import TemperatureScaling, VectorScaling

logits = np.load(path, mmap_mode="r")


def measured(work):
    """The result of some work, its seconds, and the most memory it had at a time, in MB."""
    tracemalloc.start()
    start = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - start
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return result, seconds, peak / 1e6


table = {}
for n_rows in (25_000, 50_000, 100_000):
    for calibrator in (TemperatureScaling(), VectorScaling()):
        vector, seconds, peak = measured(lambda c=calibrator, n=n_rows: c.fit(logits[:n], y[:n]))
        table[type(calibrator).__name__, n_rows] = {
            "logits [MB]": logits[:n_rows].nbytes / 1e6,
            "peak memory [MB]": peak,
            "time [s]": seconds,
        }
table = pd.DataFrame(table).T.rename_axis(["calibrator", "rows"])
table.round(2)

# %%
# In a picture, next to what it would take to hold the logits in memory:

import matplotlib.pyplot as plt

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
looks = {"TemperatureScaling": ("o-", "#0072B2"), "VectorScaling": ("s--", "#D55E00")}
for name, (style, color) in looks.items():
    peak = table.loc[name, "peak memory [MB]"]
    ax.plot(peak.index, peak, style, color=color, label=f"fit of {name}")
ax.plot(peak.index, table.loc[name, "logits [MB]"], "k:", label="the logits themselves")
ax.set(xlabel="rows", ylabel="MB", xlim=(0, None), ylim=(0, None))
ax.set_xticks([0, 25_000, 50_000, 75_000, 100_000])
ax.legend()
plt.show()

# %%
# The probabilities would be as large as the file. So judge them in parts, too: a
# :class:`~skcalib.CalibrationMonitor` keeps the sums of its bins and forgets the rows.

from scipy.special import softmax

from skcalib import CalibrationMonitor

second_half = range(N_ROWS // 2, N_ROWS, PART)


def watched(predict_proba):
    monitor = CalibrationMonitor(labels=np.arange(N_CLASSES))
    for start in second_half:
        rows = slice(start, start + PART)
        monitor.update(y[rows], predict_proba(logits[rows]))
    return monitor


monitors = {}
for name, predict_proba in {
    "uncalibrated": lambda Z: softmax(Z, axis=1),
    "vector scaling": vector.predict_proba,
}.items():
    monitors[name], seconds, peak = measured(lambda p=predict_proba: watched(p))
    error = monitors[name].expected_calibration_error()
    rows = monitors[name].n_samples
    print(f"{name}: ECE {error:.4f} from {rows} rows, {peak:.0f} MB at most, {seconds:.1f} s")

# %%
# The diagrams of both, drawn from the sums. Whiskers are short where rows are many.

figure, axes = plt.subplots(1, 2, figsize=(9, 5), layout="constrained")
for ax, (name, monitor) in zip(axes, monitors.items(), strict=True):
    monitor.plot(ax, name=name.capitalize())
plt.show()

# %%
# The file can be removed once nothing is mapped to it any more.

logits = None
directory.cleanup()
