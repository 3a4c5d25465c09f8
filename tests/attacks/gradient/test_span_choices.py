"""What known dependencies leave of the combinations of categories, and what the attack does with them."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakledger.attacks.base import Abstained, AuxiliaryKnowledge
from leakledger.attacks.gradient.exact.candidates import find_candidates
from leakledger.attacks.gradient.exact.choices import possible_choices
from leakledger.attacks.gradient.span import Span
from leakledger.preprocess.views import CategoricalBlock, FeatureLayout, NumericBlock
from tests.attacks.example import exact, observe

TOWNS, REGIONS = tuple(f"t{i}" for i in range(8)), ("north", "south", "west")
REGION_OF = {t: REGIONS[i % 3] for i, t in enumerate(TOWNS)}
HEIGHT_OF = {t: float((7 * i) % 8 * 100) for i, t in enumerate(TOWNS)}
KNOWN = {("town", "region"): REGION_OF, ("town", "height"): HEIGHT_OF}


def layout(towns=None, height=None, shop=6):
    """Town (in one column where `towns` are codes), region, shop, then height and two other numbers."""
    town = CategoricalBlock("town", 0, 8, TOWNS, None if towns is None else np.array(towns, float)[:, None])
    region = CategoricalBlock("region", town.width, 3, REGIONS)
    kind = CategoricalBlock("shop", region.start + 3, shop, tuple(map(str, range(shop))))
    at = kind.start + kind.width
    high = height or NumericBlock("height", at, shift=300.0, scale=250.0, unit="deviation")
    return FeatureLayout(
        (town, region, kind, replace(high, start=at), NumericBlock("x", at + 1), NumericBlock("y", at + 2))
    )


CODED = layout(towns=range(8))
ONE_HOT = layout()


def rows_like(where, categories, seed=0):
    """Numbers (n, 3) and encoded rows (n, d) of these towns, regions and shops."""
    numbers = np.random.default_rng(seed).normal(size=(len(categories), 3))
    numbers[:, 0] = [HEIGHT_OF[TOWNS[t]] for t, _, _ in categories]
    high = where.numeric[0]
    columns = numbers.copy()
    columns[:, 0] = (numbers[:, 0] - high.shift) / high.scale if high.scaled else numbers[:, 0] / 100
    parts = [b.codebook()[c] for b, c in zip(where.categorical, np.array(categories).T, strict=True)]
    return numbers, np.hstack([*parts, columns])


def fitting(towns, shops=(0,)):
    return [(t, REGIONS.index(REGION_OF[TOWNS[t]]), shops[i % len(shops)]) for i, t in enumerate(towns)]


def basis(encoded):
    return np.linalg.svd(np.column_stack([encoded, np.ones(len(encoded))]), full_matrices=False)[2]


def found_in(where, right, known=None):
    found = find_candidates(where, right, 1e-6, 10**6, 10**5, None, known)
    return found, {tuple(map(int, c)) for c in found.categories}


batches = st.sets(st.tuples(st.integers(0, 7), st.integers(0, 5)), min_size=1, max_size=5)


@given(batches, st.sampled_from([CODED, ONE_HOT]), st.sets(st.sampled_from(TOWNS)), st.sampled_from([*KNOWN, None]))
@settings(max_examples=60)
def test_a_dependency_never_removes_a_row_also_where_the_map_is_not_complete(batch, where, left_out, only):
    categories = fitting([t for t, _ in sorted(batch)], [s for _, s in sorted(batch)])
    right = basis(rows_like(where, categories)[1])
    known = {
        pair: {k: v for k, v in m.items() if k not in left_out} for pair, m in KNOWN.items() if only in (None, pair)
    }
    loose, everything = found_in(where, right)
    tight, possible = found_in(where, right, known)
    assert set(categories) <= possible <= everything
    assert len(tight.open) <= len(loose.open)


@given(batches)
@settings(max_examples=30)
def test_under_one_hot_columns_the_row_space_obeys_the_dependency_by_itself(batch):
    categories = fitting([t for t, _ in sorted(batch)], [s for _, s in sorted(batch)])
    right = basis(rows_like(ONE_HOT, categories)[1])
    (without, all_of_them), (known, possible) = found_in(ONE_HOT, right), found_in(ONE_HOT, right, KNOWN)
    assert possible == all_of_them
    assert len(known.open) == len(without.open)


def test_the_choices_of_features_that_depend_on_each_other_are_the_pairs_that_fit():
    right = np.eye(ONE_HOT.width + 1)
    pairs, shop = possible_choices(ONE_HOT, right, {("town", "region"): REGION_OF}, 100)
    assert pairs.blocks == (0, 1)
    assert {(TOWNS[t], REGIONS[r]) for t, r in pairs.picks} == set(REGION_OF.items())
    assert pairs.codes.shape == (8, 11)
    assert len(shop) == 6


def test_a_value_that_is_not_in_the_map_goes_with_everything():
    known = {("town", "region"): {t: r for t, r in REGION_OF.items() if t != "t0"}}
    pairs, _ = possible_choices(ONE_HOT, np.eye(ONE_HOT.width + 1), known, 100)
    assert sorted(int(r) for t, r in pairs.picks if t == 0) == [0, 1, 2]
    assert len(pairs) == 7 + 3


def test_dependencies_that_form_a_chain_or_a_circle_are_all_obeyed():
    chain = {("town", "region"): REGION_OF, ("region", "shop"): {"north": "1", "south": "2", "west": "2"}}
    (together,) = possible_choices(ONE_HOT, np.eye(ONE_HOT.width + 1), chain, 100)
    assert len(together) == 8
    circle = {**chain, ("shop", "town"): {"1": "t0", "2": "t1"}}
    (together,) = possible_choices(ONE_HOT, np.eye(ONE_HOT.width + 1), circle, 100)
    assert together.picks[:, [together.blocks.index(k) for k in range(3)]].tolist() == [[0, 0, 1], [1, 1, 2]]
    gap = {**chain, ("shop", "town"): {"1": "t0"}}  # says nothing of the shops of five towns
    (together,) = possible_choices(ONE_HOT, np.eye(ONE_HOT.width + 1), gap, 100)
    assert sorted(map(int, together.of(0))) == [0, 1, 2, 4, 5, 7]


def test_a_determined_number_is_one_more_column_of_the_determining_code():
    town, *_ = possible_choices(CODED, np.eye(CODED.width + 1), {("town", "height"): HEIGHT_OF}, 100)
    assert town.codes[:, 1] == pytest.approx([(HEIGHT_OF[t] - 300) / 250 for t in TOWNS])
    assert town.columns[:, 1].tolist() == np.eye(CODED.width + 1)[:, 10].tolist()


@pytest.mark.parametrize(
    "known",
    [
        {("town", "height"): {**HEIGHT_OF, "t0": "high"}},
        {("town", "height"): {"t0": 1.0}},
        {("town", "missing"): REGION_OF},
        {("missing", "region"): REGION_OF},
        {("x", "region"): REGION_OF},
        {("town", "x"): HEIGHT_OF},
        {("town", "region"): dict.fromkeys(TOWNS, "nowhere")},
    ],
)
def test_what_the_layout_cannot_hold_a_dependency_against_changes_nothing(known):
    found = possible_choices(CODED, np.eye(CODED.width + 1), known, 100)
    if ("town", "region") in known:
        assert sum(len(c) for c in found) == 8 * 3 + 6
    else:
        assert [c.codes.shape for c in found] == [(8, 1), (3, 3), (6, 6)]


@pytest.mark.parametrize("feature", ["town", "region"])
def test_a_dependency_is_of_no_use_where_values_are_known_by_number_only(feature):
    blocks = [replace(b, values=None) if b.feature == feature else b for b in ONE_HOT.blocks]
    found = possible_choices(
        FeatureLayout(tuple(blocks)), np.eye(ONE_HOT.width + 1), {("town", "region"): REGION_OF}, 100
    )
    assert [len(c) for c in found] == [8, 3, 6]


def test_a_join_over_the_budget_is_not_made():
    known = {("town", "region"): {}}
    assert len(possible_choices(ONE_HOT, np.eye(ONE_HOT.width + 1), known, 24)) == 2
    assert len(possible_choices(ONE_HOT, np.eye(ONE_HOT.width + 1), known, 23)) == 3


def run(view, known=None, **options):
    return Span(**options).run(view, AuxiliaryKnowledge(dependencies=known or {}))


def test_a_batch_that_is_over_the_budget_is_solved_with_a_dependency():
    categories = fitting(range(8), (0, 1, 2, 3, 4, 5))
    numbers, encoded = rows_like(ONE_HOT, categories)
    view = observe(encoded, ONE_HOT)
    refused = run(view, budget=8 * 6)
    assert isinstance(refused, Abstained)
    assert "over the budget of 48" in refused.reason
    (claim,) = run(view, KNOWN, budget=8 * 6)
    assert exact(claim, np.array(categories), numbers).all()
    assert claim.verified.all()


def test_a_batch_of_which_too_much_is_possible_is_solved_with_a_dependency():
    categories = fitting((0, 1, 2, 3, 4, 5, 6, 7), (0, 1, 2, 3))
    numbers, encoded = rows_like(CODED, categories)
    view = observe(encoded, CODED)
    refused = run(view, candidates=40)
    assert isinstance(refused, Abstained)
    assert "too many to tell apart" in refused.reason
    (claim,) = run(view, KNOWN, candidates=40)
    assert exact(claim, np.array(categories), numbers).all()
    assert claim.verified.all()


def test_a_dependency_that_does_not_hold_verifies_nothing_false():
    categories = fitting(range(8), (0, 1, 2, 3, 4, 5))
    _, encoded = rows_like(ONE_HOT, categories)
    wrong = {("town", "region"): {t: REGIONS[(i + 1) % 3] for i, t in enumerate(TOWNS)}}
    assert isinstance(run(observe(encoded, ONE_HOT), wrong), Abstained)
    impossible = {
        ("town", "region"): dict.fromkeys(TOWNS, "north"),
        ("shop", "region"): {str(i): "south" for i in range(6)},
    }
    outcome = run(observe(encoded, ONE_HOT), impossible)
    assert isinstance(outcome, Abstained)
    assert "fits the known dependencies" in outcome.reason
