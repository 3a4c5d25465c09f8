"""Which values each party holds of each categorical feature, and how often, from what an encoder leaves behind.

Source of the leaks: "Privacy-preserving tabular data transformation", sections 5.1, 7 and table 5 ("Shared Infos").
Where values travel as text, `plaintext` reads them; this attack is for encodings that hide them:

| what the view has | what it tells | module |
|---|---|---|
| columns of a party: means, extremes, zero gradients | values behind public codes and shared numbers | `codes` |
| an own request of `dh-psi` and its answers | own values that each other party holds; ranks of others | `pairwise` |
| shares or matches of `otmp-psi` | own values others hold; with the key, every candidate | `positions` |
| own final numbers under `apsi`, `dh-psi`, `otmp-psi` | own values that an earlier party holds | `numbers` |
| shares of pseudonymous numbers | values of like frequency and order | `matching` |
| announced sums of byte casts | the multiset of everyone else's values | `digits` |
| counts sent for a shared target encoding | values and counts, in the clear | `tallies` |

Each source gives chances; the claim of a party and feature has the values whose chance is at least `least`, with counts
where a source tells them. `membership` claims the chances themselves.

Passive. Candidates come from the public layout, granted dictionaries and marginals, and the observers' own rows.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar
from weakref import ref

from attacks.base import Abstained, Attack, AuxiliaryKnowledge, NotApplicable, Outcome, VocabularyClaim
from attacks.vocabulary.candidates import candidate_values, held_chances, shares
from attacks.vocabulary.codes import from_codes
from attacks.vocabulary.digits import from_sums
from attacks.vocabulary.finding import Finding, Key, together
from attacks.vocabulary.matching import from_frequencies
from attacks.vocabulary.numbers import from_numbers
from attacks.vocabulary.pairwise import from_pairs
from attacks.vocabulary.positions import from_positions
from attacks.vocabulary.tallies import from_tallies
from preprocess.views import View

TOPICS = frozenset(
    {
        "zscore.mean",
        "minmax.local",
        "pooled.columns",
        "train.gradient",
        "train.weights",
        "dh-psi.answer",
        "otmp.shares",
        "otmp.matches",
        "ring.highest",
        "ring.maximum",
        "ids.unused-all",
        "bytes-norm.mean.partial",
        "bytes-norm.moments.partial",
        "target.local",
        "target.global",
    }
)


def refused(view: View, named: bool) -> NotApplicable | None:
    """Why nothing can be said of values here; `named`: whether any value comes into question by name."""
    if not TOPICS & view.topics:
        return NotApplicable("no message of this view depends on which values a party holds")
    if not named:
        return NotApplicable("no candidate is known: grant a dictionary, or observe a party with rows of its own")
    return None


def findings(view: View, knowledge: AuxiliaryKnowledge) -> Mapping[Key, Finding]:
    """What all sources together say of each outside party and feature.

    The latest are kept for the next attack on the same view with the same knowledge: the very objects, not equal ones.
    """
    for its_view, its_knowledge, kept in _LATEST:
        if its_view() is view and its_knowledge() is knowledge:
            return kept
    found = MappingProxyType(_findings(view, knowledge))
    _LATEST[:] = [(ref(view), ref(knowledge), found)]
    return found


_LATEST: list[tuple[ref[View], ref[AuxiliaryKnowledge], Mapping[Key, Finding]]] = []  # none or one


def _findings(view: View, knowledge: AuxiliaryKnowledge) -> dict[Key, Finding]:
    candidates, marginals = candidate_values(view, knowledge), shares(view, knowledge)
    sources: tuple[Iterable[Finding], ...] = (
        from_tallies(view),
        from_codes(view, knowledge),
        from_pairs(view, candidates),
        from_positions(view, candidates),
        from_numbers(view, held_chances(view, marginals, candidates)),
        from_frequencies(view, marginals),
        from_sums(view, candidates),
    )
    return together(f for source in sources for f in source if f.party not in view.observers)


@dataclass(frozen=True)
class Vocabulary(Attack):
    """`least`: the chance from which a value is claimed."""

    least: float = 0.5

    technique: ClassVar[str] = "vocabulary"
    reference: ClassVar[str] = "Privacy-preserving tabular data transformation, sections 5.1, 7, 8.4 and table 5"
    asset: ClassVar[tuple[str, ...]] = ("vocabulary",)
    topics: ClassVar[frozenset[str]] = TOPICS
    assumes: ClassVar[str] = (
        "honest but curious party, coalition, server or relay; knows the protocol's options; a dictionary or marginals "
        "decide what can be named"
    )

    def run(self, view: View, knowledge: AuxiliaryKnowledge) -> Outcome:
        if refusal := refused(view, bool(candidate_values(view, knowledge)) or "target.local" in view.topics):
            return refusal
        claims = list(self._claims(findings(view, knowledge).values()))
        return claims or Abstained("nothing in this view singles out a value")

    def _claims(self, found: Iterable[Finding]) -> Iterator[VocabularyClaim]:
        for f in found:
            values = tuple(sorted(v for v, score in f.scores.items() if score >= self.least))
            counts = tuple(f.counts[v] for v in values) if values and all(v in f.counts for v in values) else ()
            if values:
                yield VocabularyClaim(f.party, f.feature, values, tuple(sorted(f.evidence)), counts)
