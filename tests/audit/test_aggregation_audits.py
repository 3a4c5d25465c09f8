"""Audits of aggregated updates: what the server, a client and coalitions get, what counts as read, what ends a case."""

import numpy as np
import pytest

from leakledger.audit.assemble import load_record
from leakledger.audit.benchmarks import aggregation as benchmark
from leakledger.audit.benchmarks.base import Options, markdown
from leakledger.audit.case import cases
from leakledger.audit.federate import federate
from leakledger.audit.hiding import hides_updates
from leakledger.audit.play import view_of
from leakledger.audit.run import run_audit
from leakledger.audit.truth import Truth
from leakledger.preprocess.aggregation import AGGREGATIONS
from leakledger.preprocess.aggregation.secure_aggregation import STEPS
from leakledger.preprocess.crypto.masking import Ring
from leakledger.preprocess.messages import ClientGradient
from leakledger.preprocess.secret import PUBLIC_MASTER
from leakledger.preprocess.transcript import read_transcript
from leakledger.preprocess.views import Method
from tests.audit.example import config
from tests.preprocess.registered import aggregations

HIDING = [a for a in aggregations() if "plain" not in a.values]
TRAINING = {"rounds": 1, "batch_size": 4}


def settings(aggregation, **more):
    return config(
        training={**TRAINING, "aggregation": aggregation, **more},
        attacks={"use": ["linear_layer", "span"]},
        model={"hidden": [60, 60]},
        partition={"kind": "iid", "parties": 3},
        audit={"observers": ["server", "P1+server", "P1+P2+server"]},
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", HIDING)
def test_attacks_get_rows_back_for_a_coalition_that_breaks_the_protocol_and_for_no_other(name, tmp_path):
    options = {"threshold": 2} if name == "secure-aggregation" else {}
    (case,) = run_audit(settings(name, **options), tmp_path / "run", master=PUBLIC_MASTER).cases
    scored = {(t.attack, t.observers, "+" in t.victim) for t in case.trials if t.status == "scored"}
    broken = [("P1", "P2", "server"), *([("P1", "server")] if name == "he-aggregation" else [])]
    assert {o for _, o, of_several in scored if not of_several} == set(broken)
    assert ("span", ("P1", "P2", "server"), False) in scored
    sums = {o for _, o, of_several in scored if of_several}
    assert sums == ({("server",), ("P1", "server")} if name == "secure-aggregation" else set())
    best = [t.value for t in case.trials if t.attack == "span" and t.metric == "accuracy" and t.status == "scored"]
    assert max(best) == 1
    assert not any(u.topic.startswith((name, "channel.", "train.")) for u in case.unread)
    failed = [c for c in case.controls if not c.passed]
    # `linear_layer` reads single rows, of a batch all or some: which rows are drawn depends on the versions installed
    assert all(c.attack == "linear_layer" and c.kind == "power" for c in failed), failed


@pytest.mark.parametrize("name", HIDING)
def test_what_is_masked_or_encrypted_passes_its_check_and_without_masks_it_does_not(name, monkeypatch):
    assert set(hides_updates(name, ()).values()) == {""}
    if name == "secure-aggregation":
        options = (("fraction_bits", 31),)  # another key of the cache
        monkeypatch.setattr(Ring, "mask", lambda self, seed, count: np.zeros(count, self.dtype))
        assert hides_updates(name, options)["secure-aggregation.masked"] != ""


def test_everyone_knows_the_aggregation_and_the_transcript_says_it(tmp_path):
    chosen = settings("secure-aggregation", threshold=2, fraction_bits=24)
    (case,) = cases(chosen)
    found = federate(chosen, case, PUBLIC_MASTER)
    options = {"threshold": 2, "fraction_bits": 24, "ring_bits": 64, "dropouts": 0, "dropout_step": "masked-input"}
    assert found.public.aggregation == Method("secure-aggregation", options)
    assert type(found.public).from_plain(found.public.to_plain()) == found.public
    assert case.setting.training.endswith("1 round, secure-aggregation (threshold 2, fraction bits 24)")
    assert "-fedsgd-secure-aggregation-" in case.id


def test_an_audited_coalition_has_the_update_as_plain_training_would_have_sent_it():
    chosen = settings("secure-aggregation", threshold=2)
    (case,) = cases(chosen)
    found = federate(chosen, case, PUBLIC_MASTER)
    assert not list(view_of(("server",), Truth(found)).received(ClientGradient))
    (message,) = view_of(("server", "P1", "P2"), Truth(found)).received(ClientGradient)
    assert (message.sender, message.payload.rows) == ("P3", 4)


@pytest.mark.parametrize("step", STEPS)
def test_a_case_with_fewer_clients_than_the_threshold_is_aborted_and_says_where(step, tmp_path):
    chosen = settings("secure-aggregation", threshold=3, dropouts=1, dropout_step=step)
    with pytest.raises(ValueError, match=f"2 of 3 clients are left in {step}, fewer than the threshold 3") as refused:
        run_audit(chosen, tmp_path / "run", master=PUBLIC_MASTER)
    assert "\n" not in str(refused.value)
    ((why,),) = [a.aborts for a in load_record(tmp_path / "run").aborted]
    assert (why.party, why.step, why.reason) == ("server", step, "TooFewClients")
    (transcript,) = (tmp_path / "run" / "transcripts").glob("*.parquet")
    assert not any(m.topic == "evaluate.model" for m in read_transcript(transcript).ledger)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"aggregation": "secure-agregation"}, "unknown.*secure-aggregation"),
        ({"aggregation": "secure-aggregation", "threshold": 4}, "threshold 4 is above the 3 clients of a round"),
        ({"aggregation": "secure-aggregation", "participation": 0.3}, "needs at least 2 clients a round, got 1"),
        ({"threshold": 2}, "plain has no such option; secure-aggregation has"),
        ({"aggregation": "he-aggregation", "scale_bits": 60}, "less than or equal to 50"),
        ({"aggregation": "secure-aggregation", "ring_bits": 48}, "ring_bits"),
    ],
)
def test_what_a_configuration_cannot_mean_is_refused(given, problem):
    with pytest.raises(ValueError, match=problem):
        config(training={**TRAINING, **given}, partition={"kind": "iid", "parties": 3})


def test_the_benchmark_has_time_and_bytes_of_client_and_server_and_says_what_each_takes(monkeypatch):
    monkeypatch.setattr(benchmark, "PARAMETERS", (300,))
    monkeypatch.setattr(benchmark, "CLIENTS", (3, 4))
    rows = list(benchmark.run(Options(quick=True)))
    assert {r.setting["aggregation"] for r in rows} == set(AGGREGATIONS)
    assert {r.metric for r in rows} >= {*benchmark.COLUMNS, "masks alone", *benchmark.CIPHERTEXT_WORK.values()}
    for r in (r for r in rows if r.metric == "server receives"):
        (sent,) = (o.measured for o in rows if o.setting == r.setting and o.metric == "client sends")
        assert r.measured == pytest.approx(sent * r.setting["clients"])
    assert "secure-aggregation, 1 drop" in markdown("aggregation", rows)
