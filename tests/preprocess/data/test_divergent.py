"""The divergent split: categories, sizes and labels differ as much as the data allow."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakledger.preprocess.data.divergent import divergence, divergent_owners, label_groups
from leakledger.preprocess.data.partition import partition
from leakledger.preprocess.data.read import read_table
from tests.preprocess.data.example import table, tables


def slow_divergence(parts, schema, groups):
    """`divergence` by its definition, one pair of parties at a time."""
    totals = []
    for (a, ga), (b, gb) in combinations(zip(parts, groups, strict=True), 2):
        sets = [(set(a.values(c)), set(b.values(c))) for c in schema.categorical]
        jaccard = np.mean([1 - len(x & y) / len(x | y) for x, y in sets]) if sets else 0.0
        labels = range(max(ga.max(), gb.max()) + 1)
        totals.append(jaccard + sum(abs((ga == k).mean() - (gb == k).mean()) for k in labels) / 2)
    return np.mean(totals)


def codes(t):
    return [np.unique(t.values(c).astype(str), return_inverse=True)[1] for c in t.schema.categorical]


@given(tables(), st.integers(2, 5), st.integers(0, 99))
def test_divergence_equals_its_definition(t, parties, seed):
    owners = np.random.default_rng(seed).permutation(np.arange(len(t)) % parties)
    parts = [t.rows(np.flatnonzero(owners == p)) for p in range(parties)]
    groups = [label_groups(t)[owners == p] for p in range(parties)]
    assert divergence(owners, codes(t), label_groups(t)) == pytest.approx(slow_divergence(parts, t.schema, groups))


def test_parties_that_share_nothing_have_divergence_two():
    owners = np.array([0, 0, 1, 1])
    assert divergence(owners, [np.array([0, 1, 2, 3])], owners) == 2
    assert divergence(owners, [np.array([0, 1, 0, 1])], np.array([0, 1, 0, 1])) == 0


@given(tables(), st.integers(2, 4), st.integers(0, 99))
def test_the_split_diverges_more_than_a_random_one(t, parties, seed):
    rng = np.random.default_rng(seed)
    owners = divergent_owners(t, parties, 2, rng)
    random = rng.permutation(owners)
    labels = label_groups(t)
    assert divergence(owners, codes(t), labels) >= divergence(random, codes(t), labels)


def test_equal_targets_of_a_regression_are_in_one_group():
    t = table(rows=60, classes=30, task="regression")
    labels, groups = t.labels(), label_groups(t)
    assert all(len(set(groups[labels == y])) == 1 for y in set(labels))
    assert len(set(groups)) >= 8
    assert (np.diff(groups[np.argsort(labels)]) >= 0).all()


def test_sizes_are_the_minimum_and_harmonic_shares_of_the_rest():
    sizes = np.bincount(divergent_owners(table(rows=270), 4, 5, np.random.default_rng(0)))
    assert sorted(sizes, reverse=True) == [125, 65, 45, 35]  # 5 + 250 * (12, 6, 4, 3) / 25


def test_the_generator_deals_the_sizes():
    firsts = {int((divergent_owners(table(), 3, 5, np.random.default_rng(s)) == 0).sum()) for s in range(20)}
    assert len(firsts) == 3


def test_a_table_whose_categories_decide_the_label_is_split_by_them():
    t = table(rows=200, cities=4)
    y = t.frame["city"].isin(["c0", "c1"]).map({True: "1", False: "0"}).astype("str")
    t = type(t)(t.frame.assign(y=y), t.schema, "t")
    parts = partition(t, "divergent", 2, np.random.default_rng(0)).values()
    assert max(p.labels().mean() for p in parts) > 0.7
    held = [set(p.values("city")) for p in parts]
    assert len(held[0] & held[1]) <= 1


def test_a_table_of_numbers_alone_is_split_by_the_most_telling_one():
    parts = partition(read_table("breast_cancer"), "divergent", 4, np.random.default_rng(0))
    rates = [p.labels().mean() for p in parts.values()]
    assert rates == sorted(rates)
    assert rates[0] < 0.05
    assert rates[-1] > 0.95


@pytest.mark.parametrize("name", ["adult", "german", "lawschool", "cc_fraud"])
def test_real_parties_hold_categories_that_others_do_not(datasets, name):
    whole = read_table(datasets / f"{name}.csv.gz", missing="drop")
    even = partition(whole, "iid", 4, np.random.default_rng(0)).values()
    divided = partition(whole, "divergent", 4, np.random.default_rng(0)).values()

    def difference(parts):
        sizes = np.array([len(p) for p in parts])
        owners = np.repeat(np.arange(4), sizes)
        joined = type(whole)(pd.concat([p.frame for p in parts], ignore_index=True), whole.schema, "t")
        return divergence(owners, codes(joined), label_groups(joined))

    assert difference(divided) > 0.35
    assert difference(even) < 0.05
    assert np.ptp([p.labels().mean() for p in divided]) > 0.2
    assert max(map(len, divided)) > 3 * min(map(len, divided))
