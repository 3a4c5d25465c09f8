import numpy as np

from leakledger.audit.benchmarks.base import Options
from leakledger.audit.benchmarks.recording import METRICS, Unrecorded, figure, run
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.transport.simulated import Simulated
from tests.preprocess.notes import tell


def test_a_federation_without_a_record_brings_the_same_values_and_keeps_nothing():
    feds = [kind(["a", "b"], secret=pinned(1)) for kind in (Simulated, Unrecorded)]
    arrived = [fed.own(tell(fed, fed.at("a", [1, 2]), "b", via="server", sealed=True)) for fed in feds]
    assert arrived == [[1, 2], [1, 2]]
    assert [len(fed.ledger) for fed in feds] == [7, 0]


def test_every_run_has_a_row_for_what_is_added_and_one_for_the_chain(monkeypatch):
    import leakledger.audit.benchmarks.recording as recording

    monkeypatch.setattr(recording, "QUICK_PAIRS", 1)
    monkeypatch.setattr(recording, "TRAINING", recording.TrainingSpec(rounds=1, batch_size=8))
    rows = list(run(Options(quick=True)))
    assert [(r.setting["run"], r.metric) for r in rows] == [
        (n, m) for n in ("case", "training", "apsi") for m in METRICS
    ]
    assert all(np.isfinite(r.measured) and r.unit == "%" and r.n == 1 for r in rows)


def test_what_is_added_may_be_less_than_nothing_by_chance():
    row = figure("recording", "fair", {"run": "case"}, METRICS[0], [-1.0, 1.0, 0.0])
    assert row.measured == 0
    assert row.low is not None
    assert row.low < 0
