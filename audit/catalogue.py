"""Everything that a configuration can name, with a line about each."""

import sys
from collections.abc import Callable, Mapping
from typing import Any

from attacks import ATTACKS
from defenses import DEFENSES
from preprocess.data.embedded import EMBEDDED
from preprocess.data.partition import PARTITIONS
from preprocess.data.suggest import closest
from preprocess.encoders import ENCODERS
from preprocess.scalers import SCALERS

Rows = list[dict[str, Any]]


def _rows(kind: str, table: Mapping[str, Any]) -> Callable[[], Rows]:
    return lambda: [{"kind": kind, "name": name, "about": first_line(thing)} for name, thing in table.items()]


CATALOGUE: dict[str, Callable[[], Rows]] = {
    "data": _rows("data", EMBEDDED),
    "partitions": _rows("partition", PARTITIONS),
    "encoders": _rows("encoder", ENCODERS),
    "scalers": _rows("scaler", SCALERS),
    "defenses": _rows("defense", DEFENSES),
    "attacks": _rows("attack", ATTACKS),
}
TABLES: dict[str, Mapping[str, Any]] = {
    "data": EMBEDDED,
    "partition": PARTITIONS,
    "encoder": ENCODERS,
    "scaler": SCALERS,
    "defense": DEFENSES,
    "attack": ATTACKS,
}


def describe(name: str) -> str:
    """All that is known about `name`, of every kind that has it. Raises ValueError, with a suggestion, for none."""
    found = [f"{kind} {name}\n\n{documentation(table[name])}" for kind, table in TABLES.items() if name in table]
    if not found:
        known = sorted({n for table in TABLES.values() for n in table})
        raise ValueError(f"{name}: nothing is called that{closest(name, known)}; `leakledger list` shows the names")
    return "\n\n".join(found)


def first_line(thing: Any) -> str:
    """What it is, in one line."""
    return documentation(thing).splitlines()[0].strip()


def documentation(thing: Any) -> str:
    """The module's text for a class that has its file to itself, else the object's own."""
    module = sys.modules.get(getattr(thing, "__module__", ""))
    own = isinstance(thing, type) and module is not None and module.__doc__
    reference = getattr(thing, "reference", "")
    text = (module.__doc__ if own and module else thing.__doc__) or ""
    return f"{text.strip()}\n\nReference: {reference}" if reference else text.strip()
