"""Values of a dictionary that everyone is told: nobody holds others, and what no observer holds a party outside does.

"Privacy-preserving tabular data transformation", section 5.2: the server merges the parties' dictionaries and tells all
of them the values, each without who holds it. With one party outside, a value that no observer holds is that party's
for certain; with several, at least one of them holds it. Of values that observers hold themselves it says nothing of
the others.
"""

from collections.abc import Collection, Iterator, Mapping

from leakledger.attacks.observed.own_rows import own_counts, together
from leakledger.attacks.transcript.holdings.finding import Finding, held_by_one
from leakledger.preprocess.messages import GlobalDictionary, PooledDictionary
from leakledger.preprocess.views import View

MERGED = (GlobalDictionary, PooledDictionary)


def from_merged(view: View, candidates: Mapping[str, Collection[str]]) -> Iterator[Finding]:
    """What is said of each party outside. Where an observing client's own table is not in the view, a value may be its
    own, and only what is not in the dictionary is said.
    """
    outside = [c for c in view.public.clients if c not in view.observers]
    own = own_counts(view)
    pooled, known = together(own), len(own) == len(view.public.clients) - len(outside)
    for kind in MERGED:
        for m in view.readable(kind):
            for feature, values in m.payload.values.items():
                scores = dict.fromkeys(set(candidates.get(feature, ())) - set(values), 0.0)
                if known:
                    scores |= {v: held_by_one(1, len(outside)) for v in values if v not in pooled.get(feature, ())}
                for party in outside if scores else ():
                    yield Finding(party, feature, scores, {}, frozenset([m.sequence]))
