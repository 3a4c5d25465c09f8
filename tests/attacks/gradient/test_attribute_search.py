"""Attribute search on a public function that is cheap: a random, slightly non-additive code of whole records."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from leakledger.attacks.base import AuxiliaryKnowledge, NotApplicable
from leakledger.attacks.gradient.attribute_search import AttributeSearch
from leakledger.attacks.gradient.attribute_search.deltas import Encoder, measure
from leakledger.attacks.gradient.attribute_search.moves import Moves
from leakledger.attacks.gradient.attribute_search.pairs import PairSpace, find_pairs, fits
from leakledger.attacks.gradient.attribute_search.rows import likely_rows
from leakledger.attacks.gradient.attribute_search.rowspace import SeenSpace, orthonormal, seen_space
from leakledger.attacks.gradient.attribute_search.schema import find_names
from leakledger.attacks.gradient.attribute_search.search import INSIDE, search
from leakledger.attacks.observed.sums import find_sums
from leakledger.attacks.texts import TextRecords
from leakledger.preprocess.models import as_arrays, as_tensors, dropout_masks, gradient, initial_weights
from leakledger.preprocess.views import FeatureLayout, Message, ModelSpec, NumericBlock, PublicFacts, TrainingSpec, View
from leakledger.preprocess.wire import encode as to_bytes

WIDTH = 64
VALUES = {"age": tuple(map(str, range(30))), "pulse": tuple(map(str, range(40))), "ward": ("a", "b"), "sex": ("f", "m")}
SPEC = ModelSpec(WIDTH, 1, (16,), "relu", "binary", 0.2)


def code(word):
    return np.random.default_rng(list(word.encode())).normal(size=WIDTH)


def embed(records):
    total = np.array([sum((code(f"{n}{v}") + code(n) for n, v in cells), np.zeros(WIDTH)) for cells in records])
    return total.reshape(len(records), WIDTH) + 0.3 * np.tanh(total).reshape(len(records), WIDTH) + 0.5


RECORDS = TextRecords(embed, VALUES, {f: (f,) for f in VALUES})


def update(picks, seed=0, masks=None):
    """The gradient of a head on these records; under masks that are given, its neurons are on for all of them."""
    coins = np.random.default_rng(seed)
    weights = initial_weights(SPEC, coins)
    if masks is not None:
        weights = {**weights, "0.weight": weights["0.weight"] * np.float32(0.01), "0.bias": np.ones(16, np.float32)}
    rows = torch.tensor(embed(RECORDS.cells(picks)), dtype=torch.float32)
    labels = torch.tensor(coins.integers(2, size=len(picks)))
    masks = dropout_masks(SPEC, len(picks), coins) if masks is None else masks
    return weights, as_arrays(gradient(SPEC, as_tensors(weights), rows, labels, masks))


def view(weights, step, rows):
    public = PublicFacts(("P1", "P2"), "server", model=SPEC, training=TrainingSpec())
    plain = [("train.model", "server", "P1", {"weights": weights}), ("train.gradient", "P1", "server", None)]
    plain[1] = (*plain[1][:3], {"rows": rows, "gradient": step})
    messages = [
        Message(i, "train", 0, topic, one, other, None, False, to_bytes(body), to_bytes(body))
        for i, (topic, one, other, body) in enumerate(plain)
    ]
    return View(frozenset(["server"]), tuple(messages), public)


def batch(rows, seed):
    return RECORDS.drawn(rows, np.random.default_rng(seed))


def test_records_that_the_gradient_spans_come_back_to_the_last_attribute_and_no_other_is_verified():
    found = 0
    for seed in range(3):
        picks = batch(4, seed)
        (claim,) = AttributeSearch().run(view(*update(picks, seed), 4), AuxiliaryKnowledge(texts={"P1": RECORDS}))
        true = {tuple(p) for p in picks.tolist()}
        verified = [tuple(p) for p, v in zip(claim.categories.tolist(), claim.verified, strict=True) if v]
        assert set(verified) <= true
        found += len(verified)
        assert claim.layout.block("age").values == VALUES["age"]
    assert found >= 9


def test_an_update_of_other_records_verifies_nothing_of_these():
    picks = batch(4, 1)
    weights, step = update(picks)
    coins = np.random.default_rng(5)
    noise = {n: coins.normal(size=g.shape).astype(np.float32) * np.abs(g).max() for n, g in step.items()}
    (claim,) = AttributeSearch(repeats=1).run(view(weights, noise, 4), AuxiliaryKnowledge(texts={"P1": RECORDS}))
    assert not claim.verified.any()


def test_records_lie_in_the_row_space_of_their_own_gradient_where_their_masks_differ():
    picks = batch(4, 2)
    for seed in range(10):
        space = seen_space({n: g.astype(float) for n, g in update(picks, seed)[1].items()}, 4)
        if space.rank == 4:
            assert np.abs(space.outside(RECORDS.embed(picks))).max() < 1e-3
            return
    pytest.fail("ten draws of masks, and none of them independent")


def test_the_best_change_of_two_attributes_is_that_of_all_pairs_tried_one_by_one():
    coins = np.random.default_rng(3)
    outside = [coins.normal(size=(n, 6)) for n in (4, 3, 5)]
    pick, rest = np.array([1, 2, 0]), coins.normal(size=6)
    changed, moved = Moves.of(outside).best(pick, rest)

    def length(record):
        return ((rest + sum(o[v] - o[w] for o, v, w in zip(outside, record, pick, strict=True))) ** 2).sum()

    tried = [np.array(r) for r in np.ndindex(4, 3, 5) if (np.array(r) != pick).sum() <= 2]
    best = min(tried, key=length)
    assert changed[0].tolist() == best.tolist()
    assert moved[0] == pytest.approx(length(best) - (rest**2).sum())


def test_the_names_of_an_unknown_schema_are_found_and_features_that_are_not_there_left_out():
    picks = batch(6, 4)
    space = seen_space({n: g.astype(float) for n, g in update(picks, 4)[1].items()}, 6)
    names = {f: (f"{f} 2", f, f"{f} 3", "") for f in VALUES}
    wide = replace(RECORDS, values={**VALUES, "lacking": ("0", "1")}, names={**names, "lacking": ("lacking", "")})
    found, certain = find_names(space, 6, wide, 24, 24, 2, np.random.default_rng(0))
    assert found == {**{f: f for f in VALUES}, "lacking": ""}
    assert certain


def test_the_schema_of_one_gradient_serves_the_next_ones_of_the_party():
    asked = []
    wide = replace(RECORDS, names={f: (f"{f} 2", f) for f in VALUES})
    picks = batch(4, 0)
    seen = view(*update(picks, 0), 4)
    again = [replace(m, sequence=m.sequence + 2, round=1) for m in seen.messages]
    counting = replace(wide, encode=lambda records: asked.append(len(records)) or embed(records))
    one = AttributeSearch().run(seen, AuxiliaryKnowledge(texts={"P1": counting}))
    alone, asked[:] = sum(asked), []
    both = AttributeSearch().run(
        replace(seen, messages=(*seen.messages, *again)), AuxiliaryKnowledge(texts={"P1": counting})
    )
    assert [c.categories.tolist() for c in both] == [one[0].categories.tolist()] * 2
    assert sum(asked) < 1.7 * alone


def models_seen_by(observers, picks, rate=0.1, batch_size=4):
    """A round of three clients with these records each, as two models in a row and what the observers sent show it."""
    names = ("P1", "P2", "P3")
    weights, _ = update(picks[0])
    sent = {c: update(own)[1] for c, own in zip(names, picks, strict=True)}
    rows = {c: len(own) for c, own in zip(names, picks, strict=True)}
    mean = {n: sum(rows[c] * np.float64(g[n]) for c, g in sent.items()) / sum(rows.values()) for n in weights}
    after = {n: (w - rate * mean[n]).astype(np.float32) for n, w in weights.items()}
    layout = FeatureLayout(tuple(NumericBlock(f"embedding {i}", i) for i in range(WIDTH)))
    training = TrainingSpec(rounds=2, batch_size=batch_size, learning_rate=rate)
    public = PublicFacts(names, "server", model=SPEC, training=training, layout=layout)
    plain = [(0, "train.model", "server", c, {"weights": weights}) for c in observers]
    plain += [(0, "train.gradient", c, "server", {"rows": rows[c], "gradient": sent[c]}) for c in observers]
    plain += [(1, "train.model", "server", c, {"weights": after}) for c in observers]
    messages = [
        Message(i, "train", round, topic, one, other, None, False, to_bytes(body), to_bytes(body))
        for i, (round, topic, one, other, body) in enumerate(plain)
    ]
    return View(frozenset(observers), tuple(messages), public)


@pytest.mark.parametrize(("own", "rows"), [(6, 1), (6, 3), (6, 5), (2, 3), (1, 4)])
def test_the_records_of_a_last_client_with_fewer_rows_than_a_batch_come_back(own, rows):
    knowledge, found = AuxiliaryKnowledge(texts=dict.fromkeys(("P1", "P2", "P3"), RECORDS)), 0
    for seed in range(3):
        picks = [batch(own, 10 * seed), batch(own, 10 * seed + 1), batch(rows, 10 * seed + 2)]
        (claim,) = AttributeSearch().run(models_seen_by(("P1", "P2"), picks, batch_size=6), knowledge)
        verified = {tuple(p) for p, v in zip(claim.categories.tolist(), claim.verified, strict=True) if v}
        assert verified <= {tuple(p) for p in picks[2].tolist()}  # none of the observers' own
        found += len(verified)
    assert found >= 3 * rows - 2


def test_how_many_rows_labels_tell_is_taken_as_it_is(monkeypatch):
    labels = {("P3", 0): np.zeros(4, np.int64)}
    view = models_seen_by(("P1", "P2"), [batch(4, k) for k in (0, 1, 2)], batch_size=6)
    knowledge = AuxiliaryKnowledge(labels=labels, texts=dict.fromkeys(("P1", "P2", "P3"), RECORDS))
    (update,) = find_sums(view, knowledge, any_loss=True)
    assert likely_rows(view, knowledge, update) == [update]
    blind = replace(knowledge, labels={})
    (told,) = find_sums(view, blind, any_loss=True)
    assert (told.rows, told.assumed_size) == (4, False)
    monkeypatch.setattr("leakledger.attacks.observed.sums.rows_beside", lambda *arguments: None)
    (guess,) = find_sums(view, blind, any_loss=True)
    assert (guess.rows, guess.assumed_size) == (6, True)
    assert [u.rows for u in likely_rows(view, blind, guess)] == [4]


def test_all_clients_but_one_read_the_records_of_the_last_one_off_two_models_and_their_own_gradients():
    found = 0
    for seed in range(3):
        picks = [batch(4, 10 * seed + k) for k in range(3)]
        knowledge = AuxiliaryKnowledge(texts=dict.fromkeys(("P1", "P2", "P3"), RECORDS))
        (claim,) = AttributeSearch().run(models_seen_by(("P1", "P2"), picks), knowledge)
        assert (claim.victim, claim.round, claim.evidence) == ("P3", 0, (0, 2, 3, 4))
        verified = {tuple(p) for p, v in zip(claim.categories.tolist(), claim.verified, strict=True) if v}
        assert verified <= {tuple(p) for p in picks[2].tolist()}
        found += len(verified)
    assert found >= 9


def test_of_two_clients_outside_a_sum_is_told_and_nothing_is_claimed():
    knowledge = AuxiliaryKnowledge(texts=dict.fromkeys(("P1", "P2", "P3"), RECORDS))
    outcome = AttributeSearch().run(models_seen_by(("P1",), [batch(4, k) for k in range(3)]), knowledge)
    assert isinstance(outcome, NotApplicable)
    assert "several schemas" in outcome.reason


def test_a_gradient_below_the_errors_in_it_spans_nothing():
    _, step = update(batch(4, 0))
    gradient = {n: g.astype(float) for n, g in step.items()}
    assert seen_space(gradient, 4, 1e-9).rank >= 3
    with pytest.raises(ValueError, match="does not stand out"):
        seen_space(gradient, 4, 10 * float(np.linalg.norm(gradient["0.weight"])))


def test_without_the_encoder_or_a_gradient_it_says_what_is_missing():
    weights, step = update(batch(4, 0))
    seen = view(weights, step, 4)
    assert "encoder" in AttributeSearch().run(seen, AuxiliaryKnowledge()).reason
    nothing = replace(seen, messages=seen.messages[:1])
    outcome = AttributeSearch().run(nothing, AuxiliaryKnowledge(texts={"P1": RECORDS}))
    assert isinstance(outcome, NotApplicable)
    assert "train.gradient" in outcome.reason


def behind_one_mask(seed):
    """Four records of which the first two have one mask, and what a gradient spans of them."""
    picks, (mask,) = batch(4, seed), dropout_masks(SPEC, 4, np.random.default_rng(seed))
    mask[1] = mask[0]
    step = update(picks, seed, [mask])
    return picks, step, seen_space({n: g.astype(float) for n, g in step[1].items()}, 4)


def test_a_pair_behind_one_mask_fits_together_and_no_pair_of_other_records_does():
    fitting = 0
    for seed in range(6):
        picks, _, space = behind_one_mask(seed)
        scale = float(np.median(np.linalg.norm(space.outside(RECORDS.embed(batch(64, 99))), axis=1)))
        fitting += fits(space, RECORDS.embed(picks[:2]), INSIDE, scale)
        others = batch(40, 100 + seed)
        assert not any(fits(space, RECORDS.embed(others[i : i + 2]), INSIDE, scale) for i in range(0, 40, 2))
        near = picks[[0, 0]].copy()
        near[1, 0] = (near[1, 0] + 1) % len(VALUES["age"])
        assert not fits(space, RECORDS.embed(near), INSIDE, scale)
    assert fitting == 6


def test_records_behind_one_mask_are_found_together_and_proven():
    proven = 0
    for seed in range(4):
        picks, step, _ = behind_one_mask(seed)
        (claim,) = AttributeSearch().run(view(*step, 4), AuxiliaryKnowledge(texts={"P1": RECORDS}))
        told = {tuple(p) for p, v in zip(claim.categories.tolist(), claim.verified, strict=True) if v}
        assert told <= {tuple(p) for p in picks.tolist()}
        proven += {tuple(p) for p in picks[:2].tolist()} <= told
    assert proven >= 2


def test_the_change_of_a_pair_that_looks_best_is_that_of_all_changes_tried_one_by_one():
    deltas, encode = measure(RECORDS), Encoder(RECORDS)
    picks, _, space = behind_one_mask(0)
    problem = PairSpace.of(space, picks[2:], deltas, encode)
    pair = batch(2, 7)
    total = np.ones(2) @ problem._points(pair)
    (best,) = problem._tried(pair, total, (1.0, 1.0), 1)
    least = np.inf
    changes = [(k, f, v) for k in range(2) for f, own in enumerate(problem.outside) for v in range(len(own))]
    for k, f, v in changes:
        for j, g, u in changes:
            if (k, f) <= (j, g) and ((k, f) != (j, g) or v == u):
                moved = {(k, f): v, (j, g): u}
                by = sum(problem.outside[b][w] - problem.outside[b][pair[a, b]] for (a, b), w in moved.items())
                if any(w != pair[a, b] for (a, b), w in moved.items()):
                    least = min(least, float(problem._off((total + by)[None])[0]))
    by = sum(problem.outside[b][best[a, b]] - problem.outside[b][pair[a, b]] for a in range(2) for b in range(4))
    assert float(problem._off((total + by)[None])[0]) == pytest.approx(least)


def test_a_record_is_encoded_once():
    asked = []
    counting = replace(RECORDS, encode=lambda records: asked.extend(records) or embed(records))
    encode = Encoder(counting)
    picks = batch(5, 0)
    again = encode(np.concatenate([picks, picks[::-1]]))
    assert len(asked) == len({tuple(p) for p in picks.tolist()})
    np.testing.assert_allclose(again, RECORDS.embed(np.concatenate([picks, picks[::-1]])))


def verified_of(embed, values, rows, spec, seed):
    """(records that are verified, records of the batch) of a gradient on embeddings by `embed`."""
    coins, records = np.random.default_rng(seed), TextRecords(embed, values, {f: (f,) for f in values})
    picks, weights = records.drawn(rows, coins), initial_weights(spec, coins)
    given = torch.tensor(embed(records.cells(picks)), dtype=torch.float32), torch.tensor(coins.integers(2, size=rows))
    step = as_arrays(gradient(spec, as_tensors(weights), *given, dropout_masks(spec, rows, coins)))
    public = PublicFacts(("P1",), "server", model=spec, training=TrainingSpec())
    seen = replace(view(weights, step, rows), public=public)
    attack = AttributeSearch(starts=8, proposals=8, repeats=2)
    (claim,) = attack.run(seen, AuxiliaryKnowledge(texts={"P1": records}))
    proven = claim.categories[np.flatnonzero(claim.verified)]
    return {tuple(p) for p in proven.tolist()}, {tuple(p) for p in picks.tolist()}


@pytest.mark.parametrize("width", [4, 8, 16])
def test_a_gradient_that_spans_nearly_all_embeddings_verifies_no_other_record(width):
    """Of so many rows that any record is about as near to their space as one of the batch."""
    spec = ModelSpec(width, 1, (64,), "relu", "binary", 0.2)
    for seed in range(4):
        proven, true = verified_of(lambda cells: embed(cells)[:, :width], VALUES, width, spec, seed)
        assert proven <= true


def test_of_an_additive_encoder_three_records_do_not_verify_a_fourth():
    def additive(records):
        return np.array([sum((code(f"{n}{v}") for n, v in cells), np.full(WIDTH, 0.5)) for cells in records])

    values = {"ward": ("a", "b", "c"), "sex": ("f", "m"), "age": tuple(map(str, range(10)))}
    for seed in range(6):
        proven, true = verified_of(additive, values, 12, ModelSpec(WIDTH, 1, (64,), "relu", "binary", 0.2), seed)
        assert proven <= true


@pytest.mark.parametrize("ward", ["without case", "without end"])
def test_of_records_that_the_encoder_does_not_tell_apart_none_is_verified(ward):
    def without(records):
        return embed([[*c[:-1], *([("ward", c[-1][1].lower())] if ward == "without case" else [])] for c in records])

    values = {f"f{k}": tuple("stuvwxyz") for k in range(11)} | {"ward": ("a", "A")}
    records = TextRecords(without, values, {f: (f,) for f in values})
    for seed in range(3):
        coins = np.random.default_rng(seed)
        space = SeenSpace(orthonormal(records.embed(records.drawn(3, coins))))
        assert search(space, 3, records, measure(records), 24, 24, 1, coins).inside == 0


def test_a_feature_that_has_one_value_leaves_one_record_and_no_pair_of_them():
    picks = np.zeros((4, 1), np.int64)
    single = TextRecords(embed, {"ward": ("a",)}, {"ward": ("ward",)})
    space = SeenSpace(np.eye(WIDTH + 1)[:3])
    deltas, encode = measure(single), Encoder(single)
    assert find_pairs(space, picks[:0], single, deltas, encode, 2, 2, np.random.default_rng(0)) == []
