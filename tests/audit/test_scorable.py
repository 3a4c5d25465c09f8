"""A claim about what a case does not have is refused under the attack's name, and never passed over."""

import re
from contextlib import closing
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest

from leakledger.attacks import ATTACKS
from leakledger.attacks.base import (
    AuxiliaryKnowledge,
    ColumnClaim,
    FindingClaim,
    MembershipClaim,
    RecordsClaim,
    StatisticClaim,
    VocabularyClaim,
    claims_in,
)
from leakledger.attacks.transcript.plaintext import Plaintext
from leakledger.attacks.transcript.vocabulary import Vocabulary
from leakledger.audit.config_file import config_of
from leakledger.audit.control_federations import played
from leakledger.audit.federation_controls import claims_of
from leakledger.audit.play import view_of
from leakledger.audit.run import run_audit
from leakledger.audit.scorable import about_of, check_measured, check_scorable, naming_claims
from leakledger.audit.store import Store
from leakledger.preprocess.told_failure import ToldFailure
from tests.audit.example import truth
from tests.preprocess.example import SCHEMA

FEDERATED = SimpleNamespace(schema=SCHEMA, batches={("P1", 0): [], ("P2", 0): []})
TRUTH = SimpleNamespace(
    federated=FEDERATED,
    holders=("P1", "P2"),
    vocabularies={"P1": dict.fromkeys(SCHEMA.categorical), "P2": {"ward": frozenset()}},
    numeric_of=lambda party: SCHEMA.numeric if party == "P1" else (),
    column=lambda party, feature: {("P1", "age"): np.ones(3), ("P1", "ill"): np.ones(3)}[party, feature],
)
FOREIGN = SimpleNamespace(technique="strange")


def one(feature, statistic, value=""):
    return StatisticClaim("P1", feature, statistic, 1.0, 1.0, 1.0, value=value)


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


@pytest.mark.parametrize(
    ("claim", "problem"),
    [
        (one("ward", "mean"), "the mean of 'ward', which has none"),
        (one("ill", "mean"), "the mean of 'ill', which has none"),
        (one("", "mean"), "the mean of '', which has none"),
        (one("age", "mean", "mean"), "the mean of 'age' at a value that is not scored; choose of ''"),
        (one("age", "quantile", "0.50"), "the quantile of 'age' at a level that is none; write '0.5'"),
        (one("age", "quantile", "median"), "the quantile of 'age' at a level that is none; write '0.5'"),
        (one("age", "size"), "the size of 'age', which has none"),
        (one("", "frequency", "a"), "the frequency of '', which has none"),
        (one("ward", "frequency"), "the frequency of 'ward' without a value"),
        (one("ward", "target_rate"), "the target_rate of 'ward' without a value"),
        (one("ward", "count"), "the count of 'ward', which has none"),
        (one("", "held_out_rate", "NO"), "the held_out_rate of '' at a value that is not scored; choose of "),
        (VocabularyClaim("P1", "age", ("31",)), "values of 'age', which is no categorical feature"),
        (MembershipClaim("P1", "ill", ("no",), (1.0,)), "values of 'ill', which is no categorical feature"),
        (StatisticClaim("P2", "age", "mean", 1.0, 1.0, 1.0), "the feature 'age', which P2 does not have"),
        (ColumnClaim("P1", "age", np.ones(2)), "2 records of P1, which has 3"),
        (ColumnClaim("P1", "ward", np.ones(3)), "a column 'ward' of P1, which does not hold it as numbers"),
        (StatisticClaim("server", "", "count", 1.0, 1.0, 1.0), "server, which holds no rows"),
        (VocabularyClaim("server", "ward", ("a",)), "server, which holds no rows"),
    ],
)
def test_a_claim_that_would_be_passed_over_is_refused(claim, problem):
    """Misspelled, it was scored as if nothing had been found: with seeds enough no mean of any party leaked."""
    said = f"strange is no attack that can be scored: it makes a claim about {problem}"
    with pytest.raises(ValueError, match=f"^{re.escape(said)}"):
        check_scorable(FOREIGN, [claim], TRUTH)


def test_two_claims_about_one_thing_are_refused():
    """The last would be scored, and the first passed over."""
    wrong, right = (VocabularyClaim("P1", "ward", values) for values in (("a",), ("b",)))
    with pytest.raises(ValueError, match=r"the same as another of its claims, P1, ward$"):
        check_scorable(FOREIGN, [right, VocabularyClaim("P2", "ward", ()), wrong], TRUTH)
    shares = [one("ward", "frequency", v) for v in ("a", "a")]
    with pytest.raises(ValueError, match=r"the same as another of its claims, P1, ward, frequency, of one value$"):
        check_scorable(FOREIGN, shares, TRUTH)


@pytest.mark.parametrize("scored", [{"value": -np.inf}, {"value": np.nan}, {"value": 1e308}, {"baseline": np.inf}])
def test_a_score_that_is_no_number_ends_the_case_under_the_name_of_the_attack(scored):
    """Of claims of 1e308 the case was kept, and its run could never end: 'Out of range float values are not JSON
    compliant: -inf'.
    """
    good = {"metric": "mean", "value": 0.5, "baseline": None, "spread": 0.0}
    check_measured(FOREIGN, [SimpleNamespace(**good)])
    with pytest.raises(ToldFailure, match=r"^the claims of strange cannot be scored: a score of means is no number$"):
        check_measured(FOREIGN, [SimpleNamespace(**good), SimpleNamespace(**good | scored)])


def test_own_attacks_claim_one_thing_about_each():
    for attack in (ATTACKS[name]() for name in ("statistics", "vocabulary", "ring_size")):
        for spec in attack.controls:
            claims = claims_of(attack, played(spec).view(spec.observers))
            about = [a for c in claims if (a := about_of(c))]
            assert len(about) == len(set(about))


@pytest.mark.parametrize("scaler", ["federated-zscore", "federated-minmax", "pooled"])
@pytest.mark.parametrize("encoder", ["target", "bytes-norm", "fasttext"])
def test_statistics_of_codes_are_claimed_of_no_feature(encoder, scaler):
    """Whose means, extremes or rows a scaler over all columns tells: claims that a category has a mean ended runs."""
    whole = truth(
        data={"source": "fair", "rows": 90},
        preprocessing=[{"encoder": encoder, "scaler": scaler, "columns": "all"}],
        training={"rounds": 1, "batch_size": 4},
    )
    for attack in (ATTACKS["plaintext"](), ATTACKS["statistics"]()):
        view = view_of(["server"], whole).restricted(attack.accepts)
        claims = claims_in(attack.run(view, AuxiliaryKnowledge()))
        check_scorable(attack, claims, whole, view)
        told = {c.feature for c in claims if isinstance(c, StatisticClaim) and c.statistic in ("mean", "minimum")}
        assert told == {*whole.federated.schema.numeric}


def test_what_it_has_is_scored():
    claims = [
        *(one("", s) for s in ("count", "size", "target_rate", "held_out_count", "held_out_mean")),
        *(one("age", s) for s in ("mean", "std", "minimum", "maximum")),
        *(one("age", "quantile", value) for value in ("0.25", "0.5", "0.75", "0.005")),
        *(one("ward", s, value) for s, value in (("size", ""), ("frequency", "a"), ("target_rate", "unheard of"))),
        *(one("", "held_out_rate", value) for value in SCHEMA.classes),
        ColumnClaim("P1", "ill", np.ones(3)),
        VocabularyClaim("P1", "ward", ()),
        FindingClaim("server", "check", "it fired"),
        rows_of("P1+P2", 0),
    ]
    check_scorable(FOREIGN, claims, TRUTH)


def test_what_goes_wrong_with_claims_is_told_under_the_name_of_somebody_elses_attack_without_its_text():
    told = pytest.raises(ToldFailure, match=r"^the claims of strange cannot be scored: KeyError; ")
    with told as caught, naming_claims(FOREIGN):
        raise KeyError("Smith, 42")
    assert "Smith" not in str(caught.value)
    with pytest.raises(KeyError), naming_claims(Vocabulary()):  # a defect of this package keeps its traceback
        raise KeyError("Smith, 42")


@dataclass(frozen=True)
class Huge(Plaintext):
    def run(self, view, knowledge):
        claims = claims_in(super().run(view, knowledge))
        return [
            replace(c, estimate=1e308, low=-1e308, high=1e308) if isinstance(c, StatisticClaim) else c for c in claims
        ]


def test_a_case_with_such_a_score_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setitem(ATTACKS, "plaintext", Huge)
    settings = {
        "data": {"source": "fair", "rows": 60},
        "training": {"rounds": 1},
        "attacks": {"use": ["plaintext"]},
        "audit": {"seeds": [0], "observers": ["server"], "baseline_draws": 2, "jobs": 1},
    }
    with pytest.raises(ToldFailure, match=r"^the claims of plaintext cannot be scored: "):
        run_audit(config_of(settings, []), tmp_path / "run")
    with closing(Store.read(tmp_path / "run")) as store:
        assert not store.finished()
