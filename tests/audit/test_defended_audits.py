"""Audits of defended updates: what is public, what controls plant, and that the scoring knows what it looks at."""

from dataclasses import replace

import numpy as np
import pytest

from leakledger.attacks import ATTACKS
from leakledger.audit import record_controls, run
from leakledger.audit.case import cases
from leakledger.audit.federate import federate
from leakledger.audit.granted import attempts, granted_knowledge
from leakledger.audit.made_up import Sent, encoded_rows
from leakledger.audit.play import Play, view_of
from leakledger.audit.records import SCORER
from leakledger.audit.scorer_controls import repeatable, scorer_controls
from leakledger.audit.scoring import baseline
from leakledger.audit.truth import Truth
from leakledger.defenses import chain, defense_of
from leakledger.defenses.client_clipping import ClientClipping
from leakledger.defenses.example_clipping import ExampleClipping
from leakledger.defenses.gaussian_noise import GaussianNoise
from leakledger.defenses.pruning import Pruning
from leakledger.defenses.quantisation import Quantisation
from leakledger.preprocess.messages import ClientGradient, ClientWeights, GlobalModel
from leakledger.preprocess.pipeline import Encoded
from leakledger.preprocess.secret import PUBLIC_MASTER
from leakledger.preprocess.training import ALGORITHMS
from leakledger.preprocess.views import TrainingSpec
from tests.audit.example import config
from tests.audit.example import truth as true_of
from tests.defenses.kinds import OF_UPDATES, ONE_EACH, configured, named

QUICK = {
    "data": {"source": "fair", "rows": 200},
    "preprocessing": [{"encoder": "local", "scaler": "local"}],
    "training": {"rounds": 1, "batch_size": 4},
    "attacks": {"use": ["span"]},
    "audit": {"seeds": [0], "observers": ["server"]},
}
POISSON = {"rounds": 1, "batch_size": 4, "sampling": "poisson"}
ALL = chain(ExampleClipping(0.5), ClientClipping(0.3), Pruning(0.2), Quantisation(6, "stochastic"), GaussianNoise(0.01))


def defended(defense, **changes):
    return {**QUICK, "defense": configured(defense), **changes}


class Watching(ATTACKS["span"]):
    """An attack that claims nothing and keeps the views and knowledge that it was shown."""

    def run(self, view, knowledge):
        kept.append((view, knowledge))
        return []


kept = []


def shown(case_truth, settings, rows, labels, defended):
    """The view and the knowledge that an attack gets where P1 is made up to train on `rows`."""
    view = view_of(("server",), case_truth)
    kind = ClientWeights if view.has(ClientWeights) else ClientGradient
    first = next(m for m in view.received(kind) if m.sender == "P1")
    play = Play(Watching(), view, granted_knowledge(settings, case_truth), case_truth)
    kept.clear()
    record_controls._made_up(play, Sent(first), {"P1": (rows, labels)}, np.random.default_rng(0), defended)
    ((seen, knowledge),) = kept
    return seen, knowledge


def row_by_row(case_truth, model, rows, labels, clip_norm):
    """The obvious mean gradient: that of each row on its own, clipped, then summed up."""
    layout, spec = case_truth.layout, case_truth.federated.public.model
    total = {}
    for i in range(len(rows)):
        x = encoded_rows(layout, rows.take(np.array([i])))
        data, one = Encoded(x, labels[i : i + 1]), [np.array([0])]
        own = ALGORITHMS["fedsgd"].client(spec, TrainingSpec(), model, data, one).gradient
        norm = np.sqrt(sum((g.astype(np.float64) ** 2).sum() for g in own.values()))
        shrink = 1.0 if clip_norm is None else min(1.0, clip_norm / norm)
        total = {n: total.get(n, 0) + shrink * g.astype(np.float64) for n, g in own.items()}
    return total


@named()
def test_the_public_facts_name_each_mechanism_with_its_parameters_in_order(defense):
    public = true_of(**defended(defense)).federated.public
    assert public.mechanisms == defense.mechanisms()
    assert defense_of(public.mechanisms).mechanisms() == defense.mechanisms()


@named()
@pytest.mark.parametrize("training", [QUICK["training"], POISSON], ids=["fixed", "poisson"])
def test_planted_rows_of_a_gradient_are_clipped_and_protected_as_the_audited_ones_are(defense, training):
    settings = defended(defense, training=training)
    case_truth = true_of(**settings)
    rows, labels = case_truth.batch("P2", 0), case_truth.labels("P2", 0)
    if not len(rows):
        rows, labels = case_truth.population.take(np.arange(5)), np.arange(5) % 2
    seen, knowledge = shown(case_truth, config(**settings), rows, labels, defended=True)
    (message,) = seen.received(ClientGradient)
    (model,) = seen.on(GlobalModel, recipient="P1")
    assert message.payload.rows == (4 if training is POISSON else len(rows))
    assert seen.public == case_truth.federated.public
    assert knowledge.labels["P1", 0].tolist() == labels.tolist()
    total = row_by_row(case_truth, model.payload, rows, labels, defense.row_clip_norm)
    mean = {n: np.float32(g / message.payload.rows) for n, g in total.items()}
    expected = defense.protect(mean, np.random.default_rng(0))  # the same coins: a gradient takes none
    off = np.concatenate([np.abs(message.payload.gradient[n] - g).ravel() for n, g in expected.items()])
    assert np.mean(off < 1e-5) > 0.98  # where rounding decides which entry is pruned or rounded up, a few differ


@named(OF_UPDATES)
def test_planted_local_training_is_protected_as_the_audited_one_is(defense):
    settings = defended(defense, training={"algorithm": "fedavg", "rounds": 1, "batch_size": 4})
    case_truth = true_of(**settings)
    rows, labels = case_truth.batch("P2", 0), case_truth.labels("P2", 0)
    sent = []
    for guarded in (True, False):
        seen, _ = shown(case_truth, config(**settings), rows, labels[: len(rows)], guarded)
        (message,) = seen.received(ClientWeights)
        (model,) = seen.on(GlobalModel, recipient="P1")
        before = model.payload.weights
        sent.append({n: np.float64(w - before[n]) for n, w in message.payload.weights.items()})
    assert any((sent[0][n] != sent[1][n]).any() for n in sent[0])
    if isinstance(defense, ClientClipping):
        assert np.sqrt(sum((a**2).sum() for a in sent[0].values())) == pytest.approx(defense.clip_norm, rel=1e-4)
    if isinstance(defense, Pruning):
        assert all((a == 0).sum() >= int(defense.share * a.size) for a in sent[0].values())


def test_rows_planted_to_be_recovered_are_not_defended_and_their_view_says_so():
    settings = defended(ALL, training=POISSON)
    case_truth = true_of(**settings)
    row = case_truth.population.take(np.array([0]))
    seen, _ = shown(case_truth, config(**settings), row, np.array([1]), defended=False)
    (message,), (model,) = seen.received(ClientGradient), seen.on(GlobalModel, recipient="P1")
    assert seen.public.mechanisms == ()
    assert seen.public.training.sampling == "fixed"
    assert message.payload.rows == 1
    for name, g in row_by_row(case_truth, model.payload, row, np.array([1]), None).items():
        np.testing.assert_allclose(message.payload.gradient[name], g, rtol=1e-5, atol=1e-7)


def controls(settings, case_truth):
    views = [view_of(("server",), case_truth)]
    tried, known = attempts(settings, case_truth), granted_knowledge(settings, case_truth)
    prior = baseline(case_truth, known, np.random.default_rng(0), 20)
    return list(scorer_controls(case_truth, views, tried, prior, np.random.default_rng(0)))


GRADIENT = "the rows that count as true make the observed gradient"


@named([*ONE_EACH, ALL])
@pytest.mark.parametrize("training", [QUICK["training"], POISSON], ids=["fixed", "poisson"])
def test_a_sound_scorer_passes_under_every_defense(defense, training):
    settings = defended(defense, training=training)
    found = controls(config(**settings), true_of(**settings))
    assert [c for c in found if not c.passed] == []


@named([d for d in (*ONE_EACH, ALL) if repeatable(d.mechanisms()) is not None])
def test_rows_that_did_not_make_the_gradient_are_noticed_under_every_defense(defense):
    """Each party is taken for the next one."""
    settings = defended(defense)
    case_truth = true_of(**settings)
    federated, names = case_truth.federated, case_truth.parties
    following = dict(zip(names, (*names[1:], names[0]), strict=True))
    train = {v: federated.train[n] for v, n in following.items()}
    batches = {(v, 0): federated.batches[n, 0] for v, n in following.items()}
    tables = {v: federated.tables[n] for v, n in following.items()}
    wrong = Truth(replace(federated, tables=tables, train=train, batches=batches))
    assert any(c.expected.startswith(GRADIENT) for c in controls(config(**settings), wrong) if not c.passed)


def test_what_can_be_done_again_of_a_defense_ends_at_its_first_coin():
    rows, noise, levels = ExampleClipping(1.0), GaussianNoise(0.1), Quantisation(4, "stochastic")
    assert repeatable(()).mechanisms() == ()
    assert repeatable(chain(rows, noise, levels).mechanisms()).mechanisms() == rows.mechanisms()
    assert repeatable(chain(rows, Pruning(0.5)).mechanisms()).mechanisms() == chain(rows, Pruning(0.5)).mechanisms()
    assert repeatable(chain(noise, Pruning(0.5)).mechanisms()) is None
    assert repeatable(chain(noise, ClientClipping(1.0)).mechanisms()) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("defense", "training"),
    [
        (ALL, {"rounds": 2, "batch_size": 4, "sampling": "poisson"}),
        (
            chain(ClientClipping(0.3), Pruning(0.2), Quantisation(6, "stochastic"), GaussianNoise(0.01)),
            {"algorithm": "fedavg", "rounds": 2, "batch_size": 4},
        ),
    ],
    ids=["fedsgd", "fedavg"],
)
def test_with_a_process_per_party_defended_updates_are_the_same_to_the_last_byte(defense, training):
    both = []
    for mode in ("simulated", "projected"):
        settings = config(**defended(defense, training=training, audit={"mode": mode}))
        both.append(federate(settings, cases(settings)[0], PUBLIC_MASTER))
    simulated, projected = both
    assert projected.public == simulated.public
    assert tuple(projected.ledger) == tuple(simulated.ledger)
    assert any(m.topic in ("train.gradient", "train.weights") for m in simulated.ledger)
    for key, drawn in simulated.batches.items():
        assert [b.tolist() for b in drawn] == [b.tolist() for b in projected.batches[key]]


@named()
def test_an_audit_under_every_defense_ends_with_its_controls_played(defense, tmp_path):
    attacks = {"use": ["random_baseline", "linear_layer"]}
    record = run.run_audit(config(**defended(defense, attacks=attacks)), tmp_path / "run", master=PUBLIC_MASTER)
    (case,) = record.cases
    named_parts = [part.split()[0] for part in case.setting.defense.split(" then ")]
    assert named_parts == [m.kind for m in defense.mechanisms()]
    assert not [c for c in case.controls if c.attack == SCORER and not c.passed]
    assert {c.kind for c in case.controls if c.attack == "random_baseline"} >= {"null"}


@named([ExampleClipping(0.3), ClientClipping(0.2), chain(ExampleClipping(0.3), ClientClipping(0.2))])
def test_clipping_alone_hides_no_row_from_an_exact_attack(defense, tmp_path):
    given = {
        "preprocessing": [{"encoder": "server-dictionary", "scaler": "federated-zscore"}],
        "model": {"hidden": [40]},
    }
    record = run.run_audit(config(**defended(defense, **given)), tmp_path / "run", master=PUBLIC_MASTER)
    (case,) = record.cases
    whole = [t for t in case.trials if t.metric == "identical_rows"]
    assert len(whole) == 3
    assert np.mean([t.value for t in whole]) >= 0.9
    assert not any(t.certain_wrong for t in case.trials)
    assert record.verdict.status == "leaks"
