"""
15. Distributed calibration with Dask
=====================================

Calibrators and measures accept row-chunked Dask arrays and data frames. The workers compute sums
over their chunks. The client receives only the sums, or a random sample of the rows.
"""

# %%
# The two workers of this cluster are threads of the process, so that the example runs anywhere. A
# cluster of processes (``LocalCluster()``) or of many machines works in the same way.

from distributed import Client, LocalCluster

cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0")
client = Client(cluster)

# %%
# The data are in one file per day, with the labels and the logits of four classes. The classifier
# over-predicts the second class.

import tempfile
from pathlib import Path

import pandas as pd

from skcalib.datasets import make_logits

CLASSES = ["ant", "bee", "cat", "dog"]
directory = tempfile.TemporaryDirectory()

for day in range(6):
    logits, y = make_logits(50_000, 4, temperature=2.0, offset=[0, 1.5, 0, 0], random_state=day)
    frame = pd.DataFrame(logits.astype("float32"), columns=CLASSES)
    frame.assign(label=[CLASSES[k] for k in y]).to_parquet(Path(directory.name) / f"{day}.parquet")

# %%
# Files are read lazily. The first four days are used to fit the calibrators, the others for
# evaluation.

import dask.dataframe as dd

days = [str(Path(directory.name) / f"{day}.parquet") for day in range(6)]
fit, test = dd.read_parquet(days[:4]), dd.read_parquet(days[4:])

# %%
# ``fit`` is called as with arrays in memory. In each iteration of a scaling method, the workers
# sum derivatives over their chunks, and the client receives the sums. Isotonic regression needs
# the ranks of the scores, so it is fitted to a random sample of at most a million rows, here all
# rows.

import time

import numpy as np

from skcalib import IsotonicCalibration, TemperatureScaling, VectorScaling

calibrators = [TemperatureScaling(), VectorScaling(), IsotonicCalibration()]
for calibrator in calibrators:
    start = time.perf_counter()
    calibrator.fit(fit[CLASSES], fit["label"])
    print(f"{type(calibrator).__name__}: {time.perf_counter() - start:.1f} s")

# %%
# Vector scaling lowers the logit of the over-predicted class:

print(dict(zip(CLASSES, calibrators[1].intercept_.round(1).tolist(), strict=True)))

# %%
# Probabilities are lazy arrays with one chunk per file, which the workers can evaluate or write to
# storage.

from skcalib.metrics import reliability_curve

proba = {type(c).__name__: c.predict_proba(test[CLASSES]) for c in calibrators}
proba["TemperatureScaling"]

# %%
# A reliability diagram needs only the sums of its bins.

import matplotlib.pyplot as plt

from skcalib import ReliabilityDisplay

figure, axes = plt.subplots(1, 3, figsize=(9, 4.2), layout="constrained")
entries = {}
for ax, (name, P) in zip(axes, proba.items(), strict=True):
    curve = reliability_curve(test["label"], P, labels=CLASSES)
    display = ReliabilityDisplay(curve).plot(ax, legend=False)
    ax.set_title(f"{name}\nECE {display.expected_calibration_error:.4f}", fontsize="medium")
    for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
        entries[label.split(" (")[0]] = handle
for ax in axes[1:]:
    ax.set_ylabel("")
figure.legend(entries.values(), entries, loc="outside lower center", ncols=5, frameon=False)
plt.show()

# %%
# The same rows in memory give the same temperature.

rows = fit.compute()
in_memory = TemperatureScaling().fit(rows[CLASSES], rows["label"])
print(f"{calibrators[0].temperature_:.9f} with Dask, {in_memory.temperature_:.9f} in memory")
assert np.isclose(calibrators[0].temperature_, in_memory.temperature_, rtol=1e-6)

# %%
# Close the client and the cluster.

client.close()
cluster.close()
directory.cleanup()
