"""Which values each party holds of each categorical feature, and how often, from what an encoder leaves behind.

Source of the leaks: "Privacy-preserving tabular data transformation", sections 5.1, 7 and table 5 ("Shared Infos").
Where values travel as text `plaintext` reads them too; this attack is for encodings that hide them, by the sources
that `holdings.sources` lists.

Each source gives chances; the claim of a party and feature has the values whose chance is at least `least`, with counts
where a source tells them. `membership` claims the chances themselves.

Passive. Candidates come from the public layout, granted dictionaries and marginals, and the observers' own rows.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from leakledger.attacks.base import Abstained, Attack, AuxiliaryKnowledge, Outcome, VocabularyClaim
from leakledger.attacks.observed.noised import NOISED_TABLES
from leakledger.attacks.observed.values import possible_values
from leakledger.attacks.transcript.holdings.finding import Finding
from leakledger.attacks.transcript.holdings.sources import READS, controls, findings, refused
from leakledger.attacks.transcript.holdings.stated import STATED_VALUES
from leakledger.preprocess.messages import TargetTally
from leakledger.preprocess.options import check_options, option
from leakledger.preprocess.views import View


@dataclass(frozen=True)
class Vocabulary(Attack):
    """`least` of 0 claims every candidate."""

    least: float = option(0.5, at_least=0, at_most=1, help="chance from which a value is claimed")

    technique: ClassVar[str] = "vocabulary"
    reference: ClassVar[str] = "Privacy-preserving tabular data transformation, sections 5.1, 7, 8.4 and table 5"
    asset: ClassVar[tuple[str, ...]] = ("vocabulary",)
    reads = READS
    controls = controls("vocabulary")
    assumes: ClassVar[str] = (
        "honest but curious party, coalition, server or relay; knows the protocol's options; a dictionary or marginals "
        "decide what can be named"
    )

    def __post_init__(self) -> None:
        check_options(self)

    def run(self, view: View, knowledge: AuxiliaryKnowledge) -> Outcome:
        listed = view.has(TargetTally, *NOISED_TABLES, *STATED_VALUES)
        if refusal := refused(view, listed or bool(possible_values(view, knowledge))):
            return refusal
        claims = list(self._claims(findings(view, knowledge).values()))
        return claims or Abstained("nothing in this view singles out a value")

    def _claims(self, found: Iterable[Finding]) -> Iterator[VocabularyClaim]:
        for f in found:
            values = tuple(sorted(v for v, score in f.scores.items() if score >= self.least))
            counts = tuple(f.counts[v] for v in values) if values and all(v in f.counts for v in values) else ()
            if values:
                yield VocabularyClaim(f.party, f.feature, values, tuple(sorted(f.evidence)), counts, proven=f.proven)
