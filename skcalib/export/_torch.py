"""Calibrators as modules of torch."""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING, Any

from skcalib.meta import PriorShift
from skcalib.scaling import (
    EnsembleTemperatureScaling,
    OrderPreservingScaling,
    PlattScaling,
    TemperatureScaling,
)
from skcalib.scaling._linear import _LinearScaling
from skcalib.selection import AutoCalibrator
from skcalib.selection._candidates import Uncalibrated, Uniform

from ._chain import CALIBRATORS, chain_of

if TYPE_CHECKING:
    import torch

DTYPES = ("float32", "float64")


def to_torch(calibrator: Any, *, dtype: str = "float32") -> torch.nn.Module:
    r"""A fitted calibrator, or a pipeline of calibrators, as a module of torch.

    The module takes logits and returns calibrated logits, whose softmax are the probabilities, on
    any device and with gradients. It can be put behind a network, as in
    ``torch.nn.Sequential(network, to_torch(calibrator))``, scripted, compiled and saved, and then
    needs neither skcalib nor scikit-learn.

    Parameters
    ----------
    calibrator : calibrator or Pipeline
        A fitted :class:`~skcalib.TemperatureScaling`, :class:`~skcalib.VectorScaling`,
        :class:`~skcalib.MatrixScaling`, :class:`~skcalib.DirichletCalibration`,
        :class:`~skcalib.OrderPreservingScaling`, :class:`~skcalib.EnsembleTemperatureScaling`,
        :class:`~skcalib.PlattScaling`, :class:`~skcalib.PriorShift` or
        :class:`~skcalib.AutoCalibrator` that mixes these, or a pipeline of them.
    dtype : {"float32", "float64"}, default="float32"
        Precision of the parameters, which the methods of the module, such as ``double()``, change.

    Returns
    -------
    torch.nn.Module
        Its input are logits (..., n_columns), in float16, bfloat16, float32 or float64, and its
        output are calibrated logits of the same shape and dtype, as of ``transform`` up to a
        constant per row. It is a :class:`torch.nn.Sequential` for a pipeline.

    Raises
    ------
    ImportError
        If torch is not installed.
    NotFittedError
        If it is not fitted.
    TypeError
        If it is not one of these calibrators.
    ValueError
        If ``dtype`` is none of the two.

    See Also
    --------
    to_onnx : All calibrators, for other runtimes.

    Notes
    -----
    Fitted values are parameters that need no gradient, so that training of a network before the
    module leaves them as they are; ``module.requires_grad_()`` makes them trainable. Logits of
    -inf, of masked classes, stay so, and the gradients of the others are finite. The module does
    not check its input: NaN gives NaN, and so does a masked class for matrix scaling, which takes
    none.

    Examples
    --------
    >>> from skcalib import TemperatureScaling
    >>> from skcalib.datasets import make_logits
    >>> logits, y = make_logits(500, 3, random_state=0)
    >>> calibrator = TemperatureScaling().fit(logits, y)

    .. code-block:: python

        import torch
        from skcalib.export import to_torch

        model = torch.nn.Sequential(network, to_torch(calibrator), torch.nn.Softmax(-1))
    """
    chain = chain_of(calibrator, "to_torch")
    try:
        import torch
    except ImportError as missing:
        raise ImportError("to_torch needs torch: pip install 'skcalib[torch]'.") from missing
    if dtype not in DTYPES:
        raise ValueError(f"dtype must be 'float32' or 'float64', got {dtype!r}.")
    from ._torch_modules import Module

    precision = getattr(torch, dtype)
    modules = [Module(_checked_steps(part, precision), part.n_features_in_) for part in chain]
    return modules[0] if len(modules) == 1 else torch.nn.Sequential(*modules)


def _checked_steps(calibrator: Any, dtype: torch.dtype) -> list[torch.nn.Module]:
    """The steps of a calibrator, of exactly a class of skcalib."""
    if type(calibrator) in CALIBRATORS.values():
        found: list[torch.nn.Module] = _steps_of(calibrator, dtype)
        return found
    return _refused(calibrator)


def _refused(calibrator: Any) -> Any:
    raise TypeError(
        f"{type(calibrator).__name__} has no module of torch. Use to_onnx, which exports all "
        "calibrators of skcalib, or another calibrator, such as OrderPreservingScaling."
    )


@singledispatch
def _steps_of(calibrator: Any, dtype: torch.dtype) -> Any:  # noqa: ARG001
    """Modules that follow one another, from logits to calibrated logits."""
    return _refused(calibrator)


@_steps_of.register
def _steps_of_temperature_scaling(calibrator: TemperatureScaling, dtype: Any) -> Any:
    from ._torch_modules import Temperature

    return [Temperature(calibrator.temperature_, dtype), *_mixed(calibrator.smoothing_, dtype)]


@_steps_of.register
def _steps_of_linear_scaling(calibrator: _LinearScaling, dtype: Any) -> Any:
    from ._torch_modules import Linear, Temperature

    normalized, mixed = calibrator.normalize_, _mixed(calibrator.smoothing_, dtype)
    linear = Linear(calibrator.coef_, calibrator.intercept_, dtype, normalized=normalized)
    before = [Temperature(calibrator.temperature_, dtype), *mixed] if normalized else []
    return [*before, linear, *_mixed(calibrator.smoothing_, dtype)]


@_steps_of.register
def _steps_of_order_preserving_scaling(calibrator: OrderPreservingScaling, dtype: Any) -> Any:
    from ._torch_modules import Increasing, Temperature

    increasing = Increasing(calibrator.knots_, calibrator.slopes_, dtype)
    mixed = _mixed(calibrator.smoothing_, dtype)
    return [Temperature(calibrator.temperature_, dtype), *mixed, increasing]


@_steps_of.register
def _steps_of_ensemble(calibrator: EnsembleTemperatureScaling, dtype: Any) -> Any:
    from ._torch_modules import Mixture, Temperature

    *weights, uniform = calibrator.weights_.tolist()
    members = [Temperature(calibrator.temperature_, dtype), Temperature(1.0, dtype)]
    some = [(m, w) for m, w in zip(members, weights, strict=True) if w > 0]
    if not some:
        return _uniform()
    members, weights = map(list, zip(*some, strict=True))
    shares = [weight / sum(weights) for weight in weights]
    return [Mixture(members, shares, dtype), *_mixed(uniform, dtype)]


@_steps_of.register
def _steps_of_platt_scaling(calibrator: PlattScaling, dtype: Any) -> Any:
    from ._torch_modules import OneVsRest

    return [OneVsRest(calibrator.coef_, calibrator.intercept_, dtype)]


@_steps_of.register
def _steps_of_auto_calibrator(calibrator: AutoCalibrator, dtype: Any) -> Any:
    from ._torch_modules import Mixture, Steps

    members = [Steps(_checked_steps(part, dtype)) for part in calibrator.components_]
    mixture = Mixture(members, calibrator.component_weights_, dtype)
    return [mixture, *_mixed(calibrator.smoothing_, dtype)]


@_steps_of.register
def _steps_of_prior_shift(calibrator: PriorShift, dtype: Any) -> Any:
    from ._torch_modules import Linear

    ones = [1.0] * len(calibrator.log_ratios_)
    return [Linear(ones, calibrator.log_ratios_, dtype, normalized=False)]


@_steps_of.register
def _steps_of_uncalibrated(calibrator: Uncalibrated, dtype: Any) -> Any:  # noqa: ARG001
    return []


@_steps_of.register
def _steps_of_uniform(calibrator: Uniform, dtype: Any) -> Any:  # noqa: ARG001
    return _uniform()


def _uniform() -> Any:
    from ._torch_modules import Uniform as UniformModule

    return [UniformModule()]


def _mixed(smoothing: float, dtype: Any) -> list[Any]:
    from ._torch_modules import Mixed

    return [Mixed(smoothing, dtype)] if smoothing > 0 else []
