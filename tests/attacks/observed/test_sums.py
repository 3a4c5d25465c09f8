"""What consecutive models tell observers of the updates of all others together."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from leakledger.attacks.base import Abstained, AuxiliaryKnowledge, NotApplicable, clients_of, joint
from leakledger.attacks.gradient.span import Span
from leakledger.attacks.observed import aggregates
from leakledger.attacks.observed.sums import find_sums, of_sum
from leakledger.attacks.observed.updates import find_gradients, find_trainings, find_updates
from leakledger.audit.granted import granted_knowledge
from leakledger.audit.play import view_of
from leakledger.defenses import chain
from leakledger.defenses.client_clipping import ClientClipping
from leakledger.defenses.example_clipping import ExampleClipping
from leakledger.defenses.gaussian_noise import GaussianNoise
from leakledger.preprocess.messages import (
    CandidateModel,
    ClientGradient,
    EvaluatedModel,
    GlobalModel,
    Participants,
    Survivors,
)
from leakledger.preprocess.models import gradient
from leakledger.preprocess.views import Mechanism, Method
from leakledger.preprocess.wire import encode
from tests.audit.example import config, truth

SGD = {"rounds": 2, "batch_size": 4}
NOTHING = AuxiliaryKnowledge()


@cache
def federation(parties=3, seed=0, rows=90, **training):
    options = {**SGD, **training}
    dealt = {"kind": "iid", "parties": parties}
    return truth(training=options, partition=dealt, data={"rows": rows}, audit=seeds(seed))


def seeds(seed):
    return {"seeds": [seed], "jobs": 1, "baseline_draws": 3}


def known(found):
    """The labels of every batch of a federation."""
    return AuxiliaryKnowledge(labels={key: found.labels(*key) for key in found.federated.batches})


def gradient_of(found, update):
    """The mean gradient, in double precision, over the true rows of the clients behind an update."""
    clients, federated = clients_of(update.victim), found.federated
    rows = [np.concatenate(federated.batches[c, update.round]) for c in clients]
    x, y = (
        np.concatenate([getattr(federated.train[c], part)[r] for c, r in zip(clients, rows, strict=True)])
        for part in ("rows", "labels")
    )
    weights = {name: torch.tensor(w) for name, w in update.weights.items()}
    told = gradient(update.model, weights, torch.tensor(x, dtype=torch.float64), torch.tensor(y))
    return {name: g.numpy() for name, g in told.items()}


def errors(found, update, true):
    """(n,) of the first-layer entries that moved."""
    names = ("0.weight", "0.bias")
    moved = [(update.gradient[n] - true[n])[update.gradient[n] != 0] for n in names]
    return np.concatenate([m.ravel() for m in moved])


@pytest.mark.parametrize("observers", [("P1",), ("P3",), ("P1", "P2")])
def test_models_tell_a_client_the_gradient_of_all_other_clients_rows(observers):
    found = federation()
    sums = find_gradients(view_of(observers, found), known(found))
    others = joint([c for c in found.parties if c not in observers])
    assert [(u.victim, u.round, u.rows) for u in sums] == [(others, r, 4 * len(clients_of(others))) for r in (0, 1)]
    for update in sums:
        assert update.labels.tolist() == found.labels(others, update.round).tolist()
        off = errors(found, update, gradient_of(found, update))
        assert off.std() == pytest.approx(update.noise, rel=0.15)
        assert 0 < update.noise < 1e-5


def test_with_two_parties_the_sum_is_the_other_ones_update():
    found = federation(parties=2)
    (first, _) = find_gradients(view_of(("P1",), found), NOTHING)
    (sent, *_) = [u for u in find_gradients(view_of(("server",), found), NOTHING) if u.victim == "P2"]
    assert (first.victim, first.members) == ("P2", ())
    for name, g in sent.gradient.items():
        np.testing.assert_allclose(first.gradient[name], g, atol=6 * first.noise)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=5))
def test_independent_noise_on_each_mean_is_smaller_on_their_weighted_mean(rows):
    shares = np.array(rows) / sum(rows)
    (noise,) = of_sum(GaussianNoise(0.5).mechanisms(), shares.tolist())
    assert noise.parameters["sigma"] == pytest.approx(0.5 * float(np.sqrt((shares**2).sum())))


def test_clipped_rows_stay_clipped_in_a_sum_and_clipped_clients_leave_no_likelihood():
    both = chain(ExampleClipping(0.7), ClientClipping(0.3)).mechanisms()
    rows, clients = of_sum(both, [0.5, 0.5])
    assert rows == both[0]
    assert clients == Mechanism("client-clipping of 2 clients each", both[1].parameters)
    assert of_sum(both, [1.0]) == both


def test_the_server_that_receives_every_update_reads_no_sum():
    found = federation()
    view = view_of(("server",), found)
    assert find_sums(view, known(found)) == []
    assert all(not u.members for u in find_gradients(view, known(found)))
    assert find_sums(view_of(("server", "P1"), found), known(found)) == []


@pytest.mark.parametrize("algorithm", ["fedsgd", "fedavg"])
def test_the_last_round_is_read_from_the_model_that_is_evaluated(algorithm):
    found = federation(parties=2, rounds=1, algorithm=algorithm)
    view = view_of(("P1",), found)
    (update,) = find_updates(view, known(found))
    model, evaluated = (next(view.received(kind)) for kind in (GlobalModel, EvaluatedModel))
    assert {model.sequence, evaluated.sequence} <= set(update.evidence)
    without = view.restricted(lambda kind: kind is not EvaluatedModel)
    assert isinstance(find_updates(without, known(found)), NotApplicable)


def test_the_best_model_of_a_training_that_may_stop_early_is_not_taken_for_the_last():
    view = view_of(("P1",), federation(patience=1))
    without = view.restricted(lambda kind: kind is not CandidateModel)
    rounds = {u.round for u in find_gradients(view, known(federation(patience=1)))}
    assert {a.round for a in aggregates.round_means(view)} == rounds
    assert max(rounds) > max((a.round for a in aggregates.round_means(without)), default=-1)


def test_only_clients_that_are_announced_are_in_a_sum():
    found = federation(participation=0.67, rounds=20)  # enough for each to take part twice in a row
    for observer in found.parties:
        view = view_of((observer,), found)
        announced = {m.round: {f"P{i + 1}" for i in m.payload.clients} for m in view.received(Participants)}
        for update in find_gradients(view, known(found)):
            assert set(clients_of(update.victim)) == announced[update.round] - {observer}
            off = errors(found, update, gradient_of(found, update))
            assert off.std() < 2 * update.noise
    assert len(found.federated.batches) == 40


@pytest.mark.parametrize(("step", "gone"), [("masked-input", 1), ("unmasking", 0)])
def test_whoever_takes_no_part_in_a_round_reads_the_sum_over_those_whose_masked_updates_count(step, gone):
    masked = {"aggregation": "secure-aggregation", "threshold": 2, "dropouts": 1, "dropout_step": step}
    found = federation(parties=4, participation=0.75, rounds=8, patience=8, **masked)
    drawn = {m.round: m.payload.clients for m in view_of(("P1",), found).received(Participants)}
    announced = {r: [f"P{i + 1}" for i in clients] for r, clients in drawn.items()}
    observer = next(p for p in found.parties if any(r and p not in clients for r, clients in announced.items()))
    view = view_of((observer,), found)  # told every candidate for the next model
    absent = {r for r, clients in announced.items() if r and observer not in clients}
    sums = {u.round: u for u in find_gradients(view, known(found)) if u.round in absent}
    assert set(sums) == absent
    for round, update in sums.items():
        assert list(clients_of(update.victim)) == announced[round][: 3 - gone]
        assert errors(found, update, gradient_of(found, update)).std() < 2 * update.noise
    without = view.restricted(lambda kind: kind is not Survivors)  # of rounds that it takes part in, it would be told
    assert {u.round for u in find_gradients(without, known(found))} == absent


def test_without_the_announcement_no_sum_is_guessed():
    found = federation(participation=0.67, rounds=8)
    view = view_of(("P1",), found).restricted(lambda kind: kind is not Participants)
    assert find_sums(view, known(found)) == []


def test_a_local_training_is_read_from_two_models_as_if_its_weights_had_been_sent():
    found = federation(parties=2, algorithm="fedavg", learning_rate=0.05, local_epochs=2)
    (first, _) = find_trainings(view_of(("P1",), found), known(found))
    (sent, *_) = [u for u in find_trainings(view_of(("server",), found), known(found)) if u.victim == "P2"]
    assert first.schedule == sent.schedule
    assert first.labels.tolist() == sent.labels.tolist()
    assert first.noise > sent.noise
    for name, g in sent.gradient.items():
        np.testing.assert_allclose(first.gradient[name], g, atol=8 * first.noise)


def test_rows_that_nobody_counts_are_a_reason_not_a_guess():
    trained = view_of(("P1",), federation(parties=2, algorithm="fedavg"))
    everything = view_of(("P1",), federation(batch_size=0))
    for view in (trained, everything):
        outcome = find_updates(view, NOTHING)
        assert isinstance(outcome, NotApplicable)
        assert "how many rows P2 trains on is not known" in outcome.reason


@pytest.mark.parametrize("aggregation", [{}, {"aggregation": "he-aggregation"}])
def test_a_client_of_fewer_rows_than_the_batch_size_is_read_by_what_it_has(aggregation):
    """By ranks from models, and from a sum that has been opened by what it counts."""
    found = federation(parties=2, rows=20, batch_size=12, **aggregation)
    for update in find_gradients(view_of(("P1",), found), NOTHING):
        assert update.rows == len(found.batch("P2", update.round)) == 8
        off = errors(found, update, gradient_of(found, update))
        assert np.abs(off).max() < 8 * update.noise


@pytest.mark.parametrize(("parties", "rows", "batch_size"), [(2, 20, 12), (2, 20, 9), (3, 40, 14)])
def test_fewer_rows_than_batches_have_are_counted_by_ranks_where_the_mean_counts_every_client_alike(
    parties, rows, batch_size
):
    found = federation(parties=parties, rows=rows, batch_size=batch_size, weighting="clients")
    for update in find_gradients(view_of(("P1",), found), NOTHING):
        true = found.batch(update.victim, update.round)
        assert (update.rows, update.assumed_size) == (len(true), True)
        off = errors(found, update, gradient_of(found, update))
        assert np.abs(off).max() < 8 * update.noise
        if parties == 2:
            outcome = Span().invert(update, NOTHING)
            assert not outcome.verified.any()
            assert sorted(outcome.categories.tolist()) == sorted(true.categories.tolist())


@pytest.mark.parametrize("weighting", ["clients", "rows"])
@pytest.mark.parametrize(("hidden", "batch_size"), [([100, 100], 30), ([12, 40], 16), ([10], 16)])
def test_a_client_that_draws_its_batches_has_as_many_rows_as_they_have_however_few_differ(
    weighting, hidden, batch_size
):
    """Rows of the survey are often alike, and span no more of a layer than it is wide."""
    found = truth(
        training={**SGD, "batch_size": batch_size, "weighting": weighting, "participation": 0.5, "rounds": 12},
        partition={"kind": "iid", "parties": 4},
        data={"rows": 400},
        audit=seeds(1),
        model={"hidden": hidden},
    )
    updates = find_gradients(view_of(("P1",), found), NOTHING)
    assert updates
    assert all(u.rows == batch_size * len(clients_of(u.victim)) for u in updates)
    assert weighting == "rows" or not any(u.assumed_size for u in updates)


def test_fewer_rows_of_a_round_without_the_observers_are_counted_by_ranks():
    found = federation(rows=40, batch_size=14, participation=0.34, rounds=6, patience=6)
    view = view_of(("P1",), found)
    absent = [u for u in find_gradients(view, NOTHING) if u.victim in ("P2", "P3")]
    assert absent
    for update in absent:
        assert (update.rows, update.assumed_size) == (len(found.batch(update.victim, update.round)), True)


def test_an_own_update_of_another_model_takes_its_round_away_from_ranks_and_no_other():
    found = federation(parties=2, rows=20, batch_size=12, rounds=3, weighting="clients")
    view = view_of(("P1",), found)
    bent = [
        m.carrying(replace(m.payload, gradient={"0.weight": np.ones((2, 2))}))
        if m.kind is ClientGradient and m.round == 1
        else m
        for m in view.messages
    ]
    updates = find_gradients(replace(view, messages=tuple(bent)), NOTHING)
    assert [(u.round, u.rows) for u in updates] == [(r, len(found.batch("P2", r))) for r in (0, 2)]


def test_ranks_count_rows_of_a_normed_network_as_of_any():
    found = truth(
        training={**SGD, "batch_size": 12, "weighting": "clients"},
        partition={"kind": "iid", "parties": 2},
        data={"rows": 20},
        audit=seeds(0),
        model={"norm": "layer"},
    )
    assert [u.rows for u in find_gradients(view_of(("P1",), found), NOTHING)] == [8, 8]


def test_a_number_of_rows_that_nothing_bears_out_is_assumed():
    """Ranks bear out that of a batch, labels too, and none is smaller than of one row; of more rows than a layer has
    columns ranks tell nothing.
    """
    many = federation(parties=2, batch_size=30)
    for found, knowledge, assumed in (
        (federation(parties=2), NOTHING, False),
        (federation(parties=3), NOTHING, False),
        (federation(parties=2, batch_size=1), NOTHING, False),
        (many, NOTHING, True),
        (many, known(many), False),
    ):
        sums = find_gradients(view_of(("P1",), found), knowledge)
        assert [u.assumed_size for u in sums] == [assumed, assumed]


def test_labels_say_how_many_rows_a_client_has_where_the_batch_size_does_not():
    found = federation(batch_size=0)
    for update in find_gradients(view_of(("P1",), found), known(found)):
        assert update.rows == len(found.batch("P2+P3", update.round))
        off = errors(found, update, gradient_of(found, update))
        assert off.std() == pytest.approx(update.noise, rel=0.2)


def test_labels_that_cannot_be_those_of_the_client_are_a_reason():
    found = federation(parties=2, algorithm="fedavg", local_epochs=2)
    odd = AuxiliaryKnowledge(labels={("P2", r): np.zeros(3, np.int64) for r in (0, 1)})
    outcome = find_updates(view_of(("P1",), found), odd)
    assert isinstance(outcome, NotApplicable)
    assert "3 labels of P2 are not those of 2 passes" in outcome.reason


def test_the_sum_of_poisson_samples_is_over_as_many_rows_as_labels_say():
    found = federation(sampling="poisson", rounds=1)
    (update,) = find_gradients(view_of(("P1",), found), known(found))
    rows = len(found.batch("P2+P3", 0))
    assert (update.rows, update.stretched) == (rows, 8 / rows)
    assert errors(found, update, gradient_of(found, update)).std() < 1.3 * update.noise
    (blind,) = find_gradients(view_of(("P1",), found), NOTHING)
    assert (blind.rows, blind.guessed_size) == (8, True)


def test_poisson_samples_without_a_row_add_nothing_and_take_no_label_away():
    found = federation(sampling="poisson", rounds=8, batch_size=1)
    kinds = set()
    for r in range(8):
        rows = [len(found.labels(c, r)) for c in ("P2", "P3")]
        outcome = find_sums(view_of(("P1",), found), known(found), rounds=[r])
        kinds.add(min(sum(rows), 1) + (0 in rows))
        if not sum(rows):
            assert isinstance(outcome, Abstained)
            assert "is of no row" in outcome.reason
            continue
        (update,) = outcome
        assert (update.rows, update.guessed_size) == (sum(rows), False)
        assert update.labels.tolist() == found.labels("P2+P3", r).tolist()
        assert errors(found, update, gradient_of(found, update)).std() < 2 * update.noise
    assert kinds == {1, 2}  # both have a row, and one of them


def test_a_sample_of_the_only_other_client_without_a_row_is_of_nothing():
    found = federation(parties=2, sampling="poisson", rounds=8, batch_size=1)
    empty = [r for r in range(8) if not len(found.labels("P2", r))]
    assert empty
    for r in empty:
        assert isinstance(find_sums(view_of(("P1",), found), known(found), rounds=[r]), Abstained)


@pytest.mark.parametrize("parties", [2, 3])
def test_a_mean_that_counts_every_client_alike_tells_the_others_part_as_exactly(parties):
    found = federation(parties=parties, weighting="clients")
    sums = find_gradients(view_of(("P1",), found), known(found))
    assert [u.round for u in sums] == [0, 1]
    for update in sums:
        assert update.rows == 4 * (parties - 1)
        assert errors(found, update, gradient_of(found, update)).std() == pytest.approx(update.noise, rel=0.2)


def test_a_mean_that_counts_clients_of_unequal_batches_alike_is_the_gradient_of_none():
    found = federation(rows=92, weighting="clients", batch_size=0)
    assert len(found.labels("P2", 0)) != len(found.labels("P3", 0))
    outcome = find_sums(view_of(("P1",), found), known(found))
    assert isinstance(outcome, NotApplicable)
    assert "unequal numbers of rows" in outcome.reason
    alone = find_gradients(view_of(("P1", "P2"), found), known(found))
    for update in alone:
        assert errors(found, update, gradient_of(found, update)).std() == pytest.approx(update.noise, rel=0.2)


@pytest.mark.parametrize(("parties", "whose"), [(5, "P2+P3+P4+P5"), (6, "5 clients together")])
def test_of_many_clients_a_reason_says_how_many_and_not_all_their_names(parties, whose):
    outcome = find_sums(view_of(("P1",), federation(parties=parties, weighting="clients", batch_size=0)), NOTHING)
    assert isinstance(outcome, NotApplicable)
    assert outcome.reason.startswith(f"the sum of the updates of {whose} in round 0: ")


def test_observers_who_do_not_hold_their_own_update_are_told_so():
    view = view_of(("P1",), federation())
    outcome = find_sums(view.restricted(lambda kind: issubclass(kind, aggregates.MODELS)), NOTHING)
    assert isinstance(outcome, NotApplicable)
    assert "the observers do not hold what P1 sent themselves" in outcome.reason


def test_models_that_do_not_differ_tell_of_no_sum():
    view = view_of(("P1",), federation(parties=2, rounds=1, batch_size=8))
    (model,) = view.received(GlobalModel)
    (own,) = [m for m in view.messages if m.topic == "train.gradient"]
    still = encode({"rows": 8, "gradient": {n: 0 * w for n, w in model.payload.weights.items()}})
    same = {EvaluatedModel: encode(EvaluatedModel(model.payload.weights).to_plain()), own.kind: still}
    messages = [replace(m, body=b, content=b) if (b := same.get(m.kind)) else m for m in view.messages]
    outcome = find_sums(replace(view, messages=tuple(messages)), NOTHING)
    assert isinstance(outcome, Abstained)
    assert "zero up to rounding" in outcome.reason


def test_models_of_another_shape_are_no_source():
    view = view_of(("P1",), federation())
    spec = replace(view.public.model, hidden=(3,))
    assert list(aggregates.round_means(replace(view, public=replace(view.public, model=spec)))) == []


@pytest.mark.parametrize("numbers", [[0, 4], [-1, 0], [2**40]])
def test_an_announcement_of_numbers_that_no_client_has_names_nobody(numbers):
    view = view_of(("P1",), federation(rounds=1))
    model = next(view.readable(GlobalModel))
    for kind, method in ((Participants, "plain"), (Survivors, "secure-aggregation")):
        said = replace(model, topic=kind.topic, body=b"", content=encode(kind(numbers).to_plain()))
        training = replace(view.public.training, participation=0.5)
        public = replace(view.public, training=training, aggregation=Method(method))
        made_up = replace(view, public=public, messages=(*view.messages, said))
        assert aggregates.participants(made_up, 0) == ((), ())
        assert list(aggregates.round_means(made_up)) == []
    assert aggregates.names_of(view, numbers) == ()
    assert aggregates.names_of(view, [1, 0]) == ("P2", "P1")


def test_another_source_of_sums_is_read_where_it_is_more_precise(monkeypatch):
    found = federation(parties=2, rounds=1)
    view = view_of(("P1",), found)
    (told,) = aggregates.of_models(view)
    finer, coarser = replace(told, noise=told.noise / 2), replace(told, noise=told.noise * 2)
    for other, noise in ((finer, finer.noise), (coarser, told.noise)):
        monkeypatch.setattr(aggregates, "SOURCES", (aggregates.of_models, lambda _, one=other: iter([one])))
        (chosen,) = aggregates.round_means(view)
        assert chosen.noise == noise


def test_victims_and_rounds_restrict_what_is_read():
    found = federation()
    view = view_of(("P1",), found)
    assert [u.round for u in find_gradients(view, NOTHING, rounds=[1])] == [1]
    assert len(find_gradients(view, NOTHING, victims=["P3"])) == 2
    assert find_sums(view, NOTHING, victims=["P1"]) == []


def test_granted_knowledge_of_a_configuration_labels_the_sum():
    settings, found = config(training=SGD, data={"rows": 90}), truth(training=SGD, data={"rows": 90})
    (update,) = find_gradients(view_of(("P1",), found), granted_knowledge(settings, found), rounds=[0])
    assert len(update.labels) == 8
    assert [m.client for m in update.members] == ["P2", "P3"]
