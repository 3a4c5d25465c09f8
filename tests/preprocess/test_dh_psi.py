import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakledger.preprocess.crypto import dh_psi
from leakledger.preprocess.crypto.oprf import values
from leakledger.preprocess.crypto.refusal import MessageError
from leakledger.preprocess.encoders.ring_psi import check_labels
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.transport.simulated import Simulated
from tests.preprocess import psi
from tests.preprocess.contract import assert_same_views
from tests.preprocess.example import table

NAME = "dh-psi"
CLIENTS = ("P1", "P2", "P3")
TABLES = {p: table(14, i) for i, p in enumerate(CLIENTS)}
labelled = st.dictionaries(st.binary(max_size=6), st.integers(0, 2**64 - 1), max_size=8)


@settings(max_examples=15)
@given(psi.splits_of(3))
def test_every_partition_is_encoded_as_by_the_server_dictionary(tables):
    psi.assert_encodes_as_the_server_dictionary_does(NAME, tables)


@settings(max_examples=10)
@given(psi.splits_of(3), st.permutations(CLIENTS), st.sampled_from(["both", "upward"]))
def test_the_lowest_number_of_a_value_wins_in_every_ring(tables, ring, directions):
    psi.assert_the_lowest_number_wins(NAME, tables, ring=tuple(ring), directions=directions)


@settings(max_examples=20)
@given(labelled, labelled)
def test_the_receiver_learns_the_senders_labels_of_what_both_hold(receiver, sender):
    fed = Simulated(["R", "S"], secret=pinned(1))
    sets = {"R": fed.at("R", receiver), "S": fed.at("S", sender)}
    found = dh_psi.intersect(fed, sets, [("R", "S")], via=None)
    assert fed.own(found["R", "S"]) == {x: label for x, label in sender.items() if x in receiver}


def test_odd_texts_are_told_apart_and_matched_as_the_server_dictionary_does():
    psi.assert_encodes_as_the_server_dictionary_does(NAME, psi.odd_tables())
    psi.assert_the_lowest_number_wins(NAME, psi.odd_tables())


@pytest.mark.parametrize("n", [2, 3, 5])
def test_message_counts_follow_the_formula_of_the_docstring(n):
    tables = {f"P{i}": table(12, i) for i in range(n)}
    assert len(psi.encoded_by(NAME, tables)[0].ledger) == 2 * n + 2 * n * (n - 1)
    assert len(psi.encoded_by(NAME, tables, directions="upward")[0].ledger) == 2 * n + n * (n - 1)
    assert len(psi.encoded_by(NAME, tables, unused="drop")[0].ledger) == 2 * n + 2 * n * (n - 1) + 2 * n


def test_each_party_sees_requests_and_answers_of_its_own_and_the_server_relays_all():
    fed, _, _ = psi.encoded_by(NAME, TABLES)
    seen = {p: [(m.topic, m.sender, m.relay) for m in fed.ledger if m.recipient == p] for p in (*CLIENTS, "server")}
    assert seen["P1"] == [
        ("ring.highest", "P3", None),
        ("dh-psi.request", "P2", "server"),
        ("dh-psi.request", "P3", "server"),
        ("dh-psi.answer", "P2", "server"),
        ("dh-psi.answer", "P3", "server"),
    ]
    assert seen["server"] == [("ring.maximum", "P1", None)]
    assert {m.relay for m in fed.ledger if m.topic.startswith("dh-psi")} == {"server"}


def test_upward_lets_only_later_parties_ask():
    fed, _, _ = psi.encoded_by(NAME, TABLES, directions="upward", ring=("P3", "P1", "P2"))
    asked = [(m.sender, m.recipient) for m in fed.ledger if m.topic == "dh-psi.request"]
    assert asked == [("P1", "P3"), ("P2", "P3"), ("P2", "P1")]


def test_no_message_shows_a_value_or_a_digest_of_one():
    for tables in (TABLES, psi.odd_tables()):
        psi.assert_no_message_shows_a_value(psi.encoded_by(NAME, tables)[0], tables)


def test_a_relay_cannot_count_what_two_parties_share():
    fed, _, _ = psi.encoded_by(NAME, {"P1": table(30, 1), "P2": table(30, 1)})
    bodies = [m.content for m in fed.ledger if m.topic.startswith("dh-psi")]
    pieces = [{body[i : i + 32] for i in range(len(body) - 31)} for body in bodies]
    assert not any(a & b for i, a in enumerate(pieces) for b in pieces[:i])


def test_a_sealed_route_shows_the_server_no_content():
    fed, _, _ = psi.encoded_by(NAME, TABLES, psi_route="sealed")
    at_server = [m.as_seen_by({"server"}) for m in fed.ledger if m.topic.startswith("dh-psi")]
    assert len(at_server) == 12
    assert all(m.content is None for m in at_server)


def test_the_table_of_labels_is_ordered_by_tag_and_its_labels_need_the_element():
    own = {b"a": 1, b"b": 2, b"c": 3}
    table = dh_psi.sealed_table(b"\5" + bytes(31), own)
    rows = [table[i : i + dh_psi.ENTRY_BYTES] for i in range(0, len(table), dh_psi.ENTRY_BYTES)]
    assert rows == sorted(rows)
    assert dh_psi.sealed_table(b"\5" + bytes(31), dict(reversed(own.items()))) == table
    assert {r[: dh_psi.TAG_BYTES] for r in rows} == {
        v[: dh_psi.TAG_BYTES] for v in values(b"\5" + bytes(31), list(own))
    }


def flipped(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


CHANGES = {
    "request cut short": ("dh-psi.request", lambda r: r[:-1], "P1 refuses a message of P2: it is not a list of group"),
    "request of no bytes": ("dh-psi.request", lambda r: 7, "P1 refuses a message of P2: it is not a list of group"),
    "request of identities": (
        "dh-psi.request",
        lambda r: bytes(len(r)),
        "P1 refuses a message of P2: 32 bytes are not",
    ),
    "no answer": ("dh-psi.answer", lambda a: None, "P2 refuses message .*: it is no DhAnswer"),
    "fewer elements": ("dh-psi.answer", lambda a: {**a, "evaluated": a["evaluated"][32:]}, "group elements, not"),
    "table cut short": ("dh-psi.answer", lambda a: {**a, "table": a["table"][:-1]}, "its table of labels is cut short"),
    "broken seals": (
        "dh-psi.answer",
        lambda a: {**a, "table": b"".join(flipped(a["table"][i : i + 56], 55) for i in range(0, len(a["table"]), 56))},
        "P2 refuses a message of P1: the seal of a label is broken",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_message_is_refused_by_party_and_step(change):
    psi.assert_refused(NAME, TABLES, CHANGES[change])


def test_a_label_that_was_never_allotted_is_refused():
    with pytest.raises(MessageError, match="a label is no number that was allotted"):
        check_labels({b"x": 5}, {"ward": 5, "diet": 3})


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"psi_route": "sealed", "unused": "drop", "directions": "upward"},
        {"ring_route": "sealed", "psi_route": "sealed", "sealed_bytes": 9000},
    ],
    ids=str,
)
def test_a_process_per_party_gives_the_same_views(options):
    inputs = {p: t.to_plain() for p, t in TABLES.items()}
    assert_same_views("tests.preprocess.psi:fit_encoder", CLIENTS, inputs, {"encoder": NAME, "options": options})
