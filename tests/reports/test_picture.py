import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from leakledger.audit.records import Observation
from leakledger.preprocess.messages.base import Disclosure
from leakledger.reports.observations import exchanges, folded, parties
from leakledger.reports.picture import DISCLOSED, SEALED, UNKNOWN, arrows, disclosed, picture, sums
from leakledger.reports.sequence import sequence
from tests.reports.example import PARTIES, SERVER, down, observations, peers, setting, up

ROWS = observations(setting(1))
SVG = "{http://www.w3.org/2000/svg}"


def drawn(rows, parties=(SERVER, *PARTIES), holders=PARTIES):
    return ET.fromstring(str(picture(arrows(rows), parties, holders, "p")))


def test_every_disclosure_that_a_message_can_have_is_drawn_in_words():
    assert {str(d) for d in Disclosure} | {SEALED, UNKNOWN} == set(DISCLOSED)


def test_what_was_sent_is_counted_where_it_arrives_and_once():
    rows = [replace(o, discloses="value") for o in up("dictionary", "encode", "texts", 100)]
    made = arrows(rows)
    assert {(a.sender, a.recipient, a.size, a.messages) for a in made} == {(p, SERVER, 100, 1) for p in PARTIES}
    assert [(s.disclosed, s.size, s.messages) for s in sums(made)] == [("value", 400, 4)]


def test_what_a_relay_holds_as_ciphertext_is_sealed_and_what_it_reads_is_not():
    rows = [replace(o, discloses="share") for o in peers("shares", "sum")]
    assert {a.disclosed for a in arrows(rows) if a.recipient == SERVER} == {SEALED}
    assert {a.disclosed for a in arrows(rows) if a.recipient != SERVER} == {"share"}
    opened = [replace(o, form="plaintext") for o in rows]
    assert {a.disclosed for a in arrows(opened)} == {"share"}


@pytest.mark.parametrize("kind", ["", "of a later version"])
def test_a_disclosure_that_is_not_known_is_said_to_be_unknown(kind):
    assert disclosed(replace(ROWS[0], form="plaintext", discloses=kind)) == UNKNOWN


def test_every_arrow_and_every_party_is_drawn_with_its_name():
    root, made = drawn(ROWS), arrows(ROWS)
    titles = [t.text for g in root.iter(f"{SVG}g") for t in g.findall(f"{SVG}title")]
    assert len(titles) == len(made) + 1 + len(PARTIES)
    assert all(a.sentence.replace("\u202e", "⟨U+202E⟩") in titles for a in made)


def test_what_is_larger_is_drawn_thicker():
    rows = [*up("small", "a", "x", 10), *down("large", "a", "x", 10_000_000)]
    root = drawn(rows)
    width = {
        g.find(f"{SVG}title").text.startswith(SERVER): float(g.find(f"{SVG}path").get("stroke-width"))
        for g in root.iter(f"{SVG}g")
        if "arrow" in g.get("class", "")
    }
    assert width[True] > 3 * width[False]


def test_parties_without_a_server_are_drawn_too():
    rows = [o for o in peers("shares", "sum") if o.observer != SERVER]
    root = drawn(rows, PARTIES)
    assert len([g for g in root.iter(f"{SVG}g") if g.get("class") == "node"]) == len(PARTIES)
    assert drawn([], ()) is not None


def test_nothing_is_drawn_outside_the_picture():
    root = drawn(ROWS)
    width, height = map(float, root.get("viewBox").split()[2:])
    for rect in root.iter(f"{SVG}rect"):
        x, y, w, h = (float(rect.get(k)) for k in ("x", "y", "width", "height"))
        assert x >= 0
        assert y >= 0
        assert x + w <= width
        assert y + h <= height


def test_parties_together_are_drawn_as_so_many_and_not_by_the_first_name_cut_short():
    names = [f"The hospital of town {i}" for i in range(12)]
    sent = [Observation(p, "sum", "scale", p, "sent", "plaintext", "float64[2]", 1, 10, 0, 0) for p in names]
    rows = folded([*sent, *(replace(o, observer=SERVER, role="received") for o in sent)], names)
    flows = drawn(rows, parties(rows, names), names)
    assert flows.find(f"{SVG}desc").text.startswith("13 parties")
    for image in (flows, ET.fromstring(str(sequence(exchanges(rows), parties(rows, names), "s")))):
        assert {SERVER, "12 parties"} <= {label.text for label in image.iter(f"{SVG}text")}


def test_what_parties_together_tell_each_other_is_drawn_and_counted():
    """Twelve clients that passed values around a ring in the clear: "nothing was told"."""
    names = [f"P{i}" for i in range(12)]
    rows = []
    for sender, recipient in zip(names, [*names[1:], names[0]], strict=True):
        sent = Observation(sender, "values.ring", "encode", sender, "sent", "plaintext", "str[2]", 1, 10, 0, 0)
        rows += [sent, replace(sent, observer=recipient, role="received", discloses="value")]
    rows = folded(rows, names)
    (told,) = arrows(rows)
    assert (told.disclosed, told.messages, told.size) == ("value", 12, 120)
    (wire,) = (e for e in drawn(rows, parties(rows, names), names).iter(f"{SVG}path") if e.get("class") == "wire")
    begin, _, end = re.findall(r"[-\d.]+,[-\d.]+", wire.get("d"))
    assert begin != end
