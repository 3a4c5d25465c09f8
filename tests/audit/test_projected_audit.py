"""An audit with a process per party has the results of one with all parties in one process."""

from dataclasses import replace

import numpy as np
import pytest

from leakledger.audit.case import cases
from leakledger.audit.federate import federate
from leakledger.audit.run import run_case
from leakledger.preprocess.federation import FederationError
from leakledger.preprocess.secret import PUBLIC_MASTER, pinned
from leakledger.preprocess.transport.protocol import merged_ledger
from leakledger.preprocess.transport.simulated import run_simulated
from tests.audit.example import config
from tests.preprocess import protocols

SETTINGS = {
    "data": {"source": "fair", "rows": 150},
    "partition": {"kind": "divergent", "parties": 3},
    "preprocessing": [{"encoder": "dh-psi", "scaler": "zscore-sac", "route": "sealed"}],
    "training": {"rounds": 2, "batch_size": 4, "patience": 5},
    "defense": {"name": "gaussian-noise", "sigma": 0.01},
    "attacks": {"use": ["plaintext", "vocabulary"]},
}


@pytest.fixture(scope="module")
def both():
    """The same case both ways: the configurations, and what their federations leave."""
    settings = [config(**SETTINGS, audit={"mode": mode}) for mode in ("simulated", "projected")]
    return settings, [federate(s, cases(s)[0], PUBLIC_MASTER) for s in settings]


def test_the_ledger_is_the_same_to_the_last_byte(both):
    _, (simulated, projected) = both
    assert tuple(projected.ledger) == tuple(simulated.ledger)
    assert projected.ledger.head == simulated.ledger.head
    assert any(m.sealed for m in projected.ledger)


def test_public_facts_truth_and_metrics_are_the_same(both):
    _, (simulated, projected) = both
    assert projected.public.to_plain().keys() == simulated.public.to_plain().keys()
    assert projected.public == simulated.public
    assert projected.secrets == simulated.secrets
    assert (projected.metrics, projected.rounds) == (simulated.metrics, simulated.rounds)
    assert list(projected.batches) == list(simulated.batches) == [(f"P{i}", r) for r in (0, 1) for i in (1, 2, 3)]
    for key, drawn in simulated.batches.items():
        assert all((one == other).all() for one, other in zip(drawn, projected.batches[key], strict=True))
    for part in ("train", "test"):
        for party, one in getattr(simulated, part).items():
            other = getattr(projected, part)[party]
            for name in ("rows", "labels", "candidates"):
                assert np.array_equal(getattr(one, name), getattr(other, name)), (part, party, name)
                assert getattr(one, name).dtype == getattr(other, name).dtype


@pytest.mark.slow
def test_records_are_the_same_but_for_the_time_that_they_took(tmp_path, both):
    settings, _ = both
    records = [run_case(s, cases(s)[0], tmp_path / s.audit.mode, PUBLIC_MASTER) for s in settings]
    simulated, projected = (replace(r, seconds={}) for r in records)
    assert simulated == projected


def test_a_ledger_is_merged_from_what_each_party_holds():
    inputs, params = {"a": 1, "b": 2, "c": 3}, {"via": "server", "sealed": True}
    whole = run_simulated(protocols.secure_sum, list(inputs), inputs, params, secret=pinned(1))
    merged = merged_ledger(whole)
    assert [m.sequence for m in merged] == list(range(len(merged)))
    assert all(m.content is not None for m in merged)
    assert {m.sealed for m in merged} == {True, False}
    with pytest.raises(FederationError, match="no party holds message"):
        merged_ledger({p: replace(r, messages=r.messages[1:]) for p, r in whole.items()})
    forged = whole["server"].messages[-1]
    changed = replace(forged, topic="another")
    with pytest.raises(FederationError, match=f"holds another message {forged.sequence} than"):
        merged_ledger({**whole, "server": replace(whole["server"], messages=(*whole["server"].messages[:-1], changed))})
