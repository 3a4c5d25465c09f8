"""What is audited in two worlds: a mechanism with a claim, many runs of it in both worlds, and one audit of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leakledger.audit.dp_audit.two_worlds import TwoWorldBound, audit_two_worlds

Worlds = tuple[NDArray[Any], NDArray[Any]]
Draw = Callable[[int, np.random.Generator, float], Worlds]


@dataclass(frozen=True)
class Audited:
    """One mechanism: `epsilon` at `delta` is claimed; `worlds(samples, coins, strength)` gives so many runs, each one
    number, in each of two worlds that one unit tells apart as well as it can. `strength` below 1 weakens the noise and
    leaves the claim: a mechanism that an audit must refute.
    """

    name: str
    epsilon: float
    delta: float
    worlds: Draw


@dataclass(frozen=True)
class Audit:
    """What one audit shows of one mechanism, and whether it refutes the claim."""

    mechanism: Audited
    bound: TwoWorldBound

    @property
    def refuted(self) -> bool:
        return self.bound.epsilon > self.mechanism.epsilon


def audit(mechanism: Audited, samples: int, coins: np.random.Generator, strength: float = 1.0) -> Audit:
    """One audit from so many samples of each world."""
    return audits(mechanism, 1, samples, coins, strength)[0]


def audits(
    mechanism: Audited, count: int, samples: int, coins: np.random.Generator, strength: float = 1.0
) -> list[Audit]:
    """So many independent audits; their worlds are drawn at once, which takes a tenth of the time."""
    worlds = mechanism.worlds(count * samples, coins, strength)
    pairs = zip(*(np.asarray(w).reshape(count, samples) for w in worlds), strict=True)
    bounds = (audit_two_worlds(one, other, delta=mechanism.delta, coins=coins) for one, other in pairs)
    return [Audit(mechanism, b) for b in bounds]
