"""The picture on the front page and in the README, written by ``python doc/before_after.py``.

The file also contains the bins of the picture as text. ``tests/test_front_picture.py`` compares
them with the bins that skcalib draws today.
"""

import json
from pathlib import Path

from matplotlib.figure import Figure

from skcalib import ReliabilityDisplay, TemperatureScaling
from skcalib.datasets import load_digits_logits

PATH = Path(__file__).parent / "_static" / "before_after.png"
ENTRIES = ["Accuracy", "Over-confident", "Under-confident", "95 % interval", "Perfect"]


def draw():
    """Return the figure and the numbers of its two diagrams."""
    digits = load_digits_logits()
    calibrator = TemperatureScaling().fit(digits.logits_calibration, digits.y_calibration)
    probabilities = {
        "Before: an over-confident network": digits.classifier.predict_proba(digits.X_test),
        "After temperature scaling": calibrator.predict_proba(digits.logits_test),
    }
    figure = Figure(figsize=(8.4, 5), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.15, h_pad=0.1)
    content, entries = {}, {}
    for ax, (name, proba) in zip(figure.subplots(1, 2), probabilities.items(), strict=True):
        display = ReliabilityDisplay.from_predictions(digits.y_test, proba, ax=ax, legend=False)
        ece = display.expected_calibration_error
        ax.set_title(f"{name} (ECE {ece:.3f})")
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            entries[label.split(" (")[0]] = handle
        content[name] = {
            "lower edge": display.curve.lower.tolist(),
            "rows": display.curve.n_samples.tolist(),
            "confidence": display.curve.confidence.tolist(),
            "accuracy": display.curve.accuracy.tolist(),
            "ECE": ece,
        }
    figure.legend(
        [entries[name] for name in ENTRIES], ENTRIES, loc="outside lower center", ncols=5,
        frameon=False,
    )  # fmt: skip
    return figure, content


if __name__ == "__main__":
    figure, content = draw()
    figure.savefig(PATH, dpi=150, metadata={"Description": json.dumps(content)})
