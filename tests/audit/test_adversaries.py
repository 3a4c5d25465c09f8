from math import comb

import pytest

from leakledger.audit.adversaries import coalitions, not_played, observer_sets
from leakledger.preprocess.views import Method, PublicFacts
from tests.every import every

FOUR = PublicFacts(("P1", "P2", "P3", "P4"), "server")


@every(
    ("name", "sets"),
    [
        ("server", [("server",)]),
        ("P2", [("P2",)]),
        ("clients", [("P1",), ("P2",), ("P3",), ("P4",)]),
        ("server+P2", [("P2", "server")]),
        ("P1 + P2 + P3", [("P1", "P2", "P3")]),
        ("server+clients", [("P1", "server"), ("P2", "server"), ("P3", "server"), ("P4", "server")]),
        ("neighbours of P1", [("P2", "P4")]),
        ("neighbours of P3", [("P2", "P4")]),
        ("all but P3", [("P1", "P2", "P4")]),
        ("all but one", [("P2", "P3", "P4"), ("P1", "P3", "P4"), ("P1", "P2", "P4"), ("P1", "P2", "P3")]),
        ("coalitions of 3", [("P1", "P2", "P3"), ("P1", "P2", "P4"), ("P1", "P3", "P4"), ("P2", "P3", "P4")]),
        ("server+all but P1", [("P2", "P3", "P4", "server")]),
    ],
)
def test_a_name_stands_for_these_adversaries(name, sets):
    assert observer_sets([name], FOUR) == sets


def test_an_adversary_that_several_names_stand_for_is_played_once():
    assert observer_sets(["clients", "P2", "neighbours of P1", "P4+P2"], FOUR)[4:] == [("P2", "P4")]


def test_neighbours_are_those_of_the_ring_where_the_encoder_has_its_own_order():
    public = PublicFacts(FOUR.clients, "server", Method("uhe", {"ring": ["P1", "P3", "P2", "P4"]}))
    assert observer_sets(["neighbours of P1"], public) == [("P3", "P4")]


def test_two_clients_are_each_others_only_neighbour():
    assert observer_sets(["neighbours of P1"], PublicFacts(("P1", "P2"), "server")) == [("P2",)]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("P9", "^audit.observers: 'P9' took no part; the parties are P1, P2, P3, P4, server; write"),
        ("all but P9", "'P9' took no part"),
        ("neighbours of server", "'server' took no part"),
        ("coalitions of 5", "from 1 to 4"),
        ("coalitions of many", "not 'many'"),
    ],
)
def test_a_name_that_stands_for_nobody_is_refused_with_what_may_be_written(name, reason):
    with pytest.raises(ValueError, match=reason):
        observer_sets([name], FOUR)


@every(
    ("name", "count"),
    [
        ("coalitions of 9", comb(20, 9)),
        ("coalitions of 3+coalitions of 3", 1140**2),
        ("+".join(["clients"] * 4), 20**4),
    ],
)
def test_a_name_that_stands_for_too_many_is_refused_before_they_are_listed(name, count):
    twenty = PublicFacts(tuple(f"P{i + 1}" for i in range(20)), "server")
    with pytest.raises(ValueError, match="at most 10000 can be played: name some of them") as raised:
        observer_sets([name], twenty)
    assert f"{name!r} stands for {count} adversaries" in str(raised.value)


def test_what_was_not_played_is_counted_by_size():
    told = not_played(observer_sets(["server", "clients", "coalitions of 2"], FOUR), FOUR)
    assert told[:2] == ["coalitions of 2: 4 of 10", "coalitions of 3: 10 of 10"]
    assert "active adversaries" in told[-1]
    assert not_played(observer_sets(["P1"], FOUR), FOUR)[:2] == ["the server alone", "single clients: P2, P3, P4"]


@pytest.mark.parametrize("parties", [3, 4, 9, 40])
def test_coalitions_are_counted_by_size_and_those_that_were_played_are_taken_off(parties):
    assert dict(coalitions(parties)) == {size: comb(parties, size) for size in range(2, parties)}
    public = PublicFacts(tuple(f"P{k + 1}" for k in range(parties - 1)), "server")
    said = not_played([("P1", "P2"), ("P1", "server")], public)
    for size in range(2, parties):
        total = comb(parties, size)
        assert f"coalitions of {size}: {total - 2 * (size == 2)} of {total}" in said
