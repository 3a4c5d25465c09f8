"""Audits of networks with activation norms: what is played, what stays unread, and what a configuration may ask for."""

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from leakledger.attacks.observed.sums import find_sums
from leakledger.audit import run
from leakledger.audit.case import cases
from leakledger.audit.case_protocol import model_spec
from leakledger.audit.config import Model
from leakledger.audit.federate import federate
from leakledger.audit.granted import granted_knowledge
from leakledger.audit.made_up import WITH_BATCH_NORM, Sent, made_up_update, rows_alone, shown
from leakledger.audit.play import view_of
from leakledger.audit.truth import Truth
from leakledger.preprocess.messages import BatchNormStatistics, ClientGradient
from leakledger.preprocess.models import as_tensors, gradient, mean_loss, statistic_shapes
from leakledger.preprocess.secret import PUBLIC_MASTER
from tests.audit.example import config, truth

QUICK = {
    "data": {"source": "fair", "rows": 200},
    "preprocessing": [{"encoder": "local", "scaler": "local"}],
    "training": {"rounds": 1, "batch_size": 8},
    "attacks": {"use": ["span"]},
    "audit": {"seeds": [0], "observers": ["server"]},
}


def audited(folder, **sections):
    return run.run_audit(config(**{**QUICK, **sections}), folder / "run", master=PUBLIC_MASTER)


def records_of(record):
    return {s.metric: s for s in record.scores if s.asset == "records"}


def unread(record):
    return {u.topic for c in record.cases for u in c.unread}


@pytest.mark.parametrize("norm", ["layer", "batch"])
def test_an_audit_reads_whole_rows_behind_a_norm_and_leaves_no_message_unread(norm, tmp_path):
    training = {"rounds": 1, "batch_size": 8 if norm == "batch" else 4}
    record = audited(tmp_path, model={"hidden": [60, 40], "norm": norm}, training=training)
    assert records_of(record)["verified_rows"].status == "scored"
    assert record.verdict.status == "leaks"
    assert not unread(record) & {"train.batch-norm", "train.gradient"}


def test_statistics_that_no_attack_can_read_are_listed_and_forbid_the_verdict_that_nothing_leaked(tmp_path):
    record = audited(tmp_path, model={"hidden": [10], "norm": "batch"})
    assert unread(record) >= {"train.batch-norm", "train.gradient"}
    assert record.verdict.status == "inconclusive"


def test_local_training_with_batch_norm_leaves_its_statistics_unread(tmp_path):
    training = {"algorithm": "fedavg", "rounds": 1, "batch_size": 8}
    record = audited(tmp_path, model={"hidden": [60], "norm": "batch"}, training=training)
    assert "train.batch-norm" in unread(record)
    assert "local steps move the scales of batch norm" in records_of(record)[""].reason


def test_dropout_is_no_failure_of_the_scorer(tmp_path):
    record = audited(tmp_path, model={"hidden": [20], "dropout": 0.3}, attacks={"use": ["atoms"]})
    assert all(k.passed for c in record.cases for k in c.controls if k.attack == "scorer")
    assert "dropout 0.3" in records_of(record)[""].reason


def test_made_up_clients_tell_statistics_as_real_ones_do():
    found = truth(**{**QUICK, "model": {"hidden": [60], "norm": "batch"}})
    view = view_of(("server",), found)
    update = next(view.received(ClientGradient))
    rows, labels = found.batch(update.sender, 0), found.labels(update.sender, 0)
    made, _ = shown(view, Sent(update), {"made up": (rows, labels)}, np.random.default_rng(0))
    ((told,), (real,)) = (
        [m.payload for m in v.received(BatchNormStatistics) if m.sender == who]
        for v, who in ((made, "made up"), (view, update.sender))
    )
    for name in statistic_shapes(view.public.model):
        np.testing.assert_allclose(told.statistics[name], real.statistics[name], rtol=1e-4, atol=1e-6)
    assert [m.sender for m in made.received(BatchNormStatistics)] == ["made up"]
    model = next(m for m in view.messages if m.topic == "train.model").payload
    alone, _ = made_up_update(view, ClientGradient, model, rows, labels, np.random.default_rng(0))
    assert not any("running" in name for name in alone.gradient)


def test_a_control_of_batch_norm_plants_batches_that_it_leaves_something_of():
    views = [view_of(("server",), truth(**{**QUICK, "model": {"hidden": [10], "norm": n}})) for n in ("batch", "layer")]
    assert [rows_alone(v, 8) for v in views] == [WITH_BATCH_NORM, 1]
    assert rows_alone(views[0], 3) == 3


def test_parties_without_norms_agree_on_what_they_agreed_on_before():
    settings = config(**QUICK)
    assert settings.model.agreed == {"hidden": [20, 20], "activation": "relu"}
    assert Model(norm="group", dropout=0.5).agreed.keys() == {"hidden", "activation", "norm", "dropout"}
    found = Truth(federate(settings, cases(settings)[0], PUBLIC_MASTER)).federated
    assert found.public.model.to_plain().keys() == {"inputs", "outputs", "hidden", "activation", "task", "dropout"}


REFUSED = {
    "groups": ({"model": {"norm": "group", "norm_groups": 3}}, "norm_groups is 3, and 20 hidden units do not divide"),
    "one unit": ({"model": {"norm": "layer", "hidden": [1]}}, "layer norm over a single unit makes 0 of every row"),
    "one row": ({"model": {"norm": "batch"}, "training": {"batch_size": 1}}, "batch norm makes 0 of a single row"),
    "clipped rows": (
        {"model": {"norm": "batch"}, "defense": {"name": "example-clipping", "clip_norm": 1.0}},
        "batch norm mixes the rows of a batch",
    ),
    "noise": ({"model": {"norm": "batch"}, "defense": {"name": "gaussian-noise", "sigma": 1.0}}, "unprotected"),
    "masks": ({"model": {"norm": "batch"}, "training": {"aggregation": "secure-aggregation"}}, "in the clear beside"),
    "poisson": ({"model": {"dropout": 0.1}, "training": {"sampling": "poisson"}}, "dropout is 0.1, and the gradients"),
    "no such norm": ({"model": {"norm": "spectral"}}, "'batch', 'layer', 'group' or 'instance'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_go_together_is_refused_before_anything_runs(case):
    sections, why = REFUSED[case]
    with pytest.raises(ValidationError, match=why):
        config(**sections)


def test_the_absolute_error_is_the_loss_of_a_regression_that_asks_for_it():
    schema = type("Schema", (), {"task": "regression", "classes": ()})
    spec = model_spec(Model(loss="mae"), schema, 3)
    assert float(mean_loss(spec, torch.tensor([[1.0], [4.0]]), torch.tensor([3.0, 3.0]))) == 1.5


def test_a_loss_of_regressions_is_refused_for_classes(tmp_path):
    with pytest.raises(ValueError, match="loss 'mae' is that of a regression; a binary task minimises cross-entropy"):
        audited(tmp_path, model={"loss": "mae"})


@pytest.mark.parametrize("norm", ["layer", "batch"])
def test_a_client_reads_the_sum_over_the_others_only_where_it_is_the_gradient_of_their_rows_together(norm):
    settings = {**QUICK, "model": {"hidden": [20], "norm": norm}, "training": {"rounds": 2, "batch_size": 4}}
    found = truth(**settings)
    known = granted_knowledge(config(**settings), found)
    outcome = find_sums(view_of(("P1",), found), known)
    if norm == "batch":
        assert "under batch norm the sum over clients is the gradient of no batch" in outcome.reason
        return
    update = outcome[0]
    rows = np.concatenate([found.federated.train[c].rows[found.federated.batches[c, 0][0]] for c in ("P2", "P3")])
    weights = as_tensors(update.weights, dtype=torch.float64)
    own = gradient(update.model, weights, torch.from_numpy(rows).double(), torch.from_numpy(update.labels))
    for name, g in update.gradient.items():
        np.testing.assert_allclose(g, own[name], atol=1e-4)
