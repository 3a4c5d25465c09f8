"""The protocol as a sequence diagram: a lifeline for each party, a row for each topic, time running down.

A filled dot sends, an arrowhead receives, a diamond does both, an open ring passes on; a dashed line carries something
that some observer of it holds only as ciphertext. Rounds are collapsed.
"""

from collections.abc import Sequence
from xml.etree import ElementTree as ET

from markupsafe import Markup

from leakledger.reports import svg, text
from leakledger.reports.observations import Transfer
from leakledger.reports.observations import label as label_of

GUTTER, LANE, ROW, HEAD, MARGIN = 210.0, 112.0, 34.0, 40.0, 8.0


def sequence(exchanges: Sequence[Transfer], parties: Sequence[str], name: str) -> Markup:
    """The exchanges in their order as inline SVG. Parties that only `exchanges` know get a lifeline too."""
    everyone = dict.fromkeys((*parties, *(p for e in exchanges for p in (*e.senders, *e.recipients, *e.via))))
    place = {party: GUTTER + LANE * (i + 0.5) for i, party in enumerate(everyone)}
    steps = len(_step_rows(exchanges))
    width, height = GUTTER + LANE * len(place) + MARGIN, HEAD + ROW * len(exchanges) + 22 * steps + MARGIN
    root = svg.element("svg", viewBox=f"0 0 {width:.0f} {height:.0f}", width=width, height=height, class_="sequence")
    _lifelines(root, place, height)
    y = HEAD
    for i, exchange in enumerate(exchanges):
        if i in _step_rows(exchanges):
            y += 22
            _step(root, exchange.step, y - 4, width)
        _row(root, exchange, place, y + ROW / 2)
        y += ROW
    return svg.inline(root, name, "Sequence diagram of the protocol", _words(exchanges))


def _step_rows(exchanges: Sequence[Transfer]) -> set[int]:
    """The rows that begin a step."""
    return {i for i, e in enumerate(exchanges) if i == 0 or e.step != exchanges[i - 1].step}


def _lifelines(root: ET.Element, place: dict[str, float], height: float) -> None:
    for party, x in place.items():
        svg.element("line", root, class_="life", x1=x, x2=x, y1=HEAD, y2=height - MARGIN)
        label = svg.element("text", root, label_of(party, 13), class_="party", x=x, y=HEAD - 14)
        label.set("text-anchor", "middle")
        svg.element("title", label, party)


def _step(root: ET.Element, step: str, y: float, width: float) -> None:
    svg.element("line", root, class_="rule", x1=0, x2=width, y1=y + 5, y2=y + 5)
    svg.element("text", root, text.shortened(text.visible(step), 60), class_="step", x=0, y=y)


def _row(root: ET.Element, e: Transfer, place: dict[str, float], y: float) -> None:
    group = svg.element("g", root, class_="sealed" if e.sealed else "open")
    svg.element("title", group, _sentence(e))
    svg.element("text", group, text.shortened(text.visible(e.topic), 30), class_="topic", x=0, y=y - 1)
    svg.element("text", group, _note(e), class_="note", x=0, y=y + 12)
    ends = [place[p] for p in (*e.senders, *e.recipients, *e.via)]
    svg.element("line", group, class_="wire", x1=min(ends), x2=max(ends), y1=y, y2=y)
    for party in dict.fromkeys((*e.senders, *e.recipients)):
        _mark(group, e, party, place, y)
    for party in e.via:
        svg.element("circle", group, class_="relay", cx=place[party], cy=y, r=4)


def _mark(group: ET.Element, e: Transfer, party: str, place: dict[str, float], y: float) -> None:
    x = place[party]
    if party in e.senders and party in e.recipients:
        svg.element("path", group, class_="mark", d=f"M{x - 6:g},{y:g}l6,-6l6,6l-6,6Z")
    elif party in e.senders:
        svg.element("circle", group, class_="mark", cx=x, cy=y, r=4)
    else:
        towards = 1 if all(place[s] < x for s in e.senders) else -1
        svg.element("path", group, class_="mark", d=f"M{x:g},{y:g}l{-9 * towards},-5v10Z")


def _note(e: Transfer) -> str:
    parts = [text.rounds(e.first_round, e.last_round), text.plural(e.messages, "message")]
    return ", ".join([*parts, "sealed"] if e.sealed else parts)


def _sentence(e: Transfer) -> str:
    via = f" through {', '.join(e.via)}" if e.via else ""
    return f"{e.topic}: {', '.join(e.senders)} to {', '.join(e.recipients)}{via}, {_note(e)}"


def _words(exchanges: Sequence[Transfer]) -> str:
    return "; ".join(_sentence(e) for e in exchanges)
