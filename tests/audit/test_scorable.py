"""A claim about what a case does not have is refused under the attack's name, and never passed over."""

from types import SimpleNamespace

import pytest

from leakledger.attacks import ATTACKS
from leakledger.attacks.base import FindingClaim, MembershipClaim, RecordsClaim, StatisticClaim, VocabularyClaim
from leakledger.attacks.transcript.vocabulary import Vocabulary
from leakledger.audit.control_federations import played
from leakledger.audit.federation_controls import claims_of
from leakledger.audit.scorable import about_of, check_scorable, naming_claims
from leakledger.preprocess.told_failure import ToldFailure
from tests.preprocess.example import SCHEMA

TRUTH = SimpleNamespace(federated=SimpleNamespace(schema=SCHEMA, batches={("P1", 0): [], ("P2", 0): []}))
FOREIGN = SimpleNamespace(technique="strange")


def rows_of(victim, round):
    return RecordsClaim(victim, round, None, None, None, None)


@pytest.mark.parametrize(
    ("claim", "problem"),
    [
        (StatisticClaim("P1", "Age", "mean", 1.0, 1.0, 1.0), "the feature 'Age', which the table does not have"),
        (VocabularyClaim("P1", "ward_1", ()), "the feature 'ward_1', which the table does not have"),
        (MembershipClaim("P1", "wards", (), ()), "the feature 'wards', which the table does not have"),
        (rows_of("P1+P2", 1), "a batch of P1 in round 1, which was not drawn"),
    ],
)
def test_what_a_case_does_not_have_is_named(claim, problem):
    with pytest.raises(ValueError, match=f"^strange is no attack that can be scored: it makes a claim about {problem}"):
        check_scorable(FOREIGN, [claim], TRUTH)


def test_two_claims_about_one_thing_are_refused():
    """The last would be scored, and the first passed over."""
    wrong, right = (VocabularyClaim("P1", "ward", values) for values in (("a",), ("b",)))
    with pytest.raises(ValueError, match=r"the same as another of its claims, P1, ward$"):
        check_scorable(FOREIGN, [right, VocabularyClaim("P2", "ward", ()), wrong], TRUTH)
    means = [StatisticClaim("P1", "age", "frequency", 0.5, 0.5, 0.5, value=v) for v in ("a", "a")]
    with pytest.raises(ValueError, match=r"the same as another of its claims, P1, age, frequency, a$"):
        check_scorable(FOREIGN, means, TRUTH)


def test_own_attacks_claim_one_thing_about_each():
    for attack in (ATTACKS[name]() for name in ("statistics", "vocabulary", "ring_size")):
        for spec in attack.controls:
            claims = claims_of(attack, played(spec).view(spec.observers))
            about = [a for c in claims if (a := about_of(c))]
            assert len(about) == len(set(about))


def test_what_it_has_is_scored():
    counts = StatisticClaim("P1", "", "count", 1.0, 1.0, 1.0)
    mean, target = (StatisticClaim("P1", f, "mean", 1.0, 1.0, 1.0) for f in ("age", "ill"))
    finding = FindingClaim("P1", "check", "it fired")
    check_scorable(
        FOREIGN, [counts, mean, target, VocabularyClaim("P1", "ward", ()), finding, rows_of("P1+P2", 0)], TRUTH
    )


def test_what_goes_wrong_with_claims_is_told_under_the_name_of_somebody_elses_attack_without_its_text():
    told = pytest.raises(ToldFailure, match=r"^the claims of strange cannot be scored: KeyError; ")
    with told as caught, naming_claims(FOREIGN):
        raise KeyError("Smith, 42")
    assert "Smith" not in str(caught.value)
    with pytest.raises(KeyError), naming_claims(Vocabulary()):  # a defect of this package keeps its traceback
        raise KeyError("Smith, 42")
