"""Values that clients state in the clear: dictionaries for a server to merge, and whole columns for it to pool.

"Privacy-preserving tabular data transformation", section 5.2. A dictionary has all values of the sender's training rows
and nothing else, so a candidate that it lacks is surely not held; a pooled column has each as often as it occurs.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from leakledger.attacks.transcript.holdings.finding import Finding, exactly
from leakledger.preprocess.messages import LocalDictionary, PooledCategories
from leakledger.preprocess.views import View

STATED_VALUES = (LocalDictionary, PooledCategories)


def from_stated(view: View, candidates: Mapping[str, Collection[str]]) -> Iterator[Finding]:
    """What is stated of each party's values, and that it holds no other of the candidates."""
    for kind in STATED_VALUES:
        for m in view.received(kind):
            for feature, values in m.payload.values.items():
                held = Counter(values)
                scores = {v: float(v in held) for v in (*candidates.get(feature, ()), *held)}
                counts = {v: float(n) for v, n in held.items()} if kind is PooledCategories else {}
                yield exactly(m.sender, feature, scores, [m.sequence], counts)
