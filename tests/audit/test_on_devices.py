"""An audit says the same wherever its tensors live: every attack on updates runs there."""

import pytest
import torch

from leakledger.attacks import ATTACKS
from leakledger.audit import run
from leakledger.audit.benchmarks import devices
from leakledger.audit.benchmarks.base import Options
from leakledger.preprocess.secret import PUBLIC_MASTER
from tests.audit.example import config

ON_UPDATES = [name for name, attack in ATTACKS.items() if attack.asset == ("records",)]
QUICK = {
    "data": {"source": "fair", "rows": 200},
    "partition": {"parties": 2},
    "preprocessing": [{"encoder": "pooled", "scaler": "pooled", "columns": "all"}],
    "training": {"rounds": 1, "batch_size": 2},
    "model": {"hidden": [100, 100]},
}
BRIEF = {"posterior": {"chains": 4, "sweeps": 4, "repairs": 1}, "tableak": {"restarts": 6, "iterations": 400}}
NOISE = {"name": "gaussian-noise", "sigma": 0.001}
WITHIN = {"posterior": 0.15, "tableak": 0.15}  # coins on the device, and signs of what is nearly zero


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize(
    ("use", "defense"),
    [([a for a in ON_UPDATES if a != "posterior"], {"name": "none"}), (["posterior"], NOISE)],
    ids=["in the clear", "noised"],
)
def test_an_audit_measures_the_same(use, defense, tmp_path):
    attacks = {"use": use, "bounds": "known", "labels": "known", **BRIEF}
    scored = []
    for device in ("cpu", "cuda"):
        audited = config(**QUICK, attacks=attacks, defense=defense, audit={"device": device, "observers": ["server"]})
        record = run.run_audit(audited, tmp_path / device, master=PUBLIC_MASTER)
        assert (record.run.device == torch.cuda.get_device_name("cuda")) == (device == "cuda")
        scored.append({(s.attack, s.metric): s for s in record.scores if s.asset == "records"})
    here, there = scored
    assert here.keys() == there.keys()
    assert any(s.value for s in here.values())
    for (attack, metric), score in here.items():
        other = there[attack, metric]
        assert (score.status, score.value is None) == (other.status, other.value is None), (attack, metric)
        if score.value is not None:
            assert other.value == pytest.approx(score.value, abs=WITHIN.get(attack, 0.02)), (attack, metric)


def test_benchmarks_measure_an_accelerator_beside_the_processor_or_alone(monkeypatch):
    monkeypatch.setattr(devices.torch.cuda, "is_available", lambda: True)
    assert [(o.device, o.jobs) for o in devices.each_device(Options())] == [("cpu", None), ("cuda", 1)]
    assert [(o.device, o.jobs) for o in devices.each_device(Options(device="cuda:1", jobs=3))] == [("cuda:1", 3)]
    monkeypatch.setattr(devices.torch.cuda, "is_available", lambda: False)
    assert devices.each_device(Options(jobs=2)) == [Options(jobs=2)]


def test_rows_of_the_processor_have_no_device():
    assert devices.on("cpu") == {}
