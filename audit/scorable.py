"""Whether claims are about what a case has: a plugin's that are not would end in an error about something else, or be
passed over, and an attack that misspells a name would pass for one that finds nothing.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from leakledger.attacks.base import Attack, Claim, FindingClaim, RecordsClaim, clients_of
from leakledger.audit.truth import Truth
from leakledger.preprocess.method_errors import ON_REQUEST, is_own
from leakledger.preprocess.told_failure import ToldFailure


def check_scorable(attack: Attack, claims: Sequence[Claim], truth: Truth) -> None:
    """Raises ValueError, one line that names the attack, for a claim about a batch that was never drawn, a feature that
    no table has.
    """
    schema = truth.federated.schema
    features = {*schema.categorical, *schema.numeric, schema.target, ""}
    for claim in claims:
        problem = ""
        if isinstance(claim, RecordsClaim):
            strange = [c for c in clients_of(claim.victim) if (c, claim.round) not in truth.federated.batches]
            problem = f"a batch of {strange[0]} in round {claim.round}, which was not drawn" if strange else ""
        elif not isinstance(claim, FindingClaim) and claim.feature not in features:
            problem = f"the feature {claim.feature!r}, which the table does not have"
        if problem:
            raise ValueError(f"{attack.technique} is no attack that can be scored: it makes a claim about {problem}")


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
