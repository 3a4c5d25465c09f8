"""Whose a row of a sum is, as far as labels tell."""

from dataclasses import replace

import numpy as np
import pytest

from leakledger.attacks.base import Abstained, AuxiliaryKnowledge, RecordsClaim
from leakledger.attacks.gradient.owners import across_rounds, likeliest, row_labels, with_owners
from leakledger.attacks.observed.gradients import find_gradients
from leakledger.attacks.observed.update import Member
from tests.attacks.example import LAYOUT, observe, rows_of

NOTHING = AuxiliaryKnowledge()


def member(client, *labels):
    return Member(client, len(labels), np.array(labels, np.int64))


def summed(*members, count=8, activation="relu"):
    """An update of rows whose labels alternate, as if the members had sent them together; the claim that is right."""
    categories, numbers, encoded = rows_of(LAYOUT, count, 0)
    (update,) = find_gradients(observe(encoded, activation=activation), NOTHING)
    update = replace(update, labels=np.arange(count) % 2, members=members)
    doubt = np.zeros(categories.shape), np.zeros(numbers.shape)
    return update, RecordsClaim("ann+bob", 0, categories, numbers, *doubt), encoded


@pytest.mark.parametrize("activation", ["relu", "sigmoid"])
def test_the_labels_of_rows_follow_from_the_last_layer_in_any_order(activation):
    update, _, encoded = summed(activation=activation)
    order = np.random.default_rng(0).permutation(8)
    assert row_labels(update, encoded[order]).tolist() == (order % 2).tolist()


def test_a_label_is_not_given_to_more_rows_than_have_it():
    update, _, encoded = summed()
    assert np.bincount(row_labels(replace(update, labels=np.array([0] * 7 + [1])), encoded)).tolist() == [7, 1]


def test_rows_beyond_the_batch_have_a_label_too():
    update, _, encoded = summed()
    assert len(row_labels(update, np.concatenate([encoded, encoded[:2] + 0.1]))) == 10


def test_a_label_that_one_client_alone_has_names_it():
    update, claim, _ = summed(member("ann", 0, 0, 0, 0), member("bob", 1, 1, 1, 1))
    found = with_owners(update, NOTHING, claim)
    assert found.owners.tolist() == ["ann", "bob"] * 4


def test_a_label_that_all_have_alike_names_nobody():
    assert likeliest([member("ann", 0, 1), member("bob", 0, 1)], 2) == ["", ""]
    assert likeliest([member("ann", 0, 0, 1), member("bob", 0, 1, 1)], 2) == ["ann", "bob"]


def test_without_labels_nobody_is_named():
    update, claim, _ = summed(member("ann"), member("bob"))
    found = with_owners(replace(update, labels=update.labels[:0]), NOTHING, claim)
    assert found.owners.tolist() == [""] * 8


def test_a_claim_about_one_client_and_an_outcome_without_a_claim_stay_as_they_are():
    update, claim, _ = summed()
    assert with_owners(update, NOTHING, claim) is claim
    silent = Abstained("nothing")
    assert with_owners(summed(member("ann", 0), member("bob", 1))[0], NOTHING, silent) is silent


def proven(victim, round, chosen, verified=True):
    """A claim about some rows of one table, all proven."""
    categories, numbers, _ = rows_of(LAYOUT, 8, 0)
    doubt = np.zeros((len(chosen), categories.shape[1])), np.zeros((len(chosen), numbers.shape[1]))
    owners = np.full(len(chosen), "") if "+" in victim else None
    return RecordsClaim(
        victim,
        round,
        categories[chosen],
        numbers[chosen],
        *doubt,
        verified=np.full(len(chosen), verified),
        owners=owners,
    )


def owners(*claims):
    return [None if c.owners is None else c.owners.tolist() for c in across_rounds(claims)]


def test_a_row_behind_two_sums_is_of_the_client_that_is_in_both():
    found = owners(proven("ann+bob", 0, [0, 1]), proven("bob+cid", 1, [1, 2]))
    assert found == [["", "bob"], ["bob", ""]]


def test_a_row_of_a_client_that_was_alone_once_is_known_in_every_sum():
    found = owners(proven("ann+bob+cid", 0, [0, 1, 2]), proven("cid", 3, [2]))
    assert found == [["", "", "cid"], None]


def test_sums_over_the_same_clients_tell_nothing_of_each_other():
    assert owners(proven("ann+bob", 0, [0]), proven("ann+bob", 1, [0])) == [[""], [""]]


def test_rows_that_are_not_proven_tell_nothing_of_owners():
    assert owners(proven("ann+bob", 0, [1]), proven("bob+cid", 1, [1], verified=False)) == [[""], [""]]


def test_a_row_that_nobody_can_have_sent_twice_names_nobody():
    assert owners(proven("ann+bob", 0, [1]), proven("cid+dan", 1, [1])) == [[""], [""]]
