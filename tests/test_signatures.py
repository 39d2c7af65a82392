"""Signatures of public functions and classes, as ``help`` shows them."""

import importlib
import pkgutil
from inspect import isclass, isfunction, signature

import skcalib


def test_signatures_fit_on_a_few_lines():
    """Annotations are names such as ArrayLike, not the unions that they stand for."""
    modules = [skcalib, *(
        importlib.import_module(module.name)
        for module in pkgutil.walk_packages(skcalib.__path__, "skcalib.")
        if module.name != "skcalib.__main__" and "._" not in module.name
    )]  # fmt: skip
    long = {}
    for module in modules:
        for name in getattr(module, "__all__", []):
            member = getattr(module, name)
            public = vars(member).items() if isclass(member) else []
            for part, f in [(name, member), *((f"{name}.{k}", f) for k, f in public)]:
                if (isclass(f) or isfunction(f)) and not part.split(".")[-1].startswith("_"):
                    length = len(str(signature(f)))
                    if length > 600:
                        long[f"{module.__name__}.{part}"] = length
    assert not long
