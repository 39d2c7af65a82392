"""
19. A report to pass on
=======================

:func:`~skcalib.calibration_report` evaluates a fitted calibrator on held-out rows. The report is a
figure, a page for the browser, and an object with all numbers.
"""

# %%
# Calibrators are fitted to one half of the held-out rows of the network of
# :ref:`sphx_glr_auto_examples_plot_01_calibrate_a_network.py`, and compared on the other half. The
# best value in each column is marked.

from skcalib import (
    MatrixScaling,
    TemperatureScaling,
    VectorScaling,
    calibration_report,
    compare_calibrators,
)
from skcalib.datasets import load_digits_logits

digits = load_digits_logits()
held_out = digits.logits_test, digits.y_test
comparison = compare_calibrators(
    digits.logits_calibration,
    digits.y_calibration,
    calibrators=[TemperatureScaling(), VectorScaling(), MatrixScaling()],
    test=held_out,
)
comparison

# %%
# The figure
# ----------
# Matrix scaling has the lowest log loss. The figure of its report has reliability diagrams and
# histograms of the confidence before and after calibration.

import matplotlib.pyplot as plt

matrix = comparison.calibrators["MatrixScaling"]
report = calibration_report(
    matrix,
    *held_out,
    comparison=comparison,
    metadata={"Model": "small network on digits"},
    random_state=0,
)
plt.show()

# %%
# The numbers
# -----------
# The verdict has three sentences: all tests after calibration, the effect of calibration, and the
# remaining error.

import textwrap

print(
    *(textwrap.fill(sentence, 90, break_on_hyphens=False) for sentence in report.verdict_),
    sep="\n\n",
)

# %%
# All measures and their changes have intervals. A change is significant if its interval does not
# contain zero.

import pandas as pd

pd.DataFrame(
    {
        measure: {
            "before": change.before.estimate,
            "after": change.after.estimate,
            "change": change.difference.estimate,
            "from": change.difference.low,
            "to": change.difference.high,
        }
        for measure, change in report.measures_.items()
    }
).T.round(3)

# %%
# The page
# --------
# The page is a single file without scripts, which loads nothing: diagrams are vector graphics
# inside of it. It can be sent by mail, attached to a ticket, or printed. It adds the comparison,
# the worst classes, facts about the data, versions, and the code that repeats it. ``metadata=``
# adds facts such as the model and the files. The command line writes a page, too: ``python -m
# skcalib --report report.html``.

import tempfile
from pathlib import Path

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "report.html"
    report.to_html(path)
    print(f"{path.stat().st_size / 1024:.0f} KiB")

# %%
# In a notebook, ``report`` as the last line of a cell shows the verdict, the measures and the
# figure.
