"""Methods of other packages, by entry points: an encoder of one's own is named in a configuration like any other.

A package states in its `pyproject.toml` what it has, under the name that configurations use:

    [project.entry-points."leakledger.encoders"]
    tally = "leakledger_tally.encoder:Tally"

Groups: `leakledger.encoders`, `.scalers`, `.attacks`, `.defenses`, and `.readers` of tables by suffix (".jsonl").
Whatever is installed is registered when this module is imported, which the configuration does. A plugin that cannot be
loaded, or takes a name that is taken, is left out and listed in `FAILED`: the others work, and nobody is told that a
method is unknown which is merely broken. A plugin is code that runs with the audit's rights: install what you trust.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from leakledger.attacks import ATTACKS, Attack
from leakledger.defenses import DEFENSES, Defense
from leakledger.preprocess.data.readers import READERS
from leakledger.preprocess.encoders import ENCODERS, Encoder
from leakledger.preprocess.messages.base import KINDS, check_kind
from leakledger.preprocess.scalers import SCALERS, Scaler


@dataclass(frozen=True)
class Group:
    """A table that plugins add to: what they must be a subclass of (None: any callable), and what names them there."""

    table: dict[str, Any]
    base: type | None
    named: Callable[[Any], str]


GROUPS = {
    "leakledger.encoders": Group(ENCODERS, Encoder, lambda e: str(e.name)),
    "leakledger.scalers": Group(SCALERS, Scaler, lambda s: str(s.name)),
    "leakledger.attacks": Group(ATTACKS, Attack, lambda a: str(a.technique)),
    "leakledger.defenses": Group(DEFENSES, Defense, lambda d: str(d.name)),
    "leakledger.readers": Group(READERS, None, lambda r: ""),
}
FAILED: dict[str, str] = {}
"""Name of a plugin that is installed and was left out -> why."""
DISTRIBUTIONS: dict[str, str] = {}
"""Distribution -> version, of every plugin that was registered: results depend on them."""

ATTACKS_OF: dict[str, str] = {}
"""Attack of a plugin -> its distribution: results depend on its version, and so does what they may be compared with."""


def register(points: Iterable[tuple[str, EntryPoint]]) -> None:
    """Adds the plugins behind (group, entry point) to their tables."""
    for group, point in points:
        try:
            _add(GROUPS[group], point)
        except Exception as error:  # whatever a foreign package does wrong, the others are to work
            FAILED[point.name] = f"{point.value}: {type(error).__name__}: {' '.join(str(error).split())}"


def failure(name: str) -> str:
    """What is to be said of `name` beside that it is unknown; empty where no plugin of that name is installed."""
    return f" (a plugin of that name is installed and cannot be used: {FAILED[name]})" if name in FAILED else ""


def _add(group: Group, point: EntryPoint) -> None:
    thing = point.load()
    if group.base is not None and not (isinstance(thing, type) and issubclass(thing, group.base)):
        raise TypeError(f"it is no subclass of {group.base.__name__}")
    if not callable(thing):
        raise TypeError("it cannot be called")
    for kind in [k for k in KINDS.values() if _package(k) == _package(thing)]:
        check_kind(kind)
    if (own := group.named(thing) or point.name) != point.name:
        raise ValueError(f"it calls itself {own!r}; name the entry point so")
    known = group.table.setdefault(point.name, thing)
    if known is not thing:
        raise ValueError(f"the name is that of {known.__module__}.{known.__qualname__}; choose another")
    if point.dist is not None:
        DISTRIBUTIONS[point.dist.name] = point.dist.version
        if group.base is Attack:
            ATTACKS_OF[point.name] = point.dist.name


def _package(thing: Any) -> str:
    return str(thing.__module__).partition(".")[0]


def _installed() -> Iterable[tuple[str, EntryPoint]]:
    return [(group, point) for group in GROUPS for point in entry_points(group=group)]


def versions_of_plugins() -> dict[str, str]:
    """Distribution -> version of the plugins that are registered."""
    return dict(sorted(DISTRIBUTIONS.items()))


register(_installed())
