"""Functions, classes and constants that code of others finds and leaves: this package's, and those of PyTorch, NumPy
and SciPy that it computes with. A method that replaced one of them would decide what other attacks and later cases
compute, in a worker process as in one's own.

It keeps what is replaced by mistake, or to get at something, as libraries do that patch others. Modules of this package
that such code is the first to load are looked at as soon as they are there. What is not looked at, such as what a
function itself holds, may still change: install what you trust.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from inspect import isfunction
from types import ModuleType
from typing import Any

from leakledger.preprocess.method_errors import OWN
from leakledger.preprocess.raised import package_of
from leakledger.preprocess.told_failure import ToldFailure

MODULES = (
    *("numpy", "numpy.linalg", "numpy.random", "scipy.linalg", "scipy.optimize", "scipy.special", "scipy.stats"),
    *("torch", "torch.autograd", "torch.linalg", "torch.nn", "torch.nn.functional", "torch.optim"),
)
CLASSES = (("torch", "Tensor"), ("torch.nn", "Module"), ("torch.nn", "Linear"))
LOOSE = {("torch", "manual_seed"), ("torch", "Storage")}  # replaced by PyTorch itself: its compiler, the default type

Noted = tuple[Any, dict[Any, Any]]  # a module, class or table, and what it held
Others = dict[tuple[Any, int], tuple[Any, Any]]  # name and identity of what stood in a place -> it, what belongs there


@contextmanager
def code_kept(by: str = "code of a plugin") -> Iterator[None]:
    """What is replaced inside is as before after it, however it ends. Raises ToldFailure then, which names it: what was
    computed meanwhile was computed with something else.
    """
    before = _noted(_holders())
    try:
        with _loads_noted() as loaded:
            yield
    finally:
        others: Others = {}
        told = [text for holder, held in (*before, *loaded) for text in _put_back(holder, held, others)]
        for holder, held in loaded:
            _put_back_copies(holder, held, others)
        if told and not isinstance(sys.exception(), KeyboardInterrupt):
            more = f" (and {len(told) - 1} more)" if len(told) > 1 else ""
            raise ToldFailure(
                f"{by} replaced {told[0]}{more}; it was put back, and nothing that was computed meanwhile "
                "is kept: use copies of one's own in its place"
            )


class _Noting(MetaPathFinder):
    """Finds what other finders do, and notes what is in a module of this package once that is loaded."""

    def __init__(self) -> None:
        self.noted: list[list[Noted]] = []  # one list for each guard that is open

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        if package_of(fullname) != OWN:
            return None
        finders = (f for f in sys.meta_path if f is not self)
        spec = next(filter(None, (f.find_spec(fullname, path, target) for f in finders)), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _NotingLoader(spec.loader, self.noted)
        return spec


class _NotingLoader(Loader):
    def __init__(self, loader: Loader, noted: Iterable[list[Noted]]) -> None:
        self._loader, self._noted = loader, noted

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        found = _noted(_holders_in([module]))
        for noted in self._noted:
            noted += found


_NOTING = _Noting()


@contextmanager
def _loads_noted() -> Iterator[list[Noted]]:
    """Yields what is in the modules of this package that are loaded inside, as it was when they were."""
    loaded: list[Noted] = []
    _NOTING.noted.append(loaded)
    if _NOTING not in sys.meta_path:
        sys.meta_path.insert(0, _NOTING)
    try:
        yield loaded
    finally:
        _NOTING.noted[:] = [noted for noted in _NOTING.noted if noted is not loaded]
        if not _NOTING.noted:
            with suppress(ValueError):
                sys.meta_path.remove(_NOTING)


def _noted(holders: Iterable[Any]) -> list[Noted]:
    return [(holder, dict(_held(holder))) for holder in holders]


def _holders() -> list[Any]:
    """Modules, classes and tables, each once."""
    own = [m for name, m in list(sys.modules.items()) if package_of(name) == OWN and m is not None]
    others = [sys.modules[name] for name in MODULES if name in sys.modules]
    classes = [getattr(sys.modules[module], name) for module, name in CLASSES if module in sys.modules]
    return list({id(holder): holder for holder in [*_holders_in(own), *others, *classes]}.values())


def _holders_in(own: Iterable[ModuleType]) -> list[Any]:
    """Modules of this package, with the classes and tables in them."""
    found: list[Any] = []
    for module in own:
        values = list(vars(module).values())
        found += [module, *(v for v in values if isinstance(v, type) and v.__module__ == module.__name__)]
        found += [v for v in values if type(v) is dict]
    return found


def _held(holder: Any) -> Mapping[Any, Any]:
    """What is looked at of it: of tables, and of others' modules, no data, which may change."""
    if isinstance(holder, dict):
        return {key: value for key, value in holder.items() if callable(value)}
    if isinstance(holder, type):  # what libraries note of a class is under such names, and no function
        return {name: v for name, v in vars(holder).items() if isfunction(v) or not name.startswith("__")}
    if package_of(holder.__name__) == OWN:
        return dict(vars(holder))
    return {name: v for name, v in vars(holder).items() if callable(v) and (holder.__name__, name) not in LOOSE}


def _put_back(holder: Any, held: Mapping[Any, Any], others: Others) -> Iterator[str]:
    """Puts back what is another one now, or hides what was inherited. Yields what it is called, and by what; what stood
    in its place is among the `others` from then on.
    """
    now = dict(_held(holder))
    where = f"{holder.__module__}.{holder.__qualname__}" if isinstance(holder, type) else ""
    for name in [name for name in now if name not in held and isinstance(holder, type)]:
        if any(name in vars(base) for base in holder.__mro__[1:]):
            delattr(holder, name)
            yield f"{where}.{name}{_by(now[name])}"
    for name, value in held.items():
        if isinstance(holder, dict):
            if (replaced := holder.get(name)) is not value:
                holder[name] = value
                others[name, id(replaced)] = replaced, value
                yield f"{name!r} in a table of {OWN}"
        elif vars(holder).get(name) is not value:
            replaced = vars(holder).get(name)
            setattr(holder, name, value)
            others[name, id(replaced)] = replaced, value
            yield f"{where or holder.__name__}.{name}{_by(replaced)}"


def _put_back_copies(holder: Any, held: dict[Any, Any], others: Others) -> None:
    """The same for a module that was loaded meanwhile and imported one of the `others` under its name, also in what
    guards around this one noted of it.
    """
    for name, value in list(held.items()):
        if (name, id(value)) in others and isinstance(holder, ModuleType):
            held[name] = others[name, id(value)][1]
            setattr(holder, name, held[name])


def _by(other: Any) -> str:
    return f" by {other.__module__}.{other.__qualname__}" if hasattr(other, "__qualname__") else ""
