"""Whether a party holds a candidate value: one score per party, feature and value.

Membership inference at the level of values ("Privacy-preserving tabular data transformation", section 3, asks that no
party learns another's values). The scores put together what the transcript gives (`holdings`), for every
candidate, claimed or not, so that they can be judged by their true positive rate at a small false positive rate
(Carlini et al. 2022) rather than at one threshold.

Where no source speaks of a value, its score is that of the prior: the chance that a party with as many rows as the
adversary holds it, 1 - (1 - pi)^n, kept off 0 and 1, which are for what is certain.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from leakledger.attacks.base import Abstained, Attack, AuxiliaryKnowledge, MembershipClaim, Outcome
from leakledger.attacks.observed.values import held_chances, possible_values
from leakledger.attacks.transcript.holdings.finding import Finding
from leakledger.attacks.transcript.holdings.noised import COUNTING
from leakledger.attacks.transcript.holdings.sources import READS, controls, findings, refused
from leakledger.preprocess.views import View


@dataclass(frozen=True)
class Membership(Attack):
    """It has no options."""

    technique: ClassVar[str] = "membership"
    reference: ClassVar[str] = "Privacy-preserving tabular data transformation, section 3; Carlini et al. (2022)"
    asset: ClassVar[tuple[str, ...]] = ("membership",)
    reads = READS
    reads_in_part = COUNTING  # only how many rows
    controls = controls("membership")
    assumes: ClassVar[str] = (
        "honest but curious party, coalition, server or relay, with candidates from a dictionary or from its own rows"
    )

    def run(self, view: View, knowledge: AuxiliaryKnowledge) -> Outcome:
        candidates = possible_values(view, knowledge)
        if refusal := refused(view, bool(candidates)):
            return refusal
        found = findings(view, knowledge)
        if not found:
            return Abstained("nothing in this view depends on a value of these candidates")
        prior = held_chances(view, knowledge, candidates)
        return [
            MembershipClaim(
                f.party,
                f.feature,
                values,
                scored(f, values, prior),
                tuple(sorted(f.evidence)),
                f.proven.intersection(values),
            )
            for f in found.values()
            if (values := candidates.get(f.feature, ()))
        ]


def scored(finding: Finding, values: tuple[str, ...], prior: Mapping[str, Mapping[str, float]]) -> tuple[float, ...]:
    """The score of each value: a chance where the transcript gives one, else the prior's."""
    before = prior.get(finding.feature, {})
    return tuple(finding.scores.get(v, before.get(v, 0.5)) for v in values)
