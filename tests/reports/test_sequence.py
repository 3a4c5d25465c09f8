from xml.etree import ElementTree as ET

from leakledger.reports.observations import exchanges
from leakledger.reports.sequence import sequence
from leakledger.reports.svg import local_name
from tests.reports.example import PARTIES, SCRIPT, SERVER, observations, setting

EVENTS = exchanges(observations(setting(1)))
ALL = (SERVER, *PARTIES)


def drawn(events=EVENTS, parties=ALL):
    return ET.fromstring(sequence(events, parties, "sequence"))


def of_class(root, name):
    return [n for n in root.iter() if n.get("class") == name]


def test_every_party_has_a_lifeline_with_its_whole_name_on_it():
    root = drawn()
    assert len(of_class(root, "life")) == len(ALL)
    named = [next(iter(label)).text for label in of_class(root, "party")]
    assert named[:2] == [SERVER, SCRIPT]


def test_topics_run_down_in_their_order():
    topics = of_class(drawn(), "topic")
    assert [t.text for t in topics] == [e.topic for e in EVENTS]
    heights = [float(t.get("y")) for t in topics]
    assert heights == sorted(heights)


def test_a_wire_ends_at_the_outermost_parties_and_marks_each():
    root = drawn(EVENTS[:1])
    (wire,) = of_class(root, "wire")
    places = sorted(float(line.get("x1")) for line in of_class(root, "life"))
    assert [float(wire.get("x1")), float(wire.get("x2"))] == [places[0], places[-1]]
    marks = [local_name(m) for m in of_class(root, "mark")]
    assert (marks.count("circle"), marks.count("path")) == (4, 1)  # four send, one receives


def test_sealed_topics_are_dashed_and_show_who_passed_them_on():
    root = drawn()
    (sealed,) = of_class(root, "sealed")
    assert "psi.blinded" in next(iter(sealed)).text
    assert f"through {SERVER}" in next(iter(sealed)).text
    assert len(of_class(sealed, "relay")) == 1


def test_everything_lies_within_the_frame():
    root = drawn()
    *_, width, height = map(float, root.get("viewBox").split())
    for node in root.iter():
        assert 0 <= float(node.get("x", node.get("x2", 0))) <= width
        assert 0 <= float(node.get("y", node.get("y2", 0))) <= height


def test_a_party_that_only_the_exchanges_know_gets_a_lifeline():
    assert len(of_class(drawn(EVENTS, (SERVER,)), "life")) == len(ALL)


def test_the_description_tells_the_protocol_in_words():
    root = drawn()
    words = next(n.text for n in root if local_name(n) == "desc")
    assert f"training.model: {SERVER} to {', '.join(PARTIES[:3])}" in words
    assert "rounds 0–99, 400 messages" in words
