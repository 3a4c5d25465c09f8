"""Where a case is while it runs: what its process does next, told to whoever watches, and never part of a result.

A process has one listener (`listen`), set by who runs cases in it; without one, steps are told to nobody. Steps are
weighted by what they cost in a small case, so that a share of them is, roughly, a share of the time.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

FEDERATION, RECORDS, OTHER = 5.0, 10.0, 1.0  # an attack on records plays its controls as often as it is played
LONGEST = 200  # characters: a step fits into one atomic write to a pipe


@dataclass(frozen=True)
class Step:
    """What `case` begins to do, and the share of its work that is done by then."""

    case: str
    what: str
    share: float


Listener = Callable[[Step], None]
_listeners: list[Listener] = []


@contextmanager
def listening(listener: Listener | None) -> Iterator[None]:
    """Steps of this process are told to `listener` inside."""
    if listener is None:
        yield
        return
    listen(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def listen(listener: Listener) -> None:
    """From now on, steps of this process are told to `listener`."""
    _listeners.append(listener)


def tell(case: str, what: str, share: float) -> None:
    """Tells what a case begins to do."""
    pass_on(Step(case[:LONGEST], what[:LONGEST], share))


def pass_on(told: Any) -> None:
    """A listener that is gone is no reason to stop."""
    for listener in _listeners:
        with suppress(OSError):
            listener(told)


class Steps:
    """The steps of one case: its federation, then each attack by each adversary."""

    def __init__(self, case: str, attacks: Sequence[tuple[str, bool]], adversaries: int) -> None:
        """`attacks`: names, and whether each is on records."""
        self._case, self._done = case, 0.0
        self._weights = {name: RECORDS if on_records else OTHER for name, on_records in attacks}
        self._total = FEDERATION + adversaries * sum(self._weights.values())

    def federation(self) -> None:
        tell(self._case, "federation", 0.0)
        self._done = FEDERATION

    def attack(self, name: str, observers: Sequence[str]) -> None:
        tell(self._case, f"{name} by {'+'.join(observers)}", self._done / self._total)
        self._done += self._weights[name]
