"""Whether claims are about what a case has: a plugin's that are not would end in an error about something else, or be
passed over, and an attack that misspells a name would pass for one that finds nothing.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from leakledger.attacks.base import Attack, Claim, FindingClaim, RecordsClaim, StatisticClaim, clients_of
from leakledger.audit.records import Trial, metric_title
from leakledger.audit.truth import Truth
from leakledger.preprocess.method_errors import is_own
from leakledger.preprocess.told_failure import ON_REQUEST, ToldFailure

BEYOND = 1e150  # squares of larger numbers are beyond float64


def check_scorable(attack: Attack, claims: Sequence[Claim], truth: Truth) -> None:
    """Raises ValueError, one line that names the attack, for a claim about a batch that was never drawn, a feature that
    no table has, or what another claim is about: one of the two would be scored, whichever came last.
    """
    schema = truth.federated.schema
    features, seen = {*schema.categorical, *schema.numeric, schema.target, ""}, set[tuple[object, ...]]()
    for claim in claims:
        problem, about = "", about_of(claim)
        if isinstance(claim, RecordsClaim):
            strange = [c for c in clients_of(claim.victim) if (c, claim.round) not in truth.federated.batches]
            problem = f"a batch of {strange[0]} in round {claim.round}, which was not drawn" if strange else ""
        elif not isinstance(claim, FindingClaim) and claim.feature not in features:
            problem = f"the feature {claim.feature!r}, which the table does not have"
        if about in seen and not is_own(attack):  # of those of this package the tests show that there is none
            problem = f"the same as another of its claims, {_in_words(claim)}"
        seen |= {about} if about else set()
        if problem:
            raise ValueError(f"{attack.technique} is no attack that can be scored: it makes a claim about {problem}")


def check_measured(attack: Attack, trials: Sequence[Trial]) -> None:
    """Raises ToldFailure, one line that names the attack, where a score of its claims is no number that arithmetic can
    take: means over cases would be none either, and the record of the run could not be written out.
    """
    for t in trials:
        if any(x is not None and not abs(x) < BEYOND for x in (t.value, t.baseline, t.spread)):
            score = f"a score of {metric_title(t.metric)} is no number"
            raise ToldFailure(f"the claims of {attack.technique} cannot be scored: {score}")


def about_of(claim: Claim) -> tuple[object, ...]:
    """What a claim is about, of which an attack may claim one thing; () of a finding, of which it may make several."""
    if isinstance(claim, FindingClaim):
        return ()
    if isinstance(claim, RecordsClaim):
        return RecordsClaim, claim.victim, claim.round
    of = (claim.statistic, claim.value) if isinstance(claim, StatisticClaim) else ()
    return type(claim), claim.party, claim.feature, *of


def _in_words(claim: Claim) -> str:
    """What a claim is about, without the value of a record that it may be about."""
    if isinstance(claim, RecordsClaim):
        return f"{claim.victim}, {claim.round}"
    stated = (claim.statistic, claim.value and "of one value") if isinstance(claim, StatisticClaim) else ()
    return ", ".join(filter(None, (claim.party, getattr(claim, "feature", ""), *stated)))


@contextmanager
def naming_claims(attack: Attack) -> Iterator[None]:
    """What else goes wrong with the claims of somebody else's attack while they are scored, is told under its name."""
    try:
        yield
    except Exception as error:
        if is_own(attack):
            raise
        told = f"the claims of {attack.technique} cannot be scored: {type(error).__name__}; {ON_REQUEST}"
        raise ToldFailure(told) from error
