"""The rules of decision that a configuration states before anything is measured."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Policy:
    """`floor`: the advantage that counts as a leak from. `ceiling`: what an advantage must provably stay below for the
    verdict that nothing leaks. `alpha`: the chance, over the whole audit, of calling something a leak that is none, and
    of each single verdict that nothing leaks of being wrong.
    """

    floor: float = 0.01
    ceiling: float = 0.1
    alpha: float = 0.05


def policy_of(config: Mapping[str, Any]) -> Policy:
    """The policy of a configuration in force, as results keep it; of one without these values the defaults."""
    audit = config.get("audit", {})
    return Policy(**{name: float(audit[name]) for name in ("floor", "ceiling", "alpha") if name in audit})
