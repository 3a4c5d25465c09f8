"""`leakledger attack` on transcripts of aggregated updates: what observers can take out of it is attacked."""

from dataclasses import replace

import numpy as np
import pytest

from leakledger.attacks.base import RecordsClaim, claims_in
from leakledger.audit import transcript_attack
from leakledger.audit.transcript_attack import attack_transcript
from leakledger.preprocess.aggregation import AGGREGATIONS
from leakledger.preprocess.ledger import Ledger
from leakledger.preprocess.messages import MaskKeys
from leakledger.preprocess.pipeline import Encoded
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.training import ALGORITHMS
from leakledger.preprocess.training.base import train
from leakledger.preprocess.transcript import write_transcript
from leakledger.preprocess.transport.simulated import Simulated
from leakledger.preprocess.views import FeatureLayout, Method, ModelSpec, NumericBlock, PublicFacts, TrainingSpec
from leakledger.preprocess.wire import decode, encode

CLIENTS = ("P1", "P2", "P3", "P4")
SPEC = ModelSpec(3, 2, (30,))
LAYOUT = FeatureLayout(tuple(NumericBlock(f"x{k}", k) for k in range(3)))


def trained(name, **options):
    """The messages of one round with batches of two rows, and what is public of it."""
    fed, coins = Simulated(CLIENTS, secret=pinned("aggregated transcripts")), np.random.default_rng(5)
    training = TrainingSpec("fedsgd", rounds=1, batch_size=2, learning_rate=0.2)
    data = {
        c: fed.at(c, Encoded(coins.normal(size=(5, 3)).astype(np.float32), coins.integers(0, 2, 5))) for c in CLIENTS
    }
    method = AGGREGATIONS[name](**options)
    train(fed, ALGORITHMS["fedsgd"], SPEC, training, data, aggregation=method)
    facts = {o: getattr(method, o) for o in type(method).__dataclass_fields__}
    public = PublicFacts(
        CLIENTS, "server", layout=LAYOUT, model=SPEC, training=training, aggregation=Method(name, facts)
    )
    return fed.ledger, public


def attacked(tmp_path, ledger, public, observers, names=("span",)):
    write_transcript(tmp_path / "t.parquet", ledger, public)
    return attack_transcript(tmp_path / "t.parquet", observers, names).played


def rows(played):
    """Victim -> the rows that are claimed of it."""
    claims = [c for one in played for c in claims_in(one.outcome) if isinstance(c, RecordsClaim)]
    return {c.victim: np.sort(c.numbers, axis=0) for c in claims}


@pytest.mark.parametrize(
    ("name", "options", "observers"),
    [
        ("secure-aggregation", {"threshold": 2}, "server+P1+P2"),
        ("secure-aggregation", {"threshold": 4}, "server+P1+P2"),
        ("he-aggregation", {}, "server+P1"),
    ],
)
def test_a_coalition_that_can_open_single_updates_claims_their_rows_as_if_they_had_been_sent(
    name, options, observers, tmp_path
):
    if name == "he-aggregation":
        pytest.importorskip("tenseal")
    plain = rows(attacked(tmp_path, *trained("plain"), "server"))
    assert {"P3", "P4"} <= plain.keys()
    found = rows(attacked(tmp_path, *trained(name, **options), observers))
    outside = {v: numbers for v, numbers in found.items() if v in ("P3", "P4")}
    if options.get("threshold") == 4:  # fewer colluders than shares are needed
        assert not outside
        return
    for victim in ("P3", "P4"):
        np.testing.assert_allclose(outside[victim], plain[victim], atol=1e-4)


def test_where_updates_cannot_be_taken_out_of_an_aggregation_attacks_on_them_are_not_played_to_their_end(tmp_path):
    ledger, public = trained("secure-aggregation", threshold=2, dropouts=1)

    def changed(m):
        if m.kind is not MaskKeys:
            return m
        plain = decode(m.content)
        body = encode({**plain, "keys": [bytes(31), *plain["keys"][1:]]})
        return replace(m, content=body, body=body)

    span, checks = attacked(tmp_path, Ledger(map(changed, ledger)), public, "server", ("span", "sac_audit"))
    assert span.failed.startswith("the attack span cannot read the updates that were aggregated (")
    assert "no point of X25519" in span.failed
    assert checks.failed == ""


def test_of_an_error_that_nobody_foresaw_the_kind_is_told_and_not_what_it_quotes(tmp_path, monkeypatch, capsys):
    def broken(view):
        raise KeyError("a number of a record")

    monkeypatch.setattr(transcript_attack, "with_recovered", broken)
    span, _ = attacked(tmp_path, *trained("secure-aggregation", threshold=2), "server", ("span", "sac_audit"))
    assert span.failed == "the attack span cannot read the updates that were aggregated (KeyError)"
    assert "a number of a record" not in "".join(capsys.readouterr())
