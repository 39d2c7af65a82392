"""Fits and probabilities of tensors, on a GPU if there is one, against the usual recipes in torch.

Temperature, vector and matrix scaling of float32 logits, in turn in one process. The recipes are

- *temperature*: ``torch.optim.LBFGS`` on the log loss, with the start, the learning rate and the 50
  iterations of the reference implementation of Guo et al. (ICML 2017).
- *vector and matrix*: full batches from that temperature, without regularization, by
  ``torch.optim.LBFGS`` with a line search, or by Adam. They stop as soon as their log loss on the
  rows is within 5e-4 of that of skcalib, which they are told, or after 1000 passes.
- *probabilities*: the softmax of the scores with parameters that are given.

Prints times, their ratio, and the log loss on the rows of the fit, of which a regularized fit need
not have the least. With ``--numpy`` also the time of skcalib with NumPy's arrays. Run::

    python benchmarks/bench_tensors.py [--sizes 25000x1000 1000000x100] [--device cuda]
        [--methods temperature vector matrix] [--repeat 3] [--threads 2] [--numpy]
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # before scikit-learn is imported

import torch
from sklearn import config_context
from timing import medians
from torch.nn.functional import cross_entropy

from skcalib import MatrixScaling, TemperatureScaling, VectorScaling
from skcalib.datasets import make_logits

METHODS = {"temperature": TemperatureScaling, "vector": VectorScaling, "matrix": MatrixScaling}
ON_GPU = ["1000x10", "50000x10", "5000x100", "25000x1000", "1000000x100"]
ON_CPU = ["1000x10", "20000x10", "5000x100", "20000x100"]

# Passes after which a recipe gives up.
MOST_PASSES = 1000

# Recipes stop at log losses no more than this above that of skcalib, whose mixture with the uniform
# distribution they lack.
WITHIN = 5e-4

# Seconds of a first run from which on a task is not repeated.
SLOW = 5.0


class ReachedError(Exception):
    """The log loss is as low as that of skcalib."""


def temperature_in_torch(Z: Any, y: Any) -> Any:
    """The temperature of the recipe."""
    T = torch.full((1,), 1.5, device=Z.device, requires_grad=True)
    optimizer = torch.optim.LBFGS([T], lr=0.01, max_iter=50)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = cross_entropy(Z / T, y)
        loss.backward()
        return loss

    optimizer.step(closure)
    return T.detach()


def map_in_torch(method: str, optimizer: str, target: float, Z: Any, y: Any) -> list[Any]:
    """Parameters of the recipe, whose log loss is at most the target if it got there."""
    K, T = Z.shape[1], temperature_in_torch(Z, y)
    unit = torch.eye(K, device=Z.device) if method == "matrix" else torch.ones(K, device=Z.device)
    parameters = [unit / T, torch.zeros(K, device=Z.device)]
    for parameter in parameters:
        parameter.requires_grad_()
    search: dict[str, Any] = {"max_iter": MOST_PASSES, "line_search_fn": "strong_wolfe"}
    if optimizer == "Adam":
        steps, found = MOST_PASSES, torch.optim.Adam(parameters, lr=0.01)
    else:
        steps, found = 1, torch.optim.LBFGS(parameters, **search)

    def closure() -> Any:
        found.zero_grad()
        loss = cross_entropy(scores(method, parameters, Z), y)
        if loss.item() <= target:
            raise ReachedError
        loss.backward()
        return loss

    try:
        for _ in range(steps):
            found.step(closure)
    except ReachedError:
        pass
    return [parameter.detach() for parameter in parameters]


def scores(method: str, parameters: list[Any], Z: Any) -> Any:
    if method == "temperature":
        return Z / parameters[0]
    slopes, offsets = parameters
    return Z @ slopes.T + offsets if method == "matrix" else Z * slopes + offsets


def log_loss(P: Any, y: Any) -> float:
    return -float(torch.log(P[torch.arange(len(y), device=P.device), y]).double().mean())


def finished(task: Callable[[], Any], device: torch.device) -> Callable[[], Any]:
    """The task, with what it has queued on a GPU."""

    def run() -> Any:
        result = task()
        if device.type == "cuda":
            torch.cuda.synchronize()
        return result

    return run


def recipes(method: str, target: float) -> dict[str, Callable[[Any, Any], list[Any]]]:
    if method == "temperature":
        return {"LBFGS": lambda Z, y: [temperature_in_torch(Z, y)]}
    return {
        name: lambda Z, y, name=name: map_in_torch(method, name, target, Z, y)
        for name in ("LBFGS", "Adam")
    }


def lines(method: str, Z: Any, y: Any, *, repeat: int, with_numpy: bool) -> Iterator[str]:
    """A line for each recipe, one for probabilities, and one for NumPy."""
    kind = METHODS[method]
    fitted = kind().fit(Z, y)
    loss = log_loss(fitted.predict_proba(Z), y)
    found = recipes(method, loss + WITHIN)
    tasks = {"skcalib": lambda: kind().fit(Z, y)}
    tasks |= {name: lambda recipe=recipe: recipe(Z, y) for name, recipe in found.items()}
    if with_numpy:
        host = Z.cpu().numpy(), y.cpu().numpy()
        tasks["NumPy"] = lambda: kind().fit(*host)
    times = medians({n: finished(t, Z.device) for n, t in tasks.items()}, repeat, SLOW)
    for name, recipe in found.items():
        reached = log_loss(torch.softmax(scores(method, recipe(Z, y), Z), dim=1), y)
        yield line(f"fit, {name}", times["skcalib"], times[name], f"{loss:.5f} {reached:.5f}")
    if with_numpy:
        yield line("fit, NumPy", times["skcalib"], times["NumPy"])
    parameters = next(iter(found.values()))(Z, y)
    tasks = {
        "skcalib": lambda: fitted.predict_proba(Z),
        "torch": lambda: torch.softmax(scores(method, parameters, Z), dim=1),
    }
    times = medians({n: finished(t, Z.device) for n, t in tasks.items()}, max(repeat, 5), SLOW)
    yield line("predict_proba", times["skcalib"], times["torch"])


def line(task: str, ours: float, theirs: float, losses: str = "") -> str:
    return f"{task:16}{1e3 * ours:10.1f}{1e3 * theirs:10.1f}{ours / theirs:8.2f}  {losses}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--sizes", nargs="*", help="rows x classes")
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2, help="of torch, without a GPU")
    parser.add_argument("--numpy", action="store_true", help="also with NumPy's arrays")
    args = parser.parse_args()
    device = torch.device(args.device)
    if device.type == "cuda":
        print(f"On {torch.cuda.get_device_name()}, torch {torch.__version__}")
    else:
        torch.set_num_threads(args.threads)
        print(
            f"No GPU: on the {device.type} with {args.threads} threads, torch {torch.__version__}"
        )
    warnings.simplefilter("ignore")
    for size in args.sizes or (ON_GPU if device.type == "cuda" else ON_CPU):
        n, K = map(int, size.split("x"))
        Z, y = make_logits(n, K, temperature=2.0, dtype="float32", random_state=0)
        tensors = torch.asarray(Z, device=device), torch.asarray(y, device=device)
        for method in args.methods:
            print(f"\n{method}, {n} x {K}: ms of skcalib, of the other, ratio, log loss of both")
            with config_context(array_api_dispatch=True):
                for text in lines(method, *tensors, repeat=args.repeat, with_numpy=args.numpy):
                    print(text, flush=True)


if __name__ == "__main__":
    main()
