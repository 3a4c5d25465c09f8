from collections import Counter
from dataclasses import replace

import pytest

from leakledger.audit.records import Observation
from leakledger.reports.observations import MOST, OTHERS, exchanges, folded, parties, seen, topics
from tests.reports.example import PARTIES, SERVER, observations, setting

ROWS = observations(setting(1))
NAMES = [f"client_{i}" for i in range(50)]


def gather(names, topic="sum", step="scale"):
    """Every client tells the server one thing of 10 bytes."""
    sent = [Observation(p, topic, step, p, "sent", "plaintext", "float64[2]", 1, 10, 0, 0) for p in names]
    return [*sent, *(replace(o, observer=SERVER, role="received") for o in sent)]


def test_servers_come_before_those_who_hold_data():
    assert parties(reversed(ROWS), PARTIES)[0] == SERVER
    assert set(parties(ROWS, PARTIES)) == {SERVER, *PARTIES}


def test_small_federations_are_not_folded():
    rows = gather(NAMES[: MOST - 1])
    assert folded(rows) == tuple(rows)


def test_folding_keeps_every_hop_and_its_bytes():
    rows = [replace(o, hops=2, wire_size=110) for o in gather(NAMES)]
    merged = folded(rows)
    assert len(merged) < len(rows)
    assert sum(o.hops for o in merged) == 2 * len(rows)
    assert sum(o.wire_size for o in merged) == 110 * len(rows)


def test_folding_keeps_every_message_and_byte():
    rows = gather(NAMES)
    few = folded(rows, NAMES)
    together = "client_0 … client_49 (50 parties together)"
    assert [(o.observer, o.sender, o.messages, o.size) for o in few] == [
        (together, together, 50, 500),
        (SERVER, together, 50, 500),
    ]


def test_folding_keeps_apart_who_saw_other_things():
    rows = [
        *gather(NAMES),
        Observation("client_7", "key", "scale", SERVER, "received", "plaintext", "text", 1, 5, 0, 0),
    ]
    assert len({o.observer for o in folded(rows, NAMES)}) == 3
    assert "client_7" in {o.observer for o in folded(rows, NAMES)}


def test_folding_different_shapes_says_so():
    rows = gather(NAMES)
    rows[0] = replace(rows[0], content="float64[3]")
    rows[1] = replace(rows[1], content="float64[4]")
    assert folded(rows, NAMES)[0].content == "float64[3], and other shapes"


def test_topics_follow_the_order_of_events_whoever_is_listed_first():
    expected = ["dictionary.local", "dictionary.global", "zscore.mean", "zscore.global-mean", "psi.blinded"]
    expected += ["training.model", "training.gradient"]
    clients_first = sorted(ROWS, key=lambda o: o.observer == SERVER)
    for rows in (ROWS, clients_first):
        assert [topic for _, topic in topics(rows)] == expected


def test_a_topic_that_the_first_observer_missed_finds_its_place():
    first, second, third = (gather(names, topic) for names, topic in ((["a"], "1"), (["b"], "2"), (["a"], "3")))
    rows = sorted([*first, *second, *third], key=lambda o: ("a", "b", SERVER).index(o.observer))
    assert [topic for _, topic in topics(rows)] == ["1", "2", "3"]


def test_contradicting_orders_still_list_every_topic_once():
    a = [replace(ROWS[0], observer="a", topic=t) for t in "xy"]
    b = [replace(ROWS[0], observer="b", topic=t) for t in "yx"]
    assert Counter(topic for _, topic in topics([*a, *b])) == {"x": 1, "y": 1}


def test_a_topic_that_all_send_to_one_is_one_exchange():
    (first, *_) = exchanges(ROWS)
    assert (first.topic, set(first.senders), first.recipients) == ("dictionary.local", set(PARTIES), (SERVER,))
    assert (first.messages, first.sealed, first.via) == (4, False, ())


def test_a_sealed_exchange_among_peers_names_its_relay():
    peers = next(e for e in exchanges(ROWS) if e.topic == "psi.blinded")
    assert set(peers.senders) == set(peers.recipients) == set(PARTIES)
    assert (peers.via, peers.sealed, peers.messages) == ((SERVER,), True, 12)


def test_a_ring_is_one_exchange_per_link():
    ring = [
        Observation(b, "sum", "scale", a, "received", "plaintext", "number", 1, 8, 0, 0)
        for a, b in zip(PARTIES, PARTIES[1:] + PARTIES[:1], strict=True)
    ]
    assert [(e.senders, e.recipients) for e in exchanges(ring)] == [((o.sender,), (o.observer,)) for o in ring]


def test_a_recipient_that_nobody_observed_is_not_invented():
    sent = [o for o in ROWS if o.observer == SERVER and o.topic == "zscore.global-mean"]
    (only,) = exchanges(sent)
    assert (only.senders, only.recipients, only.messages) == ((SERVER,), (OTHERS,), 4)


def test_rounds_of_a_topic_are_collapsed():
    training = next(e for e in exchanges(ROWS) if e.topic == "training.gradient")
    assert (training.first_round, training.last_round, training.messages) == (0, 99, 400)


@pytest.mark.parametrize("observer", [SERVER, PARTIES[0]])
def test_seen_bytes_are_those_of_others(observer):
    rows = [o for o in ROWS if o.observer == observer and o.role != "sent"]
    mine = [s for s in seen(ROWS) if s.observer == observer]
    assert sum(s.size for s in mine) == sum(o.size for o in rows)
    assert {s.topic for s in mine} == {o.topic for o in rows}
    assert {s.topic for s in mine if s.sealed} == ({"psi.blinded"} if observer == SERVER else set())
