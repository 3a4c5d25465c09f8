"""Which values each party holds of each categorical feature, and how often, from what an encoder leaves behind.

Source of the leaks: "Privacy-preserving tabular data transformation", sections 5.1, 7 and table 5 ("Shared Infos").
Where values travel as text `plaintext` reads them too; this attack is for encodings that hide them, by the sources
that `holdings.sources` lists.

Each source gives chances; the claim of a party and feature has the values that make the best expected F1 (Lipton,
Elkan, Naryanaswamy, "Optimal thresholding of classifiers to maximize F1 measure", 2014), or those whose chance is at
least `least`, with counts where a source tells them. `membership` claims the chances themselves. Of a party of which
something is claimed, the prior's likely values of all other features are claimed too, on no message: who knows some of
what a party holds does not take it to hold nothing else.

Passive. Candidates come from the public layout, granted dictionaries and marginals, and the observers' own rows.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from leakledger.attacks.base import Abstained, Attack, AuxiliaryKnowledge, Outcome, VocabularyClaim
from leakledger.attacks.observed.noised import NOISED_TABLES
from leakledger.attacks.observed.values import held_chances, possible_values
from leakledger.attacks.transcript.holdings.finding import Finding, Key
from leakledger.attacks.transcript.holdings.noised import COUNTING
from leakledger.attacks.transcript.holdings.sources import READS, controls, findings, refused
from leakledger.attacks.transcript.holdings.stated import STATED_VALUES
from leakledger.preprocess.messages import TargetTally
from leakledger.preprocess.options import check_options, option
from leakledger.preprocess.views import View


@dataclass(frozen=True)
class Vocabulary(Attack):
    """`least` of 0 claims every candidate."""

    least: float | None = option(
        None, at_least=0, at_most=1, help="chance from which a value is claimed; best expected F1 where it is not given"
    )

    technique: ClassVar[str] = "vocabulary"
    reference: ClassVar[str] = "Privacy-preserving tabular data transformation, sections 5.1, 7, 8.4 and table 5"
    asset: ClassVar[tuple[str, ...]] = ("vocabulary",)
    reads = READS
    reads_in_part = COUNTING  # only how many rows
    controls = controls("vocabulary")
    assumes: ClassVar[str] = (
        "honest but curious party, coalition, server or relay; knows the protocol's options; a dictionary or marginals "
        "decide what can be named"
    )

    def __post_init__(self) -> None:
        check_options(self)

    def run(self, view: View, knowledge: AuxiliaryKnowledge) -> Outcome:
        candidates = possible_values(view, knowledge)
        listed = view.has(TargetTally, *NOISED_TABLES, *STATED_VALUES)
        if refusal := refused(view, listed or bool(candidates)):
            return refusal
        found = findings(view, knowledge)
        claims = list(self._claims(found))
        if not claims:
            return Abstained("nothing in this view singles out a value")
        prior = held_chances(view, knowledge, candidates)
        return claims + list(self._guesses(dict.fromkeys(c.party for c in claims), found, prior))

    def _claims(self, found: Mapping[Key, Finding]) -> Iterator[VocabularyClaim]:
        for f in found.values():
            values = self._likely(f.scores)
            counts = tuple(f.counts[v] for v in values) if values and all(v in f.counts for v in values) else ()
            if values:
                yield VocabularyClaim(f.party, f.feature, values, tuple(sorted(f.evidence)), counts, proven=f.proven)

    def _guesses(
        self, parties: Iterable[str], found: Mapping[Key, Finding], prior: Mapping[str, Mapping[str, float]]
    ) -> Iterator[VocabularyClaim]:
        """What the prior says of features of which no message tells anything."""
        for party in parties:
            for feature, chances in prior.items():
                if (party, feature) not in found and (values := self._likely(chances)):
                    yield VocabularyClaim(party, feature, values)

    def _likely(self, scores: Mapping[str, float]) -> tuple[str, ...]:
        least = least_of_best(scores.values()) if self.least is None else self.least
        return tuple(sorted(v for v, score in scores.items() if score >= least))


def least_of_best(chances: Collection[float]) -> float:
    """The chance of the least likely value to claim for the best expected F1, taken as 2 E[hits] / (claimed + E[held]).

    Above all chances where every one is 0.
    """
    held = sum(chances)
    ranked = np.sort(list(chances))[::-1]
    if not held:
        return np.inf
    expected = 2 * np.cumsum(ranked) / (np.arange(1, len(ranked) + 1) + held)
    return float(ranked[np.argmax(expected)])
