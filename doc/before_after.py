"""The picture on the front page and in the README, written by ``python doc/before_after.py``.

The file also holds, as text, the bins and the legends that it shows.
``tests/test_front_picture.py`` compares these with those that skcalib draws today.
"""

import json
from pathlib import Path

from matplotlib.figure import Figure

from skcalib import ReliabilityDisplay, TemperatureScaling
from skcalib.datasets import load_digits_logits

PATH = Path(__file__).parent / "_static" / "before_after.png"
N_BINS = 13  # with as many, each bin that is not empty has 7 rows or more


def draw():
    """The figure, and what each of its two diagrams shows."""
    digits = load_digits_logits()
    calibrator = TemperatureScaling().fit(digits.logits_calibration, digits.y_calibration)
    probabilities = {
        "Before: an over-confident network": digits.classifier.predict_proba(digits.X_test),
        "After temperature scaling": calibrator.predict_proba(digits.logits_test),
    }
    figure = Figure(figsize=(8.4, 5), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.15, h_pad=0.1)
    axes = figure.subplots(1, 2)
    content = {
        name: contents(
            ReliabilityDisplay.from_predictions(
                digits.y_test, proba, n_bins=N_BINS, name=name, legend="outside", ax=ax
            )
        )
        for ax, (name, proba) in zip(axes, probabilities.items(), strict=True)
    }
    return figure, content


def contents(display):
    """What a diagram shows, as numbers and strings."""
    curve = display.curve
    return {
        "lower edge": curve.lower.tolist(),
        "rows": curve.n_samples.tolist(),
        "confidence": curve.confidence.tolist(),
        "accuracy": curve.accuracy.tolist(),
        "ECE": display.expected_calibration_error,
        "legend": [text.get_text() for text in display.ax_.get_legend().get_texts()],
    }


if __name__ == "__main__":
    figure, content = draw()
    figure.savefig(PATH, dpi=150, metadata={"Description": json.dumps(content)})
