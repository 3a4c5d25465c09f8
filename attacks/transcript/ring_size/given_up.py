"""Where the ranges of the ring begin and end, by the numbers that each party says nobody uses.

With `unused = "drop"` each party tells the server which numbers of its own range it gave up for lower ones of others
("Privacy-preserving tabular data transformation", section 7.1, has no such message). They lie in its range, so that for
the boundaries b_i of the ring

    b_i <= lowest of party i        b_(i+1) >= highest of party i + 1        b_0 <= b_1 <= .. <= b_n.

Where each of two neighbours gives up the number at their boundary, it is known; parties that hold what others before
them hold give up all they have, and then everyone's size from the second such party on is exact.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.observed.ring import Boundaries, Contradiction, payload_of
from leakledger.attacks.transcript.ring_size.posterior import Padding
from leakledger.preprocess.messages import UnusedIds
from leakledger.preprocess.views import View

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Bracketed:
    """`low` and `high` (n + 1, F): between which each boundary lies; and the messages that tell, none without any."""

    bounds: Boundaries
    low: Floats = field(repr=False)
    high: Floats = field(repr=False)
    evidence: frozenset[int]

    @property
    def ends(self) -> Floats:
        """(n + 1, F) the boundaries, NaN where they are not settled."""
        return np.where(self.low == self.high, self.low, np.nan)

    def sizes(self, padding: Padding) -> Iterator[tuple[str, str, int, int]]:
        """(party, feature, fewest, most): between which each size lies. None without messages."""
        for i, party in enumerate(self.bounds.ring if self.evidence else ()):
            fewest = self.low[i + 1] - self.high[i] - padding.noise - padding.pad_to + 1
            most = self.high[i + 1] - self.low[i]
            for k, feature in enumerate(self.bounds.features):
                if np.isfinite(most[k]):
                    yield party, feature, max(int(np.nan_to_num(fewest[k], neginf=0)), 0), int(most[k])


def bracketed(view: View, bounds: Boundaries) -> Bracketed:
    """The boundaries by what parties gave up. Raises Contradiction where that lies outside of what else is known."""
    low, high = np.nan_to_num(bounds.ends, nan=0.0), np.nan_to_num(bounds.ends, nan=np.inf)
    told = list(view.readable(UnusedIds))
    if strangers := {m.sender for m in told}.difference(bounds.ring):
        raise Contradiction(f"{min(strangers)} is none of the ring and gave up numbers ({UnusedIds.topic})")
    for m in told:
        i, numbers = bounds.ring.index(m.sender), payload_of(m).numbers
        for k, feature in enumerate(bounds.features):
            if len(own := np.asarray(numbers.get(feature, ()), np.float64).ravel()):
                high[i, k], low[i + 1, k] = min(high[i, k], own.min()), max(low[i + 1, k], own.max() + 1)
    low, high = np.maximum.accumulate(low), np.minimum.accumulate(high[::-1])[::-1]
    if (low > high).any():
        raise Contradiction(f"a party gave up numbers outside of its range (messages on {UnusedIds.topic})")
    return Bracketed(bounds, low, high, frozenset(m.sequence for m in told))
