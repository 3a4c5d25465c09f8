"""Reads out whatever a view holds in the clear: dictionaries, sizes, counts, means, deviations, extremes, labels.

Passive and exact: the claims are what the messages say, rearranged. It needs no auxiliary knowledge. Kinds of message
that it knows it reads for what they mean (`observed.stated`, `observed.evaluated`), all others by what they disclose
(`observed.undeclared`): values, aggregates and sizes of a protocol that nobody has written an attack for are claimed
from its first day.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar

from leakledger.attacks.base import (
    Attack,
    AuxiliaryKnowledge,
    Claim,
    ControlSpec,
    NotApplicable,
    Outcome,
    StatisticClaim,
    VocabularyClaim,
)
from leakledger.attacks.observed.evaluated import EVALUATED, IN_PART, evaluated
from leakledger.attacks.observed.stated import STATED, dictionary_sizes, stated
from leakledger.attacks.observed.trained_rows import trained_rows
from leakledger.attacks.observed.undeclared import CHECKS, findings, generic_claims, in_the_clear
from leakledger.preprocess.messages import ClientWeights, Payload
from leakledger.preprocess.views import View


class Plaintext(Attack):
    technique: ClassVar[str] = "plaintext"
    reference: ClassVar[str] = "Privacy-preserving tabular data transformation, section 5.2 (what the server reads)"
    asset: ClassVar[tuple[str, ...]] = ("vocabulary", "statistics", "sizes")
    reads = (*STATED, *EVALUATED, ClientWeights)
    reads_in_part = (*IN_PART, ClientWeights)  # of weights their number of rows
    controls = (
        ControlSpec("held_out_rate", evaluation="binary"),
        ControlSpec("held_out_mean", encoder_options={"likelihood": "class-given-value"}, evaluation="regression"),
        ControlSpec("count", evaluation="binary"),
        ControlSpec("fields"),
    )
    assumes: ClassVar[str] = "honest but curious observer of open messages; no auxiliary knowledge"
    checks: ClassVar[tuple[str, ...]] = CHECKS

    @classmethod
    def accepts(cls, kind: type[Payload]) -> bool:
        """Kinds that it knows, and every kind that discloses values, aggregates or sizes."""
        return issubclass(kind, cls.reads) or in_the_clear(kind)

    def run(self, view: View, knowledge: AuxiliaryKnowledge) -> Outcome:
        if not any(self.accepts(k) for k in view.kinds):
            return NotApplicable("no message in this view carries a value in the clear")
        claims = last_of_each(
            [
                *evaluated(view),
                *trained_rows(view.restricted(self.accepts)),
                *stated(view),
                *dictionary_sizes(view),
                *generic_claims(view, self.reads),
            ]
        )
        claims += findings(view, (number for c in claims for number in c.evidence))
        return claims or NotApplicable("this view sent such messages itself, but received none")

    def __repr__(self) -> str:
        return "Plaintext()"


def last_of_each(claims: Iterable[Claim]) -> list[Claim]:
    """Where several messages say one figure, the last claim counts, as what is stated comes after what is bounded; of
    values, all that any says. It rests on all of them.
    """
    found: dict[object, Claim] = {}
    for place, c in enumerate(claims):
        if isinstance(c, StatisticClaim):
            about: object = (c.party, c.feature, c.statistic, c.value)
        elif isinstance(c, VocabularyClaim):
            about = (c.party, c.feature)
        else:
            about = place
        found[about] = _with(c, found[about]) if about in found else c
    return list(found.values())


def _with(claim: Claim, before: Claim) -> Claim:
    """The claim, resting on the evidence of one before about the same, too; of values, both together."""
    evidence = tuple(sorted({*before.evidence, *claim.evidence}))
    if not isinstance(claim, VocabularyClaim) or not isinstance(before, VocabularyClaim):
        return replace(claim, evidence=evidence)
    if {*claim.values} == {*before.values}:
        return replace(claim, evidence=evidence, certain=claim.certain and before.certain)
    values = tuple(sorted({*claim.values, *before.values}))
    proven = claim.proven | before.proven
    return VocabularyClaim(claim.party, claim.feature, values, evidence, (), claim.certain and before.certain, proven)
