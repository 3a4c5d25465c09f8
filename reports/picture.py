"""Who told whom what, as a picture: parties and arrows, as thick as what passed is large, styled by what it discloses.

An arrow ends where something was read or passed on: what a relay holds only as ciphertext is *sealed*. Arrows of one
pair lie side by side. Names, amounts and disclosures are in every arrow's title and in the table beside the picture.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot, log10
from xml.etree import ElementTree as ET

from markupsafe import Markup

from leakledger.audit.records import Observation
from leakledger.reports import svg, text
from leakledger.reports.observations import how_many
from leakledger.reports.observations import label as label_of

SEALED = "sealed"
UNKNOWN = "unknown"
DISCLOSED = {
    "value": "values in the clear: of rows, or which ones a party holds",
    "aggregate": "figures over several rows: sums, means, extremes",
    "noised": "such figures under noise of a stated kind",
    "size": "how many: rows, values, identifiers",
    "identifier": "numbers or positions that stand for values",
    "update": "gradients, weights and models: functions of rows",
    "share": "secret shares",
    "ciphertext": "encrypted or blinded",
    SEALED: "sealed: passed on unread",
    "control": "how the protocol goes on",
    UNKNOWN: "not recorded",
}
"""What a message discloses, in the order of the legend."""

LANE, TOP, BOTTOM, MARGIN = 150.0, 30.0, 270.0, 70.0
GAP = 9.0  # between the arrows of one pair
SPREAD = 0.62  # of the way to a party at which a lone server sends to it: its box is that wide, and arrows do not cross
THINNEST, THICKEST = 1.2, 6.5
NODE = (104.0, 30.0)


@dataclass(frozen=True)
class Arrow:
    """All that passed from one party to another with one disclosure."""

    sender: str
    recipient: str
    disclosed: str
    messages: int
    size: int
    topics: tuple[str, ...]

    @property
    def sentence(self) -> str:
        about = ", ".join(self.topics)
        amount = f"{text.size(self.size)} in {text.plural(self.messages, 'message')}"
        return f"{self.sender} to {self.recipient}: {amount}, {DISCLOSED[self.disclosed]} ({about})"


@dataclass(frozen=True)
class Sum:
    """One disclosure over the whole federation: what passed, and the kinds of message."""

    disclosed: str
    words: str
    messages: int
    size: int
    topics: tuple[str, ...]


def arrows(observations: Sequence[Observation]) -> list[Arrow]:
    """What reached each party, by who sent it and what it discloses there; in the order of `DISCLOSED`. Of parties
    together also what they told each other.
    """
    found: dict[tuple[str, str, str], list[Observation]] = {}
    for o in observations:
        if o.role != "sent":
            found.setdefault((o.sender, o.observer, disclosed(o)), []).append(o)
    made = [
        Arrow(*key, sum(o.messages for o in of), sum(o.size for o in of), tuple(dict.fromkeys(o.topic for o in of)))
        for key, of in found.items()
        if key[0] != key[1] or how_many(key[:1]) > 1
    ]
    order = list(DISCLOSED)
    return sorted(made, key=lambda a: order.index(a.disclosed))


def disclosed(o: Observation) -> str:
    """What an observation tells whoever made it."""
    if o.form == "ciphertext":
        return SEALED
    return o.discloses if o.discloses in DISCLOSED else UNKNOWN


def sums(made: Sequence[Arrow]) -> list[Sum]:
    """The legend: every disclosure that occurs, with what passed of it."""
    rows = []
    for name, words in DISCLOSED.items():
        if own := [a for a in made if a.disclosed == name]:
            topics = tuple(dict.fromkeys(t for a in own for t in a.topics))
            rows.append(Sum(name, words, sum(a.messages for a in own), sum(a.size for a in own), topics))
    return rows


def picture(made: Sequence[Arrow], parties: Sequence[str], holders: Sequence[str], name: str) -> Markup:
    """The arrows as inline SVG: parties without data of their own (servers) above, the holders of data below."""
    everyone = list(dict.fromkeys((*parties, *(p for a in made for p in (a.sender, a.recipient)))))
    above = [p for p in everyone if p not in set(holders)]
    below = [p for p in everyone if p not in above] or above
    above = above if below is not above else []
    width = max(LANE * max(len(below), len(above)), 2 * LANE) + 2 * MARGIN - LANE / 2
    spread = SPREAD if len(above) == 1 else 0.0
    wide = spread * LANE * (len(below) - 1)
    nodes = [*_row(above, TOP, width, wide), *_row(below, BOTTOM, width)]
    among = any(a.sender in below and a.recipient in below for a in made)
    height = BOTTOM + (150 if among else 40)
    root = svg.element("svg", viewBox=f"0 0 {width:.0f} {height:.0f}", width=width, height=height, class_="flows")
    _draw(root, made, {n.party: n for n in nodes}, spread)
    for node in nodes:
        _node(root, node)
    return svg.inline(root, name, "Who told whom what", _words(made, nodes))


def _words(made: Sequence[Arrow], nodes: Sequence["_Node"]) -> str:
    found = "; ".join(f"{s.disclosed}: {text.size(s.size)}" for s in sums(made)) or "nothing was told"
    who = text.plural(how_many(n.party for n in nodes), "party", "parties")
    return f"{who}; {found}. The table has the kinds of message."


@dataclass(frozen=True)
class _Node:
    """A party on the picture: the middle of its box, and how wide that is."""

    party: str
    x: float
    y: float
    width: float


def _row(parties: Sequence[str], y: float, width: float, wider: float = 0.0) -> list[_Node]:
    step = width / max(len(parties), 1)
    return [_Node(p, step * (i + 0.5), y, NODE[0] + wider) for i, p in enumerate(parties)]


def _draw(root: ET.Element, made: Sequence[Arrow], nodes: dict[str, _Node], spread: float) -> None:
    """Arrows of one pair, in both directions, side by side around the line between the two."""
    pairs: dict[frozenset[str], list[Arrow]] = {}
    for a in made:
        pairs.setdefault(frozenset((a.sender, a.recipient)), []).append(a)
    sizes = [log10(max(a.size, 1)) for a in made]
    low, reach = min(sizes, default=0.0), max(sizes, default=0.0) - min(sizes, default=0.0) or 1.0
    for own in pairs.values():
        ordered = sorted(own, key=lambda a: a.sender != own[0].sender)  # stable: one direction, then the other
        for i, a in enumerate(ordered):
            thick = THINNEST + (THICKEST - THINNEST) * (log10(max(a.size, 1)) - low) / reach
            _arrow(root, a, (nodes[a.sender], nodes[a.recipient]), ((i - (len(ordered) - 1) / 2) * GAP, thick), spread)


def _arrow(root: ET.Element, a: Arrow, ends: tuple[_Node, _Node], shape: tuple[float, float], spread: float) -> None:
    """`shape`: how far to the right of the middle, and how thick. Parties of one row are joined by an arc."""
    group = svg.element("g", root, class_=f"arrow d-{a.disclosed}")
    svg.element("title", group, a.sentence)
    start, end = ends
    if start.y == end.y:
        _head(group, _arc(group, (start.x, start.y), (end.x, end.y), shape), shape[1])
        return
    down = 1 if end.y > start.y else -1
    upper, lower = (start, end) if down > 0 else (end, start)
    port = upper.x + spread * (lower.x - upper.x) + shape[0]
    xs = (port, lower.x + shape[0]) if down > 0 else (lower.x + shape[0], port)
    ys = (start.y + down * (NODE[1] / 2 + 3), end.y - down * (NODE[1] / 2 + 7))
    line = svg.element("path", group, class_="wire", d=f"M{xs[0]:.1f},{ys[0]:.1f}L{xs[1]:.1f},{ys[1]:.1f}")
    line.set("stroke-width", f"{shape[1]:.2f}")
    length = hypot(xs[1] - xs[0], ys[1] - ys[0])
    _head(group, (xs[1], ys[1], (xs[1] - xs[0]) / length, (ys[1] - ys[0]) / length), shape[1])


def _arc(
    group: ET.Element, start: tuple[float, float], end: tuple[float, float], shape: tuple[float, float]
) -> tuple[float, float, float, float]:
    offset, thick = shape
    y = start[1] + NODE[1] / 2 + 3
    shift = 12 if end[0] > start[0] else -12
    x1, x2 = start[0] + shift + offset / 2, end[0] - shift + offset / 2
    deep = y + min(28 + 0.16 * abs(x2 - x1) + abs(offset) + (14 if shift > 0 else 0), 120)
    line = svg.element(
        "path", group, class_="wire", d=f"M{x1:.1f},{y:.1f}Q{(x1 + x2) / 2:.1f},{deep:.1f} {x2:.1f},{y:.1f}"
    )
    line.set("stroke-width", f"{thick:.2f}")
    dx, dy = x2 - (x1 + x2) / 2, y - deep
    length = hypot(dx, dy) or 1.0
    return x2, y, dx / length, dy / length


def _head(group: ET.Element, head: tuple[float, float, float, float], thick: float) -> None:
    """A triangle at the end, wider than the line."""
    x, y, dx, dy = head
    long, wide = 7 + thick, 3 + thick / 1.6
    tip = f"{x + dx * 4:.1f},{y + dy * 4:.1f}"
    back = x + dx * (4 - long), y + dy * (4 - long)
    left, right = (f"{back[0] + s * -dy * wide:.1f},{back[1] + s * dx * wide:.1f}" for s in (1, -1))
    svg.element("path", group, class_="head", d=f"M{tip}L{left}L{right}Z")


def _node(root: ET.Element, node: _Node) -> None:
    group = svg.element("g", root, class_="node")
    svg.element("title", group, node.party)
    height = NODE[1]
    svg.element("rect", group, x=node.x - node.width / 2, y=node.y - height / 2, width=node.width, height=height, rx=6)
    label = svg.element("text", group, label_of(node.party, 14), x=node.x, y=node.y + 4.5)
    label.set("text-anchor", "middle")
