"""Calibrators as torch modules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from skcalib._input.parameters import import_optional
from skcalib.selection import AutoCalibrator

from ._calibrators import checked_dtype, fitted_chain

if TYPE_CHECKING:
    import torch


def to_torch(calibrator: Any, *, dtype: str = "float32") -> torch.nn.Module:
    r"""Convert a fitted calibrator, or a pipeline of calibrators, to a torch module.

    The module maps logits to calibrated logits; their softmax is the probabilities. It works on any
    device and with gradients. It can follow a network, as in
    ``torch.nn.Sequential(network, to_torch(calibrator))``, compiled, and exported by
    ``torch.export`` as a program that needs neither skcalib nor scikit-learn.

    Parameters
    ----------
    calibrator : calibrator or Pipeline
        A fitted calibrator of :mod:`skcalib.scaling`, a :class:`~skcalib.PriorShift`, an
        :class:`~skcalib.AutoCalibrator` that mixes these, or a pipeline of them.
    dtype : {"float32", "float64"}, default="float32"
        Precision of the parameters. Methods such as ``double()`` change it.

    Returns
    -------
    torch.nn.Module
        The module accepts logits (..., n_columns) in float16, bfloat16, float32 or float64. It
        returns calibrated logits with equal shape and dtype, equal to ``transform`` up to a
        constant per row.

    Raises
    ------
    ImportError
        If torch is not installed.
    NotFittedError
        If ``calibrator`` is not fitted.
    TypeError
        If ``calibrator`` is none of these calibrators, and its class is not derived from them.
    ValueError
        If ``dtype`` is unknown.

    See Also
    --------
    to_onnx : All calibrators, for other runtimes.

    Notes
    -----
    Temperatures and fitted arrays are parameters without gradients, so that training a network
    before the module does not change them; ``module.requires_grad_()`` makes them trainable.
    Smoothing, ensemble weights and knots are constants, and so are attributes that a derived class
    adds. Masked classes keep logits of -inf, and the
    other logits have finite gradients. The module does not check its input: NaN remains NaN, and
    matrix scaling returns NaN for rows with masked classes.

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
    chain = fitted_chain(calibrator, "to_torch")
    torch = import_optional("torch", "to_torch", "'skcalib[torch]'")
    precision = getattr(torch, checked_dtype(dtype).name)
    _check_is_smooth(chain)
    from ._torch_modules import Module

    module = Module(chain, precision)
    module(torch.zeros(1, module.n_columns))  # raises errors of calibrators that cannot be traced
    return module


def _check_is_smooth(chain: Sequence[Any]) -> None:
    """Raise a TypeError if a calibrator does not compute with tensors or has no gradients."""
    for member in chain:
        kind = type(member)
        if isinstance(member, AutoCalibrator):
            for part in member.calibrators_.values():
                _check_is_smooth(fitted_chain(part, "to_torch"))
        elif hasattr(member, "bin_edges_") or not getattr(kind, "_on_device", False):
            raise TypeError(
                f"{kind.__name__} has no module of torch, since it has no gradients or does not "
                "compute with tensors. Use to_onnx, which exports all calibrators of skcalib, or "
                "another calibrator, such as OrderPreservingScaling."
            )
