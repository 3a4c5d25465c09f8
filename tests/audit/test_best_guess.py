"""Ways to guess about a party are chosen on other parties: what is scored decides nothing about its own baseline."""

import numpy as np
import pytest

from leakledger.audit.scoring import guessed_statistics, guessed_values, membership
from leakledger.audit.scoring.guessed_statistics import Known, known_by_prior
from leakledger.audit.scoring.other_parties import best_way, occurrences, rows_with
from leakledger.audit.scoring.vocabulary import overlap
from tests.audit.example import truth
from tests.every import every

PARTIES = ("P1", "P2", "P3", "P4")
T = truth()


def test_a_way_is_tried_on_every_party_but_the_victim_and_never_knows_either_of_both():
    tried = []

    def reached(way, party, known):
        tried.append(party)
        assert "P2" not in {party, *known}
        assert set(known) | {party} == {"P1", "P3", "P4"}
        assert party not in known
        return way(party)

    assert (
        best_way(PARTIES, "P2", {"poor": lambda p: 0.0, "good": lambda p: 0.5, "same": lambda p: 0.5}, reached)
        == "good"
    )
    assert set(tried) == {"P1", "P3", "P4"}


def test_with_fewer_than_two_others_the_first_way_is_taken_untried():
    def reached(way, party, known):
        raise AssertionError

    assert best_way(("P1", "P2"), "P1", {"first": None, "second": None}, reached) == "first"


def known(*values, tolerance=0.1, whole=False):
    """One statistic of as many parties as there are values."""
    actual = {f"P{i + 1}": np.array([v]) for i, v in enumerate(values)}
    return Known(actual, np.array([np.nanmean(values)]), np.array([tolerance]), whole)


WANTED = np.array([0])


def test_what_most_of_the_others_have_is_guessed_where_that_serves_them():
    assert known_by_prior(known(1.0, 1.0, 1.0, 1.0, 9.0), "P1", WANTED) == 1
    assert known_by_prior(known(1.0, 1.0, 1.0, 1.0, 9.0), "P5", WANTED) == 0


def test_the_victims_own_value_does_not_decide_what_is_guessed():
    for value in np.linspace(0, 12, 49):
        alone = known_by_prior(known(value, 3.0, 3.0, 3.05), "P1", WANTED)
        assert alone == (abs(value - 3.0) <= 0.1), value


def test_statistics_that_no_other_party_has_are_guessed_as_the_federation_has_them():
    one = known(2.0, np.nan, np.nan, np.nan)
    for name, way in guessed_statistics.WAYS.items():
        assert way(one, ["P2", "P3", "P4"]) == pytest.approx([2.0]), name


def test_the_mode_is_what_is_right_for_most_though_it_is_neither_mean_nor_median():
    one, parties = known(1.0, 1.05, 7.0, 8.0, 9.0), [f"P{i + 1}" for i in range(5)]
    assert guessed_statistics.WAYS["mode"](one, parties) == pytest.approx(1.0, abs=0.05)
    assert guessed_statistics.WAYS["median"](one, parties) == 7


def test_whole_numbers_are_guessed_whole():
    assert guessed_statistics.WAYS["mean"](known(0, 2, 3, whole=True), ["P2", "P3"]) == [2]
    assert guessed_statistics.WAYS["mean"](known(0, 2, 3), ["P2", "P3"]) == [2.5]


def test_rows_are_counted_by_party_and_value():
    feature = T.federated.schema.categorical[0]
    for party, counted in occurrences(T, feature).items():
        values = T.federated.tables[party].values(feature)
        assert counted == {v: int((values == v).sum()) for v in T.vocabularies[party][feature]}
        rows = rows_with(T, feature, ("nobody has this", *counted))[party]
        assert rows.tolist() == [0, *counted.values()]


@every("way", guessed_values.WAYS)
def test_a_set_of_values_does_not_depend_on_who_is_not_known(way):
    rows = {p: np.random.default_rng(i).integers(0, 3, 12) for i, p in enumerate(PARTIES)}
    claimed = guessed_values.WAYS[way](rows, ("P1", "P2"))
    other = guessed_values.WAYS[way]({**rows, "P3": np.zeros(12, int), "P4": 7 * rows["P4"]}, ("P1", "P2"))
    assert claimed.tolist() == other.tolist()
    assert claimed[(rows["P1"] > 0) & (rows["P2"] > 0)].any()


def test_the_overlap_of_masks_is_that_of_sets():
    coins = np.random.default_rng(0)
    for _ in range(50):
        claimed, held = coins.random((2, 4)) < 0.4
        sets = (set(np.flatnonzero(x)) for x in (claimed, held))
        assert guessed_values._overlap(claimed, held) == overlap(*sets)


@every("way", membership.WAYS)
def test_a_ranking_has_a_score_for_every_candidate(way):
    assert membership.WAYS[way]([np.array([0, 2, 1]), np.array([0, 1, 0])], 3).shape == (3,)
    assert membership.WAYS[way]([], 3).shape == (3,)
