"""What a party states of its values is read by every attack on them, and no defense of updates takes it away."""

import pytest

from leakledger.attacks import ATTACKS
from leakledger.attacks.base import AuxiliaryKnowledge, MembershipClaim, StatisticClaim, VocabularyClaim
from leakledger.audit.control_federations import NAMES, held, played
from leakledger.audit.run import run_audit
from leakledger.preprocess.secret import PUBLIC_MASTER
from tests.attacks.test_reads import ControlSpec
from tests.audit.example import config

VALUES = ("vocabulary", "membership", "size")


@pytest.mark.parametrize("encoder", ["server-dictionary", "pooled"])
def test_the_server_knows_who_holds_which_value_from_dictionaries_and_columns_alone(encoder):
    view = played(ControlSpec("membership", encoder)).view("server")
    vocabulary, membership = (ATTACKS[n]().run(view, AuxiliaryKnowledge()) for n in ("vocabulary", "membership"))
    assert {(c.party, c.feature): set(c.values) for c in vocabulary if isinstance(c, VocabularyClaim)} == {
        (p, f): set(v) for p, own in held().items() for f, v in own.items()
    }
    for c in membership:
        assert isinstance(c, MembershipClaim)
        assert {v for v, score in zip(c.values, c.scores, strict=True) if score == 1} == held()[c.party][c.feature]
        assert set(c.scores) <= {0.0, 1.0}
        assert c.proven == held()[c.party][c.feature]
    if encoder == "pooled":
        assert all(sum(c.counts) >= 20 for c in vocabulary)  # as many as the rows


@pytest.mark.parametrize("encoder", ["server-dictionary", "pooled", "local"])
def test_sizes_that_are_stated_are_claimed_as_such_by_the_attack_on_sizes_too(encoder):
    claims = ATTACKS["ring_size"]().run(played(ControlSpec("size", encoder)).view("server"), AuxiliaryKnowledge())
    sizes = {(c.party, c.feature): (c.low, c.high) for c in claims if isinstance(c, StatisticClaim) and c.feature}
    assert sizes == {(p, f): (len(held()[p][f]),) * 2 for p in NAMES for f in held()[p]}


@pytest.mark.parametrize("encoder", ["server-dictionary", "local", "pooled"])
def test_noise_on_updates_changes_no_finding_about_what_preprocessing_states(encoder, tmp_path):
    settings = config(
        preprocessing={"encoder": encoder, "scaler": "local"},
        training={"rounds": 1, "batch_size": 4},
        defense=[{"name": "none"}, {"name": "gaussian-noise", "sigma": 0.1}],
        attacks={"use": ["plaintext", "ring_size", "vocabulary", "membership"]},
        audit={"observers": ["server"]},
    )
    record = run_audit(settings, tmp_path / "run", master=PUBLIC_MASTER)
    plain, noisy = (
        {
            f.asset: (f.score and (f.score.attack, f.score.value, f.score.advantage, f.score.status), f.low, f.high)
            for f in record.leakage
            if f.setting == setting and f.asset in VALUES
        }
        for setting in dict.fromkeys(f.setting for f in record.leakage)
    )
    assert plain == noisy
    assert all(score is not None for score, *_ in noisy.values())
    assert "size" in noisy


@pytest.mark.parametrize(
    ("encoder", "verdict"),
    [
        ("server-dictionary", "leaks"),
        ("local", "leaks"),  # parties state as many values as are declared
        ("rolling-hash", "inconclusive"),
    ],
)
def test_who_is_told_a_dictionary_or_its_size_knows_who_holds_a_value_without_statistics(encoder, verdict, tmp_path):
    settings = config(
        preprocessing={"encoder": encoder, "scaler": "local"},
        training={"rounds": 1, "batch_size": 4},
        attacks={"use": ["vocabulary", "membership"]},
        audit={"observers": ["server"], "seeds": [0]},
    )
    record = run_audit(settings, tmp_path / "run", master=PUBLIC_MASTER)
    [ruling] = [r for r in record.rulings if r.asset == "membership"]
    assert ruling.verdict == verdict
    told = "membership by server: holders of values told in the clear or proven, and right"
    assert ruling.reasons == ((told,) if verdict == "leaks" else ())
