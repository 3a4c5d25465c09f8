"""Whether claims are about what a case has: a plugin's that are not would end in an error about something else, or be
passed over, and an attack that misspells a name would pass for one that finds nothing.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from leakledger.attacks.base import (
    Attack,
    Claim,
    ColumnClaim,
    FindingClaim,
    MembershipClaim,
    RecordsClaim,
    StatisticClaim,
    VocabularyClaim,
    clients_of,
)
from leakledger.audit.outcomes import resting
from leakledger.audit.records import HELD_OUT, Trial, metric_title
from leakledger.audit.truth import Truth
from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.method_errors import is_own
from leakledger.preprocess.told_failure import ON_REQUEST, ToldFailure
from leakledger.preprocess.views import View

BEYOND = 1e150  # squares of larger numbers are beyond float64
OF_ROWS = ("count", *HELD_OUT)  # statistics of no feature
OF_CATEGORIES = ("size", "frequency", "target_rate")  # of a categorical one; the others are of numbers


def check_scorable(attack: Attack, claims: Sequence[Claim], truth: Truth, view: View | None = None) -> None:
    """Raises ValueError, one line that names the attack, for a claim about a party that holds nothing, a batch that was
    never drawn, a feature that no table has, what such a feature cannot have, or what another claim is about: one of
    the two would be scored, whichever came last. It names the first message of `view` that the claim rests on.
    """
    schema = truth.federated.schema
    features, seen = {*schema.categorical, *schema.numeric, schema.target, ""}, set[tuple[object, ...]]()
    for claim in claims:
        problem, about = "", about_of(claim)
        if without := _holds_nothing(claim, truth):
            problem = f"{without}, which holds no rows"
        elif isinstance(claim, RecordsClaim):
            strange = [c for c in clients_of(claim.victim) if (c, claim.round) not in truth.federated.batches]
            problem = f"a batch of {strange[0]} in round {claim.round}, which was not drawn" if strange else ""
        elif not isinstance(claim, FindingClaim) and claim.feature not in features:
            problem = f"the feature {claim.feature!r}, which the table does not have"
        elif isinstance(claim, ColumnClaim):
            problem = _of_other_records(claim, truth)
        elif not isinstance(claim, FindingClaim):
            problem = _misplaced(claim, schema) or _unseen(claim, truth)
        if about in seen and not is_own(attack):  # of those of this package the tests show that there is none
            problem = f"the same as another of its claims, {_in_words(claim)}"
        seen |= {about} if about else set()
        if problem:
            rests = "" if view is None else resting(claim, view)
            said = f"it makes a claim about {problem}{rests}"
            raise ValueError(f"{attack.technique} is no attack that can be scored: {said}")


def _holds_nothing(claim: Claim, truth: Truth) -> str:
    """The party of a claim that puts nothing into the protocols, as the server does; "" for none. What a message lets
    somebody learn of is no score, so findings may be about anybody.
    """
    if isinstance(claim, FindingClaim):
        return ""
    about = clients_of(claim.victim) if isinstance(claim, RecordsClaim) else (claim.party,)
    return next((p for p in about if p not in truth.holders), "")


def _misplaced(claim: StatisticClaim | VocabularyClaim | MembershipClaim, schema: Schema) -> str:
    """What a claim is about that its feature, or none, cannot have: it would be passed over, and the attack would pass
    for one that looked and found nothing; "" where it can.
    """
    feature, categorical = claim.feature, claim.feature in schema.categorical
    if not isinstance(claim, StatisticClaim):
        return "" if categorical else f"values of {feature!r}, which is no categorical feature"
    statistic = claim.statistic
    if statistic in OF_ROWS:
        fits = not feature
    elif statistic in OF_CATEGORIES:
        fits = categorical or (not feature and statistic != "frequency")
    else:
        fits = feature in schema.numeric
    if not fits:
        return f"the {statistic} of {feature!r}, which has none"
    if statistic == "frequency" or (statistic == "target_rate" and feature):
        return "" if claim.value else f"the {statistic} of {feature!r} without a value"
    if statistic == "quantile":  # others than the quartiles count for intervals alone; "0.50" is none of either
        return "" if _is_level(claim.value) else f"the quantile of {feature!r} at a level that is none; write '0.5'"
    known = schema.classes if statistic == "held_out_rate" else ("",)
    if claim.value not in known:  # it may be a value of a record, so it is not repeated
        return f"the {statistic} of {feature!r} at a value that is not scored; choose of {', '.join(map(repr, known))}"
    return ""


def _unseen(claim: StatisticClaim | VocabularyClaim | MembershipClaim, truth: Truth) -> str:
    """The feature that the party of a claim does not have, as others do; "" where it does."""
    seen = {"", *truth.vocabularies.get(claim.party, ()), *truth.numeric_of(claim.party)}
    return "" if claim.feature in seen else f"the feature {claim.feature!r}, which {claim.party} does not have"


def _of_other_records(claim: ColumnClaim, truth: Truth) -> str:
    """The column that the party of a claim does not hold, or not of as many records; "" where it does."""
    try:
        records = len(truth.column(claim.party, claim.feature))
    except KeyError:
        return f"a column {claim.feature!r} of {claim.party}, which does not hold it as numbers"
    told = len(claim.values)
    return "" if told == records else f"{told} records of {claim.party}, which has {records}"


def _is_level(text: str) -> bool:
    """Whether this is a number from 0 to 1 in as few digits as it takes, so that no two texts are one level."""
    try:
        return 0 <= float(text) <= 1 and text == f"{float(text):g}"
    except ValueError:
        return False


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
