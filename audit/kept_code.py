"""Functions, classes and constants that code of others finds and leaves: this package's, and those of PyTorch, NumPy
and SciPy that it computes with. A method that replaced one of them would decide what other attacks and later cases
compute, in a worker process as in one's own.

It keeps what is replaced by mistake, or to get at something, as libraries do that patch others. What is not looked at,
such as what a function itself holds, may still change: install what you trust.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from inspect import isfunction
from typing import Any

from leakledger.preprocess.method_errors import OWN, package_of
from leakledger.preprocess.told_failure import ToldFailure

MODULES = (
    *("numpy", "numpy.linalg", "numpy.random", "scipy.linalg", "scipy.optimize", "scipy.special", "scipy.stats"),
    *("torch", "torch.autograd", "torch.linalg", "torch.nn", "torch.nn.functional", "torch.optim"),
)
CLASSES = (("torch", "Tensor"), ("torch.nn", "Module"), ("torch.nn", "Linear"))
LOOSE = {("torch", "manual_seed"), ("torch", "Storage")}  # replaced by PyTorch itself: its compiler, the default type


@contextmanager
def code_kept(by: str = "code of a plugin") -> Iterator[None]:
    """What is replaced inside is as before after it, however it ends. Raises ToldFailure then, which names it: what was
    computed meanwhile was computed with something else.
    """
    before = [(holder, dict(_held(holder))) for holder in _holders()]
    try:
        yield
    finally:
        told = [text for holder, held in before for text in _put_back(holder, held)]
        if told and not isinstance(sys.exception(), KeyboardInterrupt):
            more = f" (and {len(told) - 1} more)" if len(told) > 1 else ""
            raise ToldFailure(
                f"{by} replaced {told[0]}{more}; it was put back, and nothing that was computed meanwhile "
                "is kept: use copies of one's own in its place"
            )


def _holders() -> list[Any]:
    """Modules, classes and tables, each once."""
    own = [m for name, m in list(sys.modules.items()) if package_of(name) == OWN and m is not None]
    found: list[Any] = [*own, *(sys.modules[name] for name in MODULES if name in sys.modules)]
    for module in own:
        values = list(vars(module).values())
        found += [v for v in values if isinstance(v, type) and v.__module__ == module.__name__]
        found += [v for v in values if type(v) is dict]
    found += [getattr(sys.modules[module], name) for module, name in CLASSES if module in sys.modules]
    return list({id(holder): holder for holder in found}.values())


def _held(holder: Any) -> Mapping[Any, Any]:
    """What is looked at of it: of tables, and of others' modules, no data, which may change."""
    if isinstance(holder, dict):
        return {key: value for key, value in holder.items() if callable(value)}
    if isinstance(holder, type):  # what libraries note of a class is under such names, and no function
        return {name: v for name, v in vars(holder).items() if isfunction(v) or not name.startswith("__")}
    if package_of(holder.__name__) == OWN:
        return dict(vars(holder))
    return {name: v for name, v in vars(holder).items() if callable(v) and (holder.__name__, name) not in LOOSE}


def _put_back(holder: Any, held: Mapping[Any, Any]) -> Iterator[str]:
    """Puts back what is another one now, or hides what was inherited. Yields what it is called, and by what."""
    now = dict(_held(holder))
    where = f"{holder.__module__}.{holder.__qualname__}" if isinstance(holder, type) else ""
    for name in [name for name in now if name not in held and isinstance(holder, type)]:
        if any(name in vars(base) for base in holder.__mro__[1:]):
            delattr(holder, name)
            yield f"{where}.{name}{_by(now[name])}"
    for name, value in held.items():
        if isinstance(holder, dict):
            if holder.get(name) is not value:
                holder[name] = value
                yield f"{name!r} in a table of {OWN}"
        elif vars(holder).get(name) is not value:
            replaced = vars(holder).get(name)
            setattr(holder, name, value)
            yield f"{where or holder.__name__}.{name}{_by(replaced)}"


def _by(other: Any) -> str:
    return f" by {other.__module__}.{other.__qualname__}" if hasattr(other, "__qualname__") else ""
