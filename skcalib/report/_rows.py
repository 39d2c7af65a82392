"""The rows of a report, with probabilities before and after calibration, and facts about them."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from skcalib._output.html import as_text
from skcalib._rows import Array, Floats
from skcalib._validation.labels import encode, shown
from skcalib.metrics._input import Kind, resolved

# Classes with fewer rows are listed: their measures say little.
FEW = 10

# Longer names are cut, of classes and of the report itself: they would fill the page, leave no room
# for the diagrams, and take long to draw.
LETTERS, LETTERS_OF_REPORT = 120, 400


class Evaluation:
    """Labels, weights and settings, and the probabilities that are evaluated with them."""

    def __init__(
        self,
        y: Array,
        w: Floats | None,
        classes: Array,
        n_bins: int,
        before: Floats,
        after: Floats,
        kind: Kind = "auto",
    ) -> None:
        self.y, self.w, self.classes, self.n_bins = y, w, classes, n_bins
        self.before, self.after = before, after
        #: Of two classes the second is the event, of more the top label counts.
        self.kind = resolved(kind, classes)
        # Arguments of measures without bins, with bins, and with the kind as well.
        self.of_rows: dict[str, Any] = {"sample_weight": w, "labels": classes}
        self.keywords = {**self.of_rows, "n_bins": n_bins}
        self.of_kind = {**self.keywords, "kind": self.kind}
        self.index = encode(y, classes)  # the column of each label
        self.weights = np.ones(len(y)) if w is None else w
        self.n_classes = len(classes)
        # Rows with a positive weight, of each class and in all.
        self.counts = np.bincount(self.index[self.weights > 0], minlength=self.n_classes)
        self.n_samples = int(self.counts.sum())
        # Rows of equal weight whose means would have the same variance.
        share = self.weights / self.weights.max()
        self.n_effective = float(share.sum() ** 2 / (share @ share))

    def scored(self, P: Floats) -> tuple[Floats, Array]:
        """The score of each row, and whether its event happened."""
        if self.kind == "binary":
            return P[:, 1], self.index == 1
        return P.max(axis=1), P.argmax(axis=1) == self.index

    def mean(self, values: Array) -> float:
        """The weighted mean of a value of each row."""
        return float(np.average(values, weights=self.w))


def short(name: object, letters: int = LETTERS) -> str:
    """A name as text, by default of a class, without what exceeds so many letters."""
    text = as_text(name)
    return text if len(text) <= letters else f"{text[: letters - 1]}\N{HORIZONTAL ELLIPSIS}"


def listed(classes: Iterable[Any]) -> str:
    """The first names of classes as a list, with quotation marks around texts."""
    return shown([short(c) if len(as_text(c)) > LETTERS else c for c in classes]) or "none"


def facts_of(Z: Floats, rows: Evaluation) -> list[tuple[str, str]]:
    """Facts about logits and their rows, of which those with a weight of 0 are left out."""
    n_absent = len(Z) - rows.n_samples
    absent = f", and {n_absent:,} with a weight of 0, which are left out" if n_absent else ""
    weights = f"{rows.weights.sum():,.6g} in total, {rows.n_effective:,.1f} effective rows"
    kept = rows.weights > 0
    Z = Z[kept]
    masked = np.isneginf(Z)
    low, high = (f.reduce(Z[~masked], initial=np.nan) for f in (np.fmin, np.fmax))
    n_masked = f"{masked.sum():,} logits in {masked.any(axis=1).sum():,} rows"
    tied = (Z.max(axis=1, keepdims=True) == Z).sum(axis=1) > 1 if Z.shape[1] > 1 else Z == 0
    n_distinct = len(np.unique(rows.after[kept].max(axis=1)))
    return [
        ("Rows", f"{rows.n_samples:,}{absent}"),
        ("Weights", "none: all rows count the same" if rows.w is None else weights),
        (
            f"Classes with fewer than {FEW} rows",
            listed(rows.classes[(rows.counts > 0) & (rows.counts < FEW)]),
        ),
        ("Classes without rows", listed(rows.classes[rows.counts == 0])),
        ("Logits", f"{low:.4g} to {high:.4g}, {Z.dtype}"),
        ("Masked classes", n_masked if masked.any() else "none"),
        ("Rows with a tie for the largest logit", f"{tied.sum():,}"),
        ("Distinct confidences after calibration", f"{n_distinct:,}"),
    ]
