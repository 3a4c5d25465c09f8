"""Restated updates are the same problem, and codes mean the values that have them: no more, no fewer."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakledger.attacks.base import AuxiliaryKnowledge, NotApplicable, RecordsClaim
from leakledger.attacks.candidates import by_candidates, restated
from leakledger.attacks.candidates.codebooks import once_each, values_like
from leakledger.attacks.candidates.codes import Codes, named_codes
from leakledger.attacks.candidates.columns import as_precise
from leakledger.attacks.candidates.dense import distinct_codes, occurring, reduced, values_near
from leakledger.attacks.candidates.hashed import Hashed, active_columns, assignments, blocks_of, overlapping
from leakledger.attacks.candidates.meaning import UNKNOWN, Assignments, Meaning, spread
from leakledger.attacks.gradient.linear_layer import LinearLayer
from leakledger.attacks.gradient.tableak import TabLeak
from leakledger.attacks.observed.gradients import find_gradients
from leakledger.attacks.observed.values import rolling_hash
from leakledger.preprocess.models import as_arrays, as_tensors, gradient
from leakledger.preprocess.views import CategoricalBlock, FeatureLayout, Method, NumericBlock
from tests.attacks.example import DOUBLE, LAYOUT, SINGLE, observe, rows_of, update_of

COINS = np.random.default_rng(0)


def claim_of(categories, verified=None, numbers=None):
    categories = np.array(categories, np.int64)
    numbers = np.zeros((len(categories), 0)) if numbers is None else numbers
    doubt = np.zeros(categories.shape), np.zeros(numbers.shape)
    proof = None if verified is None else np.array(verified)
    return RecordsClaim("ann", 0, categories, numbers, *doubt, (), None, proof)


def hashed(buckets, complete=True):
    values = {f: tuple(f"{f}{i}" for i in range(len(b))) for f, b in buckets.items()}
    return Hashed(0, 50, None, None, values, {f: tuple(b) for f, b in buckets.items()}, complete)


def row_of(code, chosen):
    """The buckets that these values set: the encoder's own rule."""
    return frozenset(code.buckets[f][v] for f, v in zip(code.buckets, chosen, strict=True))


BUCKETS = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=4), min_size=1, max_size=4)


@given(BUCKETS, st.data())
def test_the_assignments_of_a_row_are_exactly_the_values_that_set_its_buckets(buckets, data):
    code = hashed(dict(zip("abcd", buckets, strict=False)))
    chosen = [data.draw(st.integers(0, len(b) - 1)) for b in buckets]
    present = row_of(code, chosen)
    options = [{}]
    for some in assignments(code, present):
        options = [o | dict(zip(some.features, c, strict=True)) for o in options for c in some.choices.tolist()]
    found = {tuple(o[f] for f in sorted(o)) for o in options}
    everything = list(product(*(range(len(b)) for b in buckets)))
    assert found == {c for c in everything if row_of(code, c) == present}


@given(BUCKETS, st.data())
def test_the_blocks_of_active_columns_hold_every_row_of_the_batch(buckets, data):
    code = hashed(dict(zip("abcd", buckets, strict=False)))
    rows = [row_of(code, [data.draw(st.integers(0, len(b) - 1)) for b in buckets]) for _ in range(3)]
    active = np.array(sorted(frozenset().union(*rows)), np.int64)
    for places, codes in blocks_of(code, active):
        own = active[places]
        held = {frozenset(own[c > 0].tolist()) for c in codes}
        assert all(row & set(own.tolist()) in held for row in rows)


def test_features_that_share_no_bucket_get_blocks_of_their_own_and_one_candidate_per_column():
    (_, first), (_, second) = blocks_of(hashed({"a": [1, 2, 3], "b": [5, 6]}), np.array([1, 3, 5, 6]))
    assert np.array_equal(first, np.eye(2))
    assert np.array_equal(second, np.eye(2))


def test_a_bucket_of_no_candidate_makes_every_column_a_block_of_its_own():
    assert len(blocks_of(hashed({"a": [1, 2], "b": [5]}), np.array([1, 5, 9]))) == 3


def test_features_are_grouped_by_the_buckets_they_share_directly_or_through_others():
    assert overlapping({"a": [1], "b": [2], "c": [1, 3], "d": [3]}) == [["a", "c", "d"], ["b"]]


def test_more_foreign_buckets_than_features_without_a_value_leave_every_value_in_doubt():
    code = hashed({"a": [1, 2], "b": [5]})
    (a, b) = assignments(code, frozenset({1, 5, 9}))
    assert a.choices.tolist() == [[0], [UNKNOWN]]
    assert b.choices.tolist() == [[0], [UNKNOWN]]


def test_noise_is_told_from_columns_that_rows_set():
    shown = np.zeros((4, 30))
    shown[:, [3, 7]] = 1.0
    assert active_columns(shown, True, 2, 2).tolist() == [3, 7]
    assert active_columns(shown + 1e-9, True, 2, 2) is None


def coded(values, codes):
    return Codes("f", 0, tuple(values), np.array(codes, np.float64))


@given(st.integers(2, 6), st.integers(8, 20), st.integers(0, 2**31))
def test_an_orthonormal_basis_of_the_codes_loses_nothing_of_the_gradient(values, width, seed):
    coins = np.random.default_rng(seed)
    known = coded(map(str, range(values)), coins.normal(size=(values, width)))
    rows, signal = coins.integers(values, size=5), coins.normal(size=(5, 30))
    shown = signal.T @ known.codes[rows]
    small = reduced(known, shown)
    assert np.allclose(shown @ small.basis @ small.basis.T, shown)
    assert {small.members[k] for k in range(len(small.codes))} == {(int(v),) for v in set(rows.tolist())}


def test_a_gradient_outside_of_the_codes_shows_a_value_that_is_no_candidate():
    known = coded("ab", COINS.normal(size=(2, 9)))
    assert reduced(known, COINS.normal(size=(30, 9))) is None


def test_codes_that_float32_cannot_tell_apart_are_one_and_stand_for_all_their_values():
    known = coded("abc", [[-0.2951104], [-0.29511041], [3.4]])
    assert distinct_codes(known.codes).tolist() == [0, 0, 1]
    assert reduced(known, np.ones((5, 1))).members == ((0, 1), (2,))
    assert values_near(known, np.array([3.4])) == (2,)
    assert values_near(known, np.array([1.0])) == (UNKNOWN,)


@pytest.mark.parametrize("complete", [True, False])
def test_a_code_proves_its_value_only_where_no_value_outside_the_candidates_may_have_it(complete):
    known = replace(coded("ab", [[0.0], [1.0]]), complete=complete)
    read = values_like(0, known, np.array([1.0]))
    assert read.choices.tolist() == [[1]]
    assert (read.weights is None) == complete


def test_a_block_with_every_code_once_has_the_same_codes_and_no_names_where_several_values_had_one():
    block = CategoricalBlock("f", 3, 4, tuple("abcd"), np.array([[2.0], [1.0], [2.0], [5.0]]), (1.0,), (2.0,))
    once = once_each(block)
    assert (once.size, once.start, once.values) == (3, 3, None)
    assert once.codebook()[:, 0].tolist() == [0.5, 0.0, 2.0]
    alone = replace(block, size=2, values=("a", "b"), codes=block.codes[:2])
    assert once_each(alone) is alone


def test_dependent_codes_rule_no_candidate_out():
    codes = np.array([[0.0], [1.0], [2.0]])
    assert occurring(codes, np.ones((4, 1))).tolist() == [0, 1, 2]


def meaning(options, shares=None, size=4, weights=None):
    layout = FeatureLayout((CategoricalBlock("f", 0, size, tuple("abcdefgh"[:size])),))
    read = [Assignments((0,), np.array(o)[:, None], weights) for o in options]
    return Meaning(layout, lambda claim: ([some] for some in read), [[0]], [], shares or {})


def test_a_code_of_one_value_is_that_value_and_its_proof_stays():
    told = meaning([[2], [3]]).of(claim_of([[0], [1]], [True, False]))
    assert told.categories.tolist() == [[2], [3]]
    assert told.verified.tolist() == [True, False]
    assert told.category_entropy.tolist() == [[0.0], [0.0]]


def test_a_code_of_several_values_shares_the_confidence_and_proves_none():
    told = meaning([[0, 1]]).of(claim_of([[0]], [True]))
    assert told.categories[0, 0] in (0, 1)
    assert not told.verified.any()
    assert told.category_entropy[0, 0] == pytest.approx(np.log(2) / np.log(4))


def test_known_shares_choose_the_likeliest_of_several_values():
    told = meaning([[0, 1]], {"f": {"a": 0.1, "b": 0.9, "c": 0.0, "d": 0.0}}).of(claim_of([[0]], [True]))
    assert told.categories[0, 0] == 1
    assert told.category_entropy[0, 0] == pytest.approx(0.325 / np.log(4), abs=1e-3)
    assert not told.verified.any()


def test_values_that_are_all_said_to_have_no_share_are_each_as_likely():
    told = meaning([[0, 1]] * 50, {"f": {"a": 0.0, "b": 0.0, "c": 1.0}}).of(claim_of([[0]] * 50))
    assert set(told.categories[:, 0].tolist()) == {0, 1}
    assert told.category_entropy == pytest.approx(np.log(2) / np.log(4))


def test_values_drawn_among_equals_are_each_as_likely():
    told = meaning([[0, 1]] * 200).of(claim_of([[0]] * 200))
    assert 70 < (told.categories == 0).sum() < 130


def test_a_value_that_is_no_candidate_is_no_claim():
    told = meaning([[UNKNOWN]]).of(claim_of([[0]], [True]))
    assert told.categories[0, 0] == -1
    assert np.isnan(told.category_entropy).all()
    assert not told.verified.any()


def test_values_that_only_resemble_a_code_are_never_proven():
    told = meaning([[1]], weights=np.ones(1)).of(claim_of([[0]], [True]))
    assert told.categories[0, 0] == 1
    assert not told.verified.any()


@pytest.mark.parametrize(
    ("chosen", "weights", "size", "entropy"),
    [([0, 0], [1, 1], 4, 0.0), ([0, 1], [1, 1], 2, 1.0), ([0, 1], [1, 0], 2, 0.0), ([0], [1], 1, 0.0)],
)
def test_entropy_is_that_of_distinct_values_over_the_most_it_could_be(chosen, weights, size, entropy):
    assert spread(np.array(chosen), np.array(weights, np.float64), size) == pytest.approx(entropy)


VECTORS = FeatureLayout(
    (NumericBlock("age", 0, 40.0, 13.0), *(NumericBlock(f"job[{k}]", 1 + k, 0.5, 2.0) for k in range(12)))
)
JOBS, CODES = ("clerk", "cook", "smith"), COINS.normal(size=(3, 12))


def vector_view(jobs, encoder="fasttext", ages=None):
    ages = COINS.normal(size=len(jobs)) if ages is None else ages
    view = observe(np.column_stack([ages, (CODES[jobs] - 0.5) / 2.0]), VECTORS)
    return replace(view, public=replace(view.public, encoder=Method(encoder), schema={"categorical": ["job"]}))


KNOWN = AuxiliaryKnowledge(dictionaries={"job": JOBS}, codes={"job": CODES})


def test_a_restated_update_is_the_gradient_of_the_restated_rows():
    jobs, ages = [0, 2, 2, 0], np.array([0.3, -1.0, 1.4, 0.1])
    view = vector_view(jobs, ages=ages)
    (update,) = find_gradients(view, KNOWN)
    (form,) = restated(view, KNOWN, [update])
    layout, spec = form.update.layout, form.update.model
    assert layout.width == spec.inputs == 3  # age, and the two codes that occur
    (block,) = layout.categorical
    assert block.values == ("clerk", "smith")
    rows = np.column_stack([ages, block.codebook()[[0, 1, 1, 0]]])
    weights = as_tensors(form.update.weights)
    x, y = as_tensors({"x": rows})["x"], as_tensors({"y": np.arange(4) % 2})["y"].long()
    expected = as_arrays(gradient(spec, weights, x, y))
    for name, shown in expected.items():
        assert np.allclose(form.update.gradient[name], shown, atol=1e-5 * np.abs(shown).max())


def test_where_all_codes_are_0_no_attack_is_handed_a_network_without_inputs():
    """Texts that are one number to float64 are 0 under bytes-norm, and such a column alone ended a run in 'every layer
    needs at least one unit, got widths [0, 100, 100, 2]'.
    """
    layout = FeatureLayout((CategoricalBlock("job", 0, 3, JOBS, np.zeros((3, 1))),))
    view = observe(np.zeros((4, 1)), layout)
    view = replace(view, public=replace(view.public, encoder=Method("bytes-norm"), schema={"categorical": ["job"]}))
    known = AuxiliaryKnowledge(dictionaries={"job": JOBS})
    (update,) = find_gradients(view, known)
    (form,) = restated(view, known, [update])
    assert isinstance(form, NotApplicable)
    assert "no code but 0" in form.reason
    for attack in (LinearLayer(), TabLeak(recover_labels=True)):
        assert attack.run(view, known) == form


def test_a_view_that_names_nothing_stays_as_it_is():
    view = observe(rows_of(LAYOUT, 4, 0)[2])
    (update,) = find_gradients(view, KNOWN)
    (form,) = restated(view, KNOWN, [update])
    claim = claim_of([[0]])
    assert form.update is update
    assert form.meant(claim) is claim


def test_updates_that_share_a_layout_are_inverted_together():
    view = observe(rows_of(LAYOUT, 4, 0)[2])
    (update,) = find_gradients(view, KNOWN)
    calls = []

    def invert(updates):
        calls.append(len(updates))
        return [NotApplicable("no")] * len(updates)

    assert len(by_candidates(view, KNOWN, [update] * 3, invert)) == 3
    assert calls == [3]


def bucket_view(jobs, width=12):
    code = np.zeros((len(JOBS), width))
    for k, value in enumerate(JOBS):
        code[k, rolling_hash(value, width, {})] = 1.0
    scaled = CategoricalBlock("job", 0, width, shift=(0.25,) * width, scale=(0.5,) * width)
    view = observe((code[jobs] - 0.25) / 0.5, FeatureLayout((scaled,)))
    return replace(view, public=replace(view.public, encoder=Method("rolling-hash"), schema={"categorical": ["job"]}))


@pytest.mark.parametrize("name", ["codes", "buckets"])
def test_rounds_of_the_same_rows_are_restated_in_the_same_columns(name):
    view = vector_view([0, 2, 2, 0]) if name == "codes" else bucket_view([0, 2, 2, 0])
    (update,) = find_gradients(view, KNOWN)
    other = replace(update, round=1, gradient={k: 2 * g for k, g in update.gradient.items()})
    rounds = update, other
    forms = restated(view, KNOWN, [replace(u, repeats=rounds) for u in rounds])
    layout = forms[0].update.layout
    assert layout is not update.layout
    for form, alone in zip(forms, restated(view, KNOWN, rounds), strict=True):
        assert form.update.layout is layout
        for k, again in enumerate(form.update.repeats):
            assert (again.round, again.layout) == (k, layout)
            assert np.array_equal(again.weights["0.weight"], forms[k].update.weights["0.weight"])
            assert np.array_equal(again.gradient["0.weight"], forms[k].update.gradient["0.weight"])
        assert np.allclose(form.update.gradient["0.weight"], alone.update.gradient["0.weight"])
        assert np.allclose(form.update.weights["0.weight"], alone.update.weights["0.weight"])


@pytest.mark.parametrize("name", ["codes", "buckets"])
@pytest.mark.parametrize("least", [0, 1])
def test_a_round_keeps_the_columns_that_another_of_the_same_rows_lacks(name, least):
    """As behind pruning: only one of two rounds has kept anything of the columns of the second value."""
    some, fewer = ([0, 2, 2, 0], [0, 0, 0, 0])
    views = [vector_view(j) if name == "codes" else bucket_view(j) for j in (some, fewer)]
    (full,), (poor,) = (find_gradients(view, KNOWN) for view in views)
    rounds = tuple(replace(u, round=k) for k, u in enumerate([poor, full] if least == 0 else [full, poor]))
    forms = restated(views[0], KNOWN, [replace(u, repeats=rounds) for u in rounds])
    for form, alone in zip(forms, restated(views[0], KNOWN, rounds), strict=True):
        assert form.update.layout == alone.update.layout
        assert np.array_equal(form.update.gradient["0.weight"], alone.update.gradient["0.weight"])
        assert not form.update.repeats


def test_codes_are_named_only_where_they_follow_from_values():
    assert named_codes(vector_view([0, 1]), KNOWN)["job"].values == JOBS
    assert named_codes(vector_view([0, 1]), AuxiliaryKnowledge(dictionaries={"job": JOBS})) == {}
    assert named_codes(vector_view([0, 1], "local"), KNOWN) == {}


def test_a_changed_gradient_has_the_precision_of_the_observed_one():
    double = COINS.normal(size=(3, 3))
    single, exact = (update_of(double, 1, precision=p) for p in (SINGLE, DOUBLE))
    assert np.array_equal(as_precise(double, single), double.astype(np.float32))
    assert as_precise(double, exact) is double
