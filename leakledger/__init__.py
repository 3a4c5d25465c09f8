"""LeakLedger: a privacy audit for federated learning on tabular data.

The one importable name of an installation. Inside the repository its five packages stand at the top level; here are
relative links to them, so that `leakledger.audit` is `audit/` and nothing of the project collides with a user's own
`audit` or `reports`.

What a script or a notebook needs is here by name, and loaded when it is first used: `run` an audit, `load` one,
`attack` a gradient, `layout_of` its columns, `Recorder` of a transcript. docs/own-code.md shows each.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leakledger.audit.api import Run, load, run
    from leakledger.audit.own_code import AttackResult, attack
    from leakledger.audit.own_transcript import Recorder
    from leakledger.audit.own_update import layout_of

__all__ = ["AttackResult", "Recorder", "Run", "attack", "layout_of", "load", "run"]

_HOMES = {
    "AttackResult": "audit.own_code",
    "Recorder": "audit.own_transcript",
    "Run": "audit.api",
    "attack": "audit.own_code",
    "layout_of": "audit.own_update",
    "load": "audit.api",
    "run": "audit.api",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
