"""Counts that clients state for a shared target encoding.

"Privacy-preserving tabular data transformation", section 7.3. `target.local` has a client's values and counts in the
clear. `target.global` has everyone's sums: less the observers' own, they are the other parties'; of one other party,
exactly that party's; of several, a row is at any of them.
"""

from collections.abc import Iterator

from leakledger.attacks.observed.own_rows import own_counts
from leakledger.attacks.transcript.holdings.finding import Finding, exactly, held_by_one
from leakledger.preprocess.messages import TargetTally, TargetTotals
from leakledger.preprocess.views import Message, View


def from_tallies(view: View) -> Iterator[Finding]:
    """What tallies tell; a malformed one tells nothing."""
    for m in view.received(TargetTally):
        for feature, counts in _counts(m).items():
            yield exactly(m.sender, feature, dict.fromkeys(counts, 1.0), [m.sequence], counts)
    total = next(view.readable(TargetTotals), None)
    others = [c for c in view.public.clients if c not in view.observers]
    own = own_counts(view)
    if total is None or len(own) < len(view.public.clients) - len(others) or not own:
        return
    for feature, counts in _counts(total).items():
        left = {v: n - sum(c[feature][v] for c in own.values() if feature in c) for v, n in counts.items()}
        scores = {v: held_by_one(n, len(others)) for v, n in left.items()}
        for party in others:
            rest = {v: float(n) for v, n in left.items() if n and len(others) == 1}
            yield Finding(party, feature, scores, rest, frozenset([total.sequence]))


def _counts(m: Message) -> dict[str, dict[str, float]]:
    """Feature -> value -> rows."""
    try:
        return {f: dict(zip(t.values, map(float, t.counts), strict=True)) for f, t in m.payload.features.items()}
    except ValueError:
        return {}
