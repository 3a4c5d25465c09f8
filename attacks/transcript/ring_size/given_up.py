"""Where the ranges of the ring begin and end, by the numbers that each party says nobody uses, those that it tells who
holds its values too, and those that it uses.

With `unused = "drop"` each party tells the server which numbers of its own range it gave up for lower ones of others
("Privacy-preserving tabular data transformation", section 7.1, has no such message). They lie in its range, so that for
the boundaries b_i of the ring

    b_i <= lowest of party i        b_(i+1) >= highest of party i + 1        b_0 <= b_1 <= .. <= b_n.

Where each of two neighbours gives up the number at their boundary, it is known; parties that hold what others before
them hold give up all they have, and then everyone's size from the second such party on is exact.

The labels of an intersection are numbers of the sender's range as well: whoever holds what others hold is told where
their ranges end, feature by feature, in which nobody's lengths are.

One-hot columns that are not zero in a party's updates are numbers that it uses. Under `uhe` they lie in its range, and
say the same: a batch of a few rows with the least and the greatest number of a party, and of its neighbours, has all of
their sizes. After an intersection a party uses lower numbers of others too, so that only the highest one says anything;
with `unused = "drop"` numbers have moved, and say nothing. A sum of updates that hides whose they are says that one of
its clients has each number that it depends on: where other clients take part in other rounds, that is often one alone,
and the order of the ring decides more. Columns that do not fit the ring are left out of it.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.base import AuxiliaryKnowledge
from leakledger.attacks.observed.columns import observed_columns, summed_columns
from leakledger.attacks.observed.ring import Boundaries, Contradiction, payload_of
from leakledger.attacks.observed.values import candidate_values
from leakledger.attacks.transcript.holdings.intersections import labels_of
from leakledger.attacks.transcript.ring_size.posterior import Padding
from leakledger.preprocess.messages import UnusedIds
from leakledger.preprocess.views import View

Floats = NDArray[np.float64]
OWN_ALONE = "uhe"  # the encoder under which a party uses numbers of its own range alone
ALIGNED = ("dh-psi", "apsi", "otmp-psi")  # under these also lower ones


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


def bracketed(view: View, bounds: Boundaries, knowledge: AuxiliaryKnowledge) -> Bracketed:
    """The boundaries by what parties gave up, their labels, and what they use. Raises Contradiction where what they
    gave up lies outside of what else is known.
    """
    told = list(view.readable(UnusedIds))
    if strangers := {m.sender for m in told}.difference(bounds.ring):
        raise Contradiction(f"{min(strangers)} is none of the ring and gave up numbers ({UnusedIds.topic})")
    low, high = np.nan_to_num(bounds.ends, nan=0.0), np.nan_to_num(bounds.ends, nan=np.inf)
    for m in told:
        i, numbers = bounds.ring.index(m.sender), payload_of(m).numbers
        for k, feature in enumerate(bounds.features):
            if len(own := np.asarray(numbers.get(feature, ()), np.float64).ravel()):
                high[i, k], low[i + 1, k] = min(high[i, k], own.min()), max(low[i + 1, k], own.max() + 1)
    low, high = _rising(low, high)
    if (low > high).any():
        raise Contradiction(f"a party gave up numbers outside of its range (messages on {UnusedIds.topic})")
    found = Bracketed(bounds, low, high, frozenset(m.sequence for m in told))
    found = _closer(found, _by_labels(view, found, candidate_values(view, knowledge)))
    return _closer(found, _by_use(view, found))


def _closer(found: Bracketed, narrowed: Bracketed) -> Bracketed:
    return found if (narrowed.low > narrowed.high).any() else narrowed


def _by_labels(view: View, found: Bracketed, candidates: Mapping[str, tuple[str, ...]]) -> Bracketed:
    """The same, by the numbers of values that observers hold too; with ends that cross where these do not fit."""
    ring, features = found.bounds.ring, found.bounds.features
    low, high, evidence = found.low.copy(), found.high.copy(), found.evidence
    for party, labels, messages in labels_of(view, candidates):
        if party not in ring:
            continue
        i, evidence = ring.index(party), evidence | messages
        for f, numbers in labels.items():
            if numbers and f in features:
                k = features.index(f)
                high[i, k] = min(high[i, k], *numbers.values())
                low[i + 1, k] = max(low[i + 1, k], max(numbers.values()) + 1)
    return Bracketed(found.bounds, *_rising(low, high), evidence)


def _by_use(view: View, found: Bracketed) -> Bracketed:
    """The same, by the columns in use as well; with ends that cross where these do not fit."""
    encoder, bounds = view.public.encoder, found.bounds
    if encoder.name not in (OWN_ALONE, *ALIGNED) or encoder.options.get("unused", "keep") != "keep":
        return found
    low, high = found.low.copy(), found.high.copy()
    uses = [*_uses(view, bounds.ring)]
    for block in view.public.layout.categorical if view.public.layout else ():
        if block.codes is not None or block.feature not in bounds.features or not uses:
            continue
        k, place = bounds.features.index(block.feature), np.arange(len(bounds.ring))
        owners = np.ones((len(bounds.ring), block.size), np.bool_)  # which party may have been allotted which number
        for users, active, whole, _ in uses:
            if whole or block.shift is None:
                numbers = np.flatnonzero(active[block.start : block.start + block.size])
                others = np.isin(place, users, invert=True) if encoder.name == OWN_ALONE else place > max(users)
                owners[np.ix_(others, numbers)] = False
        first, last = _least(owners), len(place) - 1 - _least(owners[::-1, ::-1])[::-1]
        below = np.arange(len(place) + 1)[:, None]
        low[:, k] = np.maximum(low[:, k], (last < below).sum(axis=1))
        high[:, k] = np.minimum(high[:, k], (first < below).sum(axis=1))
    return Bracketed(bounds, *_rising(low, high), found.evidence.union(*(use[-1] for use in uses)))


def _uses(view: View, ring: Sequence[str]) -> Iterator[tuple[list[int], NDArray[np.bool_], bool, Collection[int]]]:
    """(places in the ring, columns that any party there uses, whether scaled ones are among them, messages)."""
    for columns in observed_columns(view):
        if columns.party in ring:
            yield [ring.index(columns.party)], columns.active, columns.complete, columns.evidence
    for clients, active, evidence in summed_columns(view):
        if set(clients) <= set(ring):
            yield [ring.index(c) for c in clients], active, False, evidence


def _least(owners: NDArray[np.bool_]) -> NDArray[np.int64]:
    """(numbers,) the first party that may have each number, in a ring where no later number is of an earlier party; the
    number of parties where none may.
    """
    found, least = np.empty(owners.shape[1], np.int64), 0
    for number, may in enumerate(owners.T):
        later = np.flatnonzero(may[least:])
        least = least + int(later[0]) if len(later) else len(may)
        found[number] = least
    return found


def _rising(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """The ends, none of which is below those before it."""
    return np.maximum.accumulate(low), np.minimum.accumulate(high[::-1])[::-1]
