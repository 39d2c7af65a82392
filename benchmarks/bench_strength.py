"""Strength of regularization from the data: accuracy, gain and cost of ``alpha="loo"``.

1. On small problems the estimated losses are compared with those of refits without each row.
2. The strength is chosen by ``alpha="loo"`` and by a grid search with 5 folds over the same
   strengths; the gain is that in log loss on test rows, relative to ``alpha="auto"``. Records are
   .npz files with class probabilities ``predictions`` (n, K) and labels ``ground_truth`` (n,).
3. Fits along the path of strengths are timed against separate fits.

Run::

    python benchmarks/bench_strength.py [--records DIRECTORY] [--rows 500 5000]
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from bench_methods import logits
from records import read
from scipy.special import log_softmax
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.metrics import log_loss, make_scorer
from sklearn.model_selection import GridSearchCV, KFold, LeaveOneOut, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils import shuffle

from skcalib import MatrixScaling, VectorScaling
from skcalib._optimize.leave_one_out import ALPHAS
from skcalib._optimize.loss import Objective, Regularization
from skcalib._optimize.maps import MatrixMap, VectorMap
from skcalib._optimize.minimize import best_parameters
from skcalib._optimize.temperature import fit_inverse_temperature
from skcalib._rows.parallel import with_one_blas_thread
from skcalib._rows.rows import MemoryRows
from skcalib.datasets import make_logits

MAPS = {VectorScaling: VectorMap(), MatrixScaling: MatrixMap()}
Problem = tuple[str, np.ndarray, np.ndarray, np.ndarray | None]


def small_problems() -> Iterator[Problem]:
    """Name, logits, labels and weights: simulated ones, and out-of-fold ones of classifiers."""
    w = np.random.default_rng(0).uniform(0.5, 2, 150)
    for K in (2, 3, 5):
        Z, y = make_logits(150, K, temperature=2, offset=np.arange(K), random_state=K)
        Z[:, 1] += 0.5 * Z[:, -1]
        yield f"simulated, K={K}", Z, y, None
        yield f"simulated, K={K}, weights", Z, y, w
    for name, load in (("iris", load_iris), ("wine", load_wine)):
        X, y = load(return_X_y=True)
        for model in (GaussianNB(), KNeighborsClassifier(15)):
            X, y = shuffle(X, y, random_state=0)
            P = cross_val_predict(model, X, y, method="predict_proba", cv=KFold(5))
            yield f"{name}, {type(model).__name__}", np.log(np.maximum(P, 1e-6)), y, None


def exact_loss(kind: type, problem: Problem, alpha: float, temperature: float = 0) -> float:
    """Leave-one-out log loss of refits, with the temperature refitted as well or as given."""
    _, Z, y, w = problem
    w, classes, losses = np.ones(len(y)) if w is None else w, np.unique(y), []
    for a, b in LeaveOneOut().split(Z):
        if temperature:
            L = log_softmax(Z / temperature, axis=1)
            map_ = MAPS[kind]
            strength = Regularization.rule(Z.shape[1], w[a].sum(), alpha)
            objective = Objective(map_, MemoryRows(L[a], y[a], w[a]), strength)
            S = map_.scores(best_parameters(objective, 1e-6, 200).x, L[b])
            losses.append(-log_softmax(S, axis=1)[0, y[b][0]])
        else:
            c = kind(alpha=alpha, classes=classes).fit(Z[a], y[a], w[a])
            losses.append(-c.predict_log_proba(Z[b])[0, y[b][0]])
    return float(np.average(losses, weights=w))


def compare_with_refits() -> None:
    for problem in small_problems():
        for kind in MAPS:
            chosen = kind(alpha="loo").fit(*problem[1:])
            T, least = chosen.temperature_, chosen.loo_losses_.min()
            given = exact_loss(kind, problem, chosen.alpha_, T)
            exact = [exact_loss(kind, problem, alpha) for alpha in chosen.alphas_]
            found = exact[chosen.loo_losses_.argmin()]
            print(
                f"{problem[0]:26} {kind.__name__:14} alpha {chosen.alpha_:<6g} exact, same "
                f"temperature {given:.4f}, estimate {least / given - 1:+.2%}; all refitted "
                f"{found:.4f}, {found / min(exact) - 1:.2%} above the least",
                flush=True,
            )


def grid_search(kind: type, Z: np.ndarray, y: np.ndarray, classes: np.ndarray) -> float:
    """The strength of the least log loss over 5 folds."""
    scorer = make_scorer(
        log_loss, response_method="predict_proba", greater_is_better=False, labels=classes
    )
    folds = KFold(5, shuffle=True, random_state=0)
    search = GridSearchCV(
        kind(classes=classes), {"alpha": ALPHAS}, scoring=scorer, cv=folds, refit=False
    )
    return float(search.fit(Z, y).best_params_["alpha"])


def data_sets(
    folder: Path | None, sizes: list[int]
) -> Iterator[tuple[str, np.ndarray, np.ndarray, int]]:
    """Name, logits, labels and the number of rows to fit; the others are test rows."""
    X, y = shuffle(*load_digits(return_X_y=True), random_state=0)
    P = cross_val_predict(KNeighborsClassifier(20), X, y, method="predict_proba")
    yield "digits, neighbours", log_softmax(np.log(P + 1e-3), axis=1), y, len(y) // 2
    for file in sorted(folder.glob("*.npz")) if folder else ():
        Z, y = read(file)
        half = len(y) // 2
        for n in sizes:
            rows = np.r_[np.random.default_rng(0).permutation(half)[:n], half : 2 * half]
            yield f"{file.stem}, {n} rows", Z[rows], y[rows], n


def compare_with_grid_search(folder: Path | None, sizes: list[int]) -> None:
    for name, Z, y, n in data_sets(folder, sizes):
        fitted, test, classes = slice(n), slice(n, None), np.unique(y)
        for kind in MAPS:
            seconds, losses, alphas = [], [], []
            for alpha in ("auto", "loo", None):
                start = time.process_time()
                value = grid_search(kind, Z[fitted], y[fitted], classes) if alpha is None else alpha
                c = kind(alpha=value, classes=classes).fit(Z[fitted], y[fitted])
                seconds.append(time.process_time() - start)
                alphas.append(c.alpha_)
                losses.append(log_loss(y[test], c.predict_proba(Z[test]), labels=classes))
            print(
                f"{name:38} {kind.__name__:14} test log loss: auto {losses[0]:.4f}, loo "
                f"{losses[1]:.4f} ({alphas[1]:g}), grid search {losses[2]:.4f} ({alphas[2]:g}); "
                f"seconds of CPU {seconds[0]:.2f}, {seconds[1]:.2f}, {seconds[2]:.2f}: "
                f"1/{seconds[2] / seconds[1]:.0f}",
                flush=True,
            )


def compare_path_with_separate_fits() -> None:
    for n, K in ((5000, 10), (5000, 100)):
        Z, y = logits(n, K)
        rows = MemoryRows(Z, y, None)
        L = log_softmax(fit_inverse_temperature(rows).value * Z, axis=1)
        strengths = [Regularization.rule(K, n, alpha) for alpha in ALPHAS]
        objectives = [Objective(MatrixMap(), MemoryRows(L, y, None), each) for each in strengths]
        times = []
        for follows in (False, True):
            start, x = time.perf_counter(), None
            for objective in objectives:
                x = with_one_blas_thread(best_parameters, objective, 1e-5, 500, x).x
                x = x if follows else None
            times.append(time.perf_counter() - start)
        print(
            f"path, {n} x {K}, {len(ALPHAS)} strengths: {times[1]:.2f} s, separate fits "
            f"{times[0]:.2f} s"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--records", type=Path)
    parser.add_argument("--rows", type=int, nargs="+", default=[500, 5000])
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    compare_path_with_separate_fits()
    compare_with_refits()
    compare_with_grid_search(args.records, args.rows)


if __name__ == "__main__":
    main()
