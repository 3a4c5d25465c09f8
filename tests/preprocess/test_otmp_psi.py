from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakledger.preprocess.crypto.otmp import Placed
from leakledger.preprocess.crypto.refusal import MessageError
from leakledger.preprocess.encoders.otmp_psi import assign_roles, first_held_by, numbers_at, read_roles
from leakledger.preprocess.messages import OtmpPositions
from leakledger.preprocess.secret import pinned
from tests.preprocess import psi
from tests.preprocess.contract import assert_same_views
from tests.preprocess.example import table
from tests.preprocess.notes import plain

NAME = "otmp-psi"
CLIENTS = ("P1", "P2", "P3")
TABLES = {p: table(14, i) for i, p in enumerate(CLIENTS)}


@settings(max_examples=15)
@given(psi.splits_of(3))
def test_every_partition_is_encoded_as_by_the_server_dictionary(tables):
    psi.assert_encodes_as_the_server_dictionary_does(NAME, tables)


@settings(max_examples=10)
@given(psi.splits_of(4), st.permutations(("P1", "P2", "P3", "P4")))
def test_the_lowest_number_of_a_value_wins_in_every_ring(tables, ring):
    psi.assert_the_lowest_number_wins(NAME, tables, ring=tuple(ring))


@settings(max_examples=10)
@given(psi.splits_of(2))
def test_two_parties_are_key_holder_and_reconstructor(tables):
    psi.assert_encodes_as_the_server_dictionary_does(NAME, tables)


def test_odd_texts_are_told_apart_and_matched_as_the_server_dictionary_does():
    psi.assert_encodes_as_the_server_dictionary_does(NAME, psi.odd_tables())
    psi.assert_the_lowest_number_wins(NAME, psi.odd_tables())


@pytest.mark.parametrize("n", [2, 3, 5])
def test_message_counts_follow_the_formula_of_the_docstring(n):
    fed, _, _ = psi.encoded_by(NAME, {f"P{i}": table(12, i) for i in range(n)})
    assert len(fed.ledger) == n * n + 6 * n - 4


def test_for_four_parties_the_messages_among_them_are_as_many_as_the_paper_counts():
    n = 4
    fed, _, _ = psi.encoded_by(NAME, {f"P{i}": table(12, i) for i in range(n)})
    assert len([m for m in fed.ledger if "server" not in (m.sender, m.recipient)]) == 8 * n - 7 + n * (n - 1) // 2


def test_who_sees_what():
    fed, _, _ = psi.encoded_by(NAME, TABLES)
    seen = {
        p: {(m.topic.removeprefix("otmp."), m.sender) for m in fed.ledger if m.recipient == p and "otmp" in m.topic}
        for p in (*CLIENTS, "server")
    }
    roles, matches = ("roles", "server"), ("matches", "P3")
    assert seen == {
        "P1": {roles, matches, ("request", "P2"), ("request", "P3"), ("positions", "P2"), ("positions", "P3")},
        "P2": {roles, matches, ("answer", "P1"), ("numbers", "P1"), ("positions", "P3")},
        "P3": {
            roles,
            ("answer", "P1"),
            ("shares", "P1"),
            ("shares", "P2"),
            ("numbers", "P1"),
            ("numbers", "P2"),
        },
        "server": set(),
    }
    assert not any(m.relay for m in fed.ledger)


def test_numbers_are_asked_only_of_earlier_parties_and_an_empty_question_is_asked_too():
    nothing_shared = {"P1": psi.text_table(["a"], ["x"]), "P2": psi.text_table(["b"], ["y"])}
    fed, _, _ = psi.encoded_by(NAME, nothing_shared)
    asked = [m for m in fed.ledger if m.topic == "otmp.positions"]
    assert [(m.sender, m.recipient, plain(m).shape) for m in asked] == [("P2", "P1", (0, 2))]


def test_of_several_holders_only_the_first_in_the_ring_is_asked():
    found = np.array([[3, 1, 0, 7], [3, 1, 1, 5], [4, 0, 1, 2], [6, 6, 3, 1]])
    assert first_held_by(found, 2, 0).tolist() == [[3, 1, 7]]
    assert first_held_by(found, 2, 1).tolist() == [[4, 0, 2]]
    assert first_held_by(found, 3, 2).tolist() == []


def test_a_number_is_told_only_to_those_with_whom_the_value_is_shared():
    placed = Placed(np.zeros((9, 9), np.uint64), {(3, 1): b"x", (4, 0): b"y"})
    found, asked = np.array([[3, 1, 1, 7], [4, 0, 2, 2]]), np.array([[3, 1]])
    assert numbers_at(OtmpPositions(asked), 1, found, placed, {b"x": 5, b"y": 6}).numbers.tolist() == [5]
    with pytest.raises(MessageError, match="it asks for a number at a position that does not match"):
        numbers_at(OtmpPositions(asked), 2, found, placed, {b"x": 5, b"y": 6})


def test_no_message_shows_a_value_or_a_digest_of_one():
    for tables in (TABLES, psi.odd_tables()):
        psi.assert_no_message_shows_a_value(psi.encoded_by(NAME, tables)[0], tables)


def test_shares_have_the_same_size_for_every_party_however_many_values_it_has():
    fed, _, _ = psi.encoded_by(NAME, psi.odd_tables(), ring=("P3", "P1", "P2"))
    sizes = [m.size for m in fed.ledger if m.topic == "otmp.shares"]
    assert len(sizes) == 2
    assert len(set(sizes)) == 1


def test_a_share_tells_nothing_between_runs_of_other_seeds():
    def shares(seed):
        fed = psi.Simulated(list(CLIENTS), secret=pinned(seed))
        psi.ENCODERS[NAME]().fit(fed, psi.SCHEMA, {p: fed.at(p, t) for p, t in TABLES.items()})
        return {int(s) for m in fed.ledger if m.topic == "otmp.shares" for s in plain(m).ravel()}

    assert shares(1) == shares(1)
    assert not shares(1) & shares(2)


def moved(array, delta):
    changed = array.copy()
    changed[0] += delta
    return changed


CHANGES = {
    "roles": (
        "otmp.roles",
        lambda r: {**r, "capacity": r["capacity"] + 1},
        "all refuse a message of server: the server assigns roles or bins that do not follow",
    ),
    "request": ("otmp.request", lambda r: r[:5], "P1 refuses a message of P2: it is not a list of group elements"),
    "answer": ("otmp.answer", lambda r: r[32:], "P2 refuses a message of P1: it has .* group elements, not"),
    "shares": ("otmp.shares", lambda s: s[:-1], "P3 refuses a message of P1: it has no shares for"),
    "matches": ("otmp.matches", lambda m: moved(m, [0, 99, 0, 0]), "P1 refuses a message of P3: a match is not at"),
    "no matches": (
        "otmp.matches",
        lambda m: m.tolist(),
        "P1 refuses message .* no OtmpMatches: positions is list",
    ),
    "positions": ("otmp.positions", lambda p: moved(p, [0, 99]), "P1 refuses a message of P2: it asks for a number"),
    "no positions": ("otmp.positions", lambda p: p.ravel(), "P1 refuses a message of P2: it is no list of positions"),
    "numbers": ("otmp.numbers", lambda n: n[1:], "P2 refuses a message of P1: it has no"),
    "high number": ("otmp.numbers", lambda n: n + 100, "P2 refuses a message of P1: a number is none that was"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_message_is_refused_by_party_and_step(change):
    psi.assert_refused(NAME, TABLES, CHANGES[change])


def test_roles_that_do_not_follow_from_the_ring_are_refused():
    roles = assign_roles(CLIENTS, {"ward": 30})
    assert read_roles(CLIENTS, {"ward": 30}, roles).count == 4
    with pytest.raises(MessageError, match="the server assigns roles or bins that do not follow"):
        read_roles(CLIENTS, {"ward": 30}, replace(roles, reconstructor="P1"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{}, {"psi_route": "sealed", "unused": "drop", "ring": ["P3", "P1", "P2"]}], ids=str
)
def test_a_process_per_party_gives_the_same_views(options):
    inputs = {p: t.to_plain() for p, t in TABLES.items()}
    assert_same_views("tests.preprocess.psi:fit_encoder", CLIENTS, inputs, {"encoder": NAME, "options": options})
