"""Errors of estimated class priors, coverage of their standard errors, and the test of label shift.

Classes are normal, with known densities; logits are calibrated, or twice as large. The class
frequencies of both populations are drawn from a Dirichlet distribution; one class may be rare in
the calibration rows. New rows are as they were, or more noisy, which is no label shift. Run::

    python benchmarks/simulate_prior_shift.py [--draws 300]
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

from skcalib import PriorShift

#: Classes, rows, and the share of the last class if it is rare in the calibration rows.
SETTINGS = [(2, 300, 0), (2, 3000, 0), (3, 1000, 0), (10, 1000, 0), (10, 10_000, 0)]
SETTINGS += [(2, 1000, 0.01), (2, 10_000, 0.01), (2, 1000, 0.03), (2, 1000, 0.1)]
SETTINGS += [(3, 1000, 0.01), (10, 1000, 0.01)]
SHARP = 1.5
METHODS = ("em", "bbse")


def rows(n: int, priors: np.ndarray, trained: np.ndarray, noise: float, rng) -> tuple:
    """Logits that are calibrated for the priors ``trained``, and labels."""
    y = rng.choice(len(priors), p=priors, size=n)
    X = noise * rng.normal(size=(n, len(priors)))
    X[np.arange(n), y] += SHARP
    return SHARP * X + np.log(trained), y


def draw(
    seed: int, n_classes: int, n: int, method: str, *, noise: float, scale: float, rare: float
) -> tuple:
    """P-value, mean error of the priors, share within two errors, whether the last prior is.

    All are NaN where the confusion matrix of the calibration rows is singular.
    """
    rng = np.random.default_rng([seed, n_classes, n])
    before, after = rng.dirichlet(np.full(n_classes, 3.0), size=2)
    if rare:  # in the calibration rows, and frequent later
        before = np.append(before[:-1] / before[:-1].sum() * (1 - rare), rare)
        after = np.append(after[:-1] / after[:-1].sum() * 0.7, 0.3)
    Z, y = rows(n, before, before, 1.0, rng)
    Z_new, _ = rows(n, after, before, noise, rng)
    shift = PriorShift(method=method, classes=range(n_classes)).fit(scale * Z, y)
    try:
        shift.adapt(scale * Z_new)
    except ValueError:
        return (np.nan,) * 4
    off = shift.priors_ - after
    covered = np.abs(off) < 1.96 * shift.standard_errors_
    return shift.label_shift_pvalue_, np.abs(off).mean(), covered.mean(), covered[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--first", type=int, default=0, help="the setting to begin with")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    print(
        "classes  rows  rare  alarms  alarms noise  not tested | "
        "error and coverage: em, bbse, em x2, bbse x2 | last class: em, bbse"
    )
    for n_classes, n, rare in SETTINGS[args.first :]:
        found = {}
        for method in METHODS:
            for noise, scale in ((1.0, 1.0), (1.0, 2.0), (1.3, 1.0)):
                some = [
                    draw(seed, n_classes, n, method, noise=noise, scale=scale, rare=rare)
                    for seed in range(args.draws)
                ]
                found[method, noise, scale] = np.array(some)
        # Without a test there is no alarm.
        alarms = [np.mean(found["em", noise, 1.0][:, 0] < 0.01) for noise in (1.0, 1.3)]
        untested = np.isnan(found["em", 1.0, 1.0][:, 0]).mean()
        pairs = [(m, 1.0, scale) for scale in (1.0, 2.0) for m in METHODS]
        columns = [np.nanmean(found[pair][:, 1:3], axis=0) for pair in pairs]
        last = "  ".join(f"{np.nanmean(found[pair][:, 3]):.1%}" for pair in pairs[:2])
        shares = "  ".join(f"{share:.1%}" for share in (*alarms, untested))
        text = "  ".join(f"{error:.4f} {covered:.1%}" for error, covered in columns)
        print(
            f"{n_classes:3d} {n:6d} {rare:5.2f}  {shares}  {text}  {last}",
            flush=True,
        )


if __name__ == "__main__":
    main()
