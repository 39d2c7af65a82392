"""
Rows on a cluster
=================

What does not fit on one machine can stay on many. Calibrators and measures take Dask collections,
and fetch sums instead of rows.
"""

# %%
# A cluster of two workers, here in this process, so that the example runs anywhere. A cluster of
# processes, ``LocalCluster()``, or one of many machines is used alike.

from distributed import Client, LocalCluster

cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0")
client = Client(cluster)

# %%
# Rows come in files, one for each day. These have the logits of four classes, of which one is given
# too often, and the labels.

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
# Nothing is read before somebody asks. The first four days are to fit, the others to judge.

import dask.dataframe as dd

days = [str(Path(directory.name) / f"{day}.parquet") for day in range(6)]
fit, judge = dd.read_parquet(days[:4]), dd.read_parquet(days[4:])

# %%
# Fits look as they always do. Each takes a few rounds: workers add up derivatives, or what is in
# each bin, and only the sums come here.

import time

import numpy as np

from skcalib import IsotonicCalibration, TemperatureScaling, VectorScaling

calibrators = [TemperatureScaling(), VectorScaling(), IsotonicCalibration()]
for calibrator in calibrators:
    start = time.perf_counter()
    calibrator.fit(fit[CLASSES], fit["label"])
    print(f"{type(calibrator).__name__}: {time.perf_counter() - start:.1f} s")

# %%
# Vector scaling found the class that is given too often, and takes something off its logit:

print(dict(zip(CLASSES, calibrators[1].intercept_.round(1).tolist(), strict=True)))

# %%
# Probabilities are lazy arrays with a chunk for each file, ready to be measured or to be written
# somewhere by the workers.

from skcalib.metrics import reliability_curve

proba = {type(c).__name__: c.predict_proba(judge[CLASSES]) for c in calibrators}
proba["TemperatureScaling"]

# %%
# A diagram needs no more than the sums of its bins.

import matplotlib.pyplot as plt

from skcalib import ReliabilityDisplay

figure, axes = plt.subplots(1, 3, figsize=(9, 4.4), layout="constrained")
for ax, (name, P) in zip(axes, proba.items(), strict=True):
    curve = reliability_curve(judge["label"], P, labels=CLASSES)
    ReliabilityDisplay(curve, name=name).plot(ax)
plt.show()

# %%
# The same rows in memory give the same answer.

rows = fit.compute()
in_memory = TemperatureScaling().fit(rows[CLASSES], rows["label"])
print(f"{calibrators[0].temperature_:.9f} with Dask, {in_memory.temperature_:.9f} in memory")
assert np.isclose(calibrators[0].temperature_, in_memory.temperature_, rtol=1e-6)

# %%
# Close what was opened.

client.close()
cluster.close()
directory.cleanup()
