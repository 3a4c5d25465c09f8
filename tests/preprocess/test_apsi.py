from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakledger.preprocess.crypto import apsi, bfv
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.transport.simulated import Simulated
from tests.preprocess import psi
from tests.preprocess.contract import assert_same_views
from tests.preprocess.example import table
from tests.preprocess.notes import plain

sealapi = pytest.importorskip("tenseal.sealapi")

NAME = "apsi"
CLIENTS = ("P1", "P2", "P3")
TABLES = {p: table(14, i) for i, p in enumerate(CLIENTS)}
labelled = st.dictionaries(st.binary(max_size=6), st.integers(0, 2**64 - 1), max_size=12)


@pytest.fixture(scope="module")
def run():
    return psi.encoded_by(NAME, TABLES)[0]


@settings(max_examples=3)
@given(psi.splits_of(3))
def test_every_partition_is_encoded_as_by_the_server_dictionary(tables):
    psi.assert_encodes_as_the_server_dictionary_does(NAME, tables)


@settings(max_examples=3)
@given(psi.splits_of(3), st.permutations(CLIENTS), st.sampled_from(["both", "upward"]))
def test_the_lowest_number_of_a_value_wins_in_every_ring(tables, ring, directions):
    psi.assert_the_lowest_number_wins(NAME, tables, ring=tuple(ring), directions=directions)


@settings(max_examples=6)
@given(labelled, labelled)
def test_the_receiver_learns_the_senders_labels_of_what_both_hold(receiver, sender):
    fed = Simulated(["R", "S"], secret=pinned(1))
    sets = {"R": fed.at("R", receiver), "S": fed.at("S", sender)}
    found = apsi.intersect(fed, sets, [("R", "S")], fed.public(lambda: 20), via=None)
    assert fed.own(found["R", "S"]) == {x: label for x, label in sender.items() if x in receiver}


def test_odd_texts_are_told_apart_and_matched_as_the_server_dictionary_does():
    psi.assert_encodes_as_the_server_dictionary_does(NAME, psi.odd_tables())


@pytest.mark.parametrize("n", [2, 3])
def test_the_parties_exchange_as_many_messages_as_the_paper_counts(n):
    fed, _, _ = psi.encoded_by(NAME, {f"P{i}": table(12, i) for i in range(n)})
    assert len([m for m in fed.ledger if m.recipient != "server"]) == 4 * n**2 - 2 * n - 1


def test_each_direction_is_four_messages_through_the_server(run):
    topics = ["oprf-request", "oprf-answer", "query", "answer"]
    pair = [m for m in run.ledger if {m.sender, m.recipient} == {"P1", "P2"} and m.topic.startswith("apsi")]
    for receiver, sender in (("P1", "P2"), ("P2", "P1")):
        ends = [(receiver, sender), (sender, receiver)] * 2
        due = [(f"apsi.{t}", *e) for t, e in zip(topics, ends, strict=True)]
        assert [s for m in pair if (s := (m.topic, m.sender, m.recipient)) in due] == due
    assert len(pair) == 8
    assert {m.relay for m in run.ledger if m.topic.startswith("apsi")} == {"server"}
    assert [m.topic for m in run.ledger if m.recipient == "server"] == ["ring.maximum"]


def test_no_message_shows_a_value_or_a_digest_of_one(run):
    psi.assert_no_message_shows_a_value(run, TABLES)


def shapes(wards, **options):
    """Rows and ciphertexts of queries and answers between parties that hold these wards, and one diet."""
    tables = {f"P{i}": psi.text_table(list(held), ["d"] * len(held)) for i, held in enumerate(wards)}
    fed, _, _ = psi.encoded_by(NAME, tables, ring_route="direct", pad_to=200, **options)
    encrypted = [m for m in fed.ledger if m.topic in ("apsi.query", "apsi.answer")]
    return [(m.topic, len(plain(m)), len(plain(m)[0])) for m in encrypted]


def test_queries_and_answers_have_the_same_shape_whatever_is_shared():
    assert shapes(["abcdefgh", "stuvwxyz"]) == shapes(["abcdefgh", "abcdefgh"])


def test_where_the_sender_asks_nothing_shapes_hide_how_many_elements_it_has():
    many = [chr(0x4E00 + k) for k in range(150)]
    assert shapes(["a", "stuv"], directions="upward") == shapes([many, "stuv"], directions="upward")
    assert shapes(["a", "stuv"]) != shapes([many, "stuv"])


def test_a_party_asks_all_others_the_same_and_answers_all_with_one_key_but_no_two_queries_are_alike(run):
    asked = {(m.sender, m.recipient): plain(m) for m in run.ledger if m.topic == "apsi.oprf-request"}
    assert len(asked) == 6
    assert len(set(asked.values())) == 3
    queries = {c for m in run.ledger if m.topic == "apsi.query" for row in plain(m) for c in row}
    assert len(queries) == sum(len(row) for m in run.ledger if m.topic == "apsi.query" for row in plain(m))


def test_no_two_ciphertexts_of_a_run_share_their_randomness(run):
    seen = [c for m in run.ledger if m.topic == "apsi.query" for row in plain(m) for c in row]
    assert len(seen) >= 6
    evaluator, difference = sealapi.Evaluator(bfv.context()), sealapi.Ciphertext(bfv.context())
    for one, other in combinations([bfv.load(c, fresh=True) for c in seen], 2):
        evaluator.sub(one, other, difference)
        assert not difference.is_transparent()  # it would be, if what hides them were the same


def flip(data, at=4000):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


CHANGES = {
    "request": ("apsi.oprf-request", lambda r: r[1:], "P1 refuses a message of P2: it is not a list of group elements"),
    "long request": ("apsi.oprf-request", lambda r: 20 * r, "P1 refuses a message of P2: it has .* are the most"),
    "oprf answer": ("apsi.oprf-answer", lambda r: r[32:], "P2 refuses a message of P1: it has .* group elements, not"),
    "query": (
        "apsi.query",
        lambda q: [[flip(q[0][0]), *q[0][1:]]],
        "P1 refuses a message of P2: a ciphertext was chan",
    ),
    "short query": ("apsi.query", lambda q: [q[0][1:]], "P1 refuses a message of P2: it has no . parts"),
    "no query": ("apsi.query", lambda q: 3, "P1 refuses a message of P2: it has no 1 parts"),
    "answer": ("apsi.answer", lambda a: [[[a[0][0][0], flip(a[0][0][1])], *a[0][1:]]], "P2 refuses a message of P1: a"),
    "no answer": ("apsi.answer", lambda a: [], "P2 refuses a message of P1: it has no 1 parts"),
    "text": ("apsi.answer", lambda a: [[["x", "y"] for _ in a[0]]], "P2 refuses a message of P1: it is no ciphertext"),
    "query as answer": ("apsi.query", lambda q: [[b"\0" * 100 for _ in q[0]]], "P1 refuses a message of P2: a cipher"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_message_is_refused_by_party_and_step(change):
    psi.assert_refused(NAME, TABLES, CHANGES[change])


def test_without_a_seed_the_result_is_the_same():
    fed = Simulated(list(CLIENTS))
    located = {p: fed.at(p, t) for p, t in TABLES.items()}
    found = psi.numbers_of(fed, psi.ENCODERS[NAME]().fit(fed, psi.SCHEMA, located))
    assert found == psi.lowest_numbers(NAME, TABLES)[0]


@pytest.mark.slow
def test_a_process_per_party_gives_the_same_views():
    inputs = {p: t.to_plain() for p, t in TABLES.items()}
    options = {"psi_route": "sealed", "unused": "drop"}
    assert_same_views("tests.preprocess.psi:fit_encoder", CLIENTS, inputs, {"encoder": NAME, "options": options})
