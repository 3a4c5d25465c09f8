"""A row is verified where its code leaves one candidate for each of its cells: never among candidates with one code."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakledger.attacks.base import AuxiliaryKnowledge
from leakledger.attacks.gradient.exact.candidates import find_candidates
from leakledger.attacks.gradient.exact.choices import possible_choices
from leakledger.attacks.gradient.exact.claim import claim, decided, read, sharing, undecided
from leakledger.attacks.gradient.exact.rows import EncodedRows
from leakledger.attacks.gradient.linear_layer import LinearLayer
from leakledger.attacks.gradient.portfolio import Portfolio
from leakledger.attacks.gradient.span import Span
from leakledger.attacks.gradient.spear import Spear
from leakledger.preprocess.views import CategoricalBlock, FeatureLayout, NumericBlock
from tests.attacks.example import exact, observe, rows_of, update_of

TOWNS = tuple(f"t{i}" for i in range(8))
CODES = np.array([[0.0], [1.0], [2.0], [3.0], [0.0], [1.0], [2.0], [7.0]])  # t3 and t7 have a code of their own
HEIGHT_OF = {t: float(i) for i, t in enumerate(TOWNS)}
LAYOUT = FeatureLayout(
    (
        CategoricalBlock("town", 0, 8, TOWNS, CODES),
        CategoricalBlock("side", 1, 2, ("left", "right")),
        CategoricalBlock("shop", 3, 6, tuple("abcdef")),
        NumericBlock("height", 9, shift=3.0, scale=2.0, unit="deviation"),
        *(NumericBlock(f"n{i}", 10 + i) for i in range(5)),
    )
)
SIDE_OF = {t: "left" if i < 4 else "right" for i, t in enumerate(TOWNS)}
SURE = np.ones(1, bool)


def batch(towns, seed=0):
    """Rows of these towns whose height and side follow from the town."""
    categories, numbers, encoded = rows_of(LAYOUT, len(towns), seed)
    categories[:, 0], categories[:, 1], numbers[:, 0] = towns, np.array(towns) > 3, towns
    parts = [b.codebook()[c] for b, c in zip(LAYOUT.categorical, categories.T, strict=True)]
    return categories, numbers, np.hstack([*parts, (numbers[:, :1] - 3) / 2, encoded[:, 10:]])


def played(attack, encoded, *dependencies, layout=LAYOUT):
    (found,) = attack.run(observe(encoded, layout), AuxiliaryKnowledge(dependencies=dict(dependencies)))
    return found


def falsely_verified(found, categories, numbers):
    held = (found.categories[:, None] == categories).all(2) & (np.abs(found.numbers[:, None] - numbers) < 1e-3).all(2)
    return int((found.verified & ~held.any(1)).sum())


ALL = list(range(8))
EXACT = [Span(), Spear(), LinearLayer(), Portfolio()]


@pytest.mark.parametrize("attack", EXACT, ids=lambda a: a.technique)
@pytest.mark.parametrize("seed", range(3))
def test_no_exact_attack_verifies_a_row_whose_code_another_candidate_has(attack, seed):
    categories, numbers, encoded = batch(ALL, seed)
    found = played(attack, encoded)
    assert not falsely_verified(found, categories, numbers)
    alone = np.isin(found.categories[:, 0], [3, 7])
    assert not found.verified[~alone].any()
    if attack.technique != "linear_layer":  # which shows some rows only
        assert found.verified.tolist() == alone.tolist()


def test_a_row_with_several_candidates_is_claimed_with_the_entropy_of_an_even_draw():
    found = played(Span(), batch(ALL)[2])
    assert np.sort(found.numbers[:, 0]) == pytest.approx(np.arange(8), abs=1e-3)
    doubt = np.where(np.isin(found.categories[:, 0], [3, 7]), 0, np.log(2) / np.log(8))
    assert found.category_entropy[:, 0] == pytest.approx(doubt)
    assert not found.category_entropy[:, 1:].any()
    assert not found.number_entropy.any()
    assert (CODES[np.sort(found.categories[:, 0])] == CODES[[0, 0, 1, 1, 2, 2, 3, 7]]).all()


def test_candidates_with_equal_codes_are_searched_as_one():
    encoded = batch(ALL)[2]
    right = np.linalg.svd(np.column_stack([encoded, np.ones(8)]), full_matrices=False)[2]
    found = find_candidates(LAYOUT, right, 1e-6, 10**6, 10**5)
    told = {(float(CODES[town, 0]), int(side), int(shop)) for town, side, shop in found.categories}
    assert len(told) == len(found.categories)
    assert sorted(map(len, found.choices)) == [2, len(set(batch(ALL)[0][:, 2])), 8]


@pytest.mark.parametrize(
    "pair", [(("town", "height"), HEIGHT_OF), (("town", "side"), SIDE_OF), (("side", "town"), {})], ids=str
)
def test_a_dependency_that_tells_the_candidates_apart_verifies_the_row(pair):
    categories, numbers, encoded = batch(ALL)
    found = played(Span(), encoded, pair)
    assert not falsely_verified(found, categories, numbers)
    if pair[1]:
        assert found.verified.all()
        assert exact(found, categories, numbers).all()
    else:
        assert found.verified.sum() == 2


def test_a_dependency_that_does_not_hold_decides_nothing_falsely():
    categories, numbers, encoded = batch(ALL)
    wrong = {t: HEIGHT_OF[t] + 0.5 for t in TOWNS}
    outcome = Span().run(observe(encoded, LAYOUT), AuxiliaryKnowledge(dependencies={("town", "height"): wrong}))
    assert not isinstance(outcome, list) or not falsely_verified(outcome[0], categories, numbers)


def test_a_portfolio_keeps_what_a_dependency_decides():
    categories, numbers, encoded = batch(ALL)
    found = played(Portfolio(), encoded, (("town", "height"), HEIGHT_OF))
    assert found.verified.all()
    assert exact(found, categories, numbers).all()


def test_candidates_known_by_number_only_are_no_more_certain():
    categories, numbers, encoded = batch(ALL)
    unnamed = replace(LAYOUT, blocks=(replace(LAYOUT.blocks[0], values=None), *LAYOUT.blocks[1:]))
    found = played(Span(), encoded, layout=unnamed)
    assert found.verified.sum() == 2
    assert not falsely_verified(found, categories, numbers)


def with_book(codes):
    coded = CategoricalBlock("f", 0, len(codes), None, np.array(codes, float))
    return FeatureLayout((coded, CategoricalBlock("g", 2, 3)))


books = st.lists(st.lists(st.integers(0, 2), min_size=2, max_size=2), min_size=2, max_size=6)


@given(books, st.data())
@settings(max_examples=60)
def test_what_is_open_is_how_many_candidates_have_the_code(codes, data):
    layout = with_book(codes)
    picks = np.array([[data.draw(st.integers(0, len(codes) - 1)), 1]])
    rows = EncodedRows(picks, np.zeros((1, 5)))
    alike = codes.count(codes[picks[0, 0]])
    assert undecided(layout, rows)[0] == pytest.approx([np.log(alike) / np.log(len(codes)), 0])


@given(books, st.data())
@settings(max_examples=40)
def test_without_dependencies_the_choices_leave_as_much_open(codes, data):
    layout = with_book(codes)
    categories = np.array([[data.draw(st.integers(0, len(codes) - 1)), i] for i in range(3)])
    encoded = np.hstack([b.codebook()[c] for b, c in zip(layout.categorical, categories.T, strict=True)])
    right = np.eye(layout.width + 1)
    rows, open = decided(layout, EncodedRows(categories, encoded), right, possible_choices(layout, right, {}, 100))
    assert open == pytest.approx(undecided(layout, rows))
    assert [codes[i] for i in rows.categories[:, 0]] == [codes[i] for i in categories[:, 0]]


def test_codes_that_no_recovery_resolves_count_as_one_and_a_code_of_none_is_open():
    codes, picks = np.array([[0.0], [1e-5], [1.0]]), np.arange(3)[:, None]
    chosen, open = read(codes, picks, np.array([[1e-5], [1.0], [0.5]]), [3])
    assert chosen[:, 0].tolist() == [1, 2, -1]
    assert open[:, 0] == pytest.approx([np.log(2) / np.log(3), 0, 1])


def test_cells_of_features_that_share_columns_are_never_certain():
    both = CategoricalBlock("a", 0, 2, None, np.eye(2)), CategoricalBlock("b", 1, 2, None, np.eye(2))
    layout = FeatureLayout((*both, CategoricalBlock("c", 3, 2)))
    assert sharing(layout) == [0, 1]
    rows = EncodedRows(np.zeros((1, 3), np.int64), np.zeros((1, 5)))
    found = claim(update_of(np.zeros((1, 6)), 8, layout), rows, np.zeros(1), SURE, SURE)
    assert found.category_entropy.tolist() == [[1, 1, 0]]
    assert not found.verified.any()


def test_what_dependencies_decide_leaves_cells_of_features_that_share_columns_open():
    both = CategoricalBlock("a", 0, 2, None, np.eye(2)), CategoricalBlock("b", 1, 2, None, np.eye(2))
    layout = FeatureLayout((*both, CategoricalBlock("c", 3, 2)))
    right, encoded = np.eye(6), np.array([[1.0, 0.0, 1.0, 1.0, 0.0]])
    rows = EncodedRows(np.array([[0, 1, 0]]), encoded)
    _, open = decided(layout, rows, right, possible_choices(layout, right, {}, 100))
    assert open.tolist() == [[1, 1, 0]]
