"""What a set intersection of two parties tells its receiver: which of its values the sender holds, and their numbers.

From `dh-psi`: the receiver unblinds the answer (`oprf`) and finds its elements' tags in the sender's table; the rest of
the sender's values it does not see. A label is the number that the ring gave to the sender's value. The sender numbers
its values of a feature in order, so between two labels a < b lie exactly b - a - 1 of its values that the receiver does
not hold, and they lie between the two in order too ("ranks" below).

Exact for the receiver's own values: shared ones score 1, others 0. A tag that is in the table proves its value: the
sender cannot have made it of another.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from types import MappingProxyType

from nacl.exceptions import CryptoError
from nacl.secret import SecretBox

from leakledger.attacks.observed.own_rows import Counts, own_counts
from leakledger.attacks.observed.values import numbering
from leakledger.attacks.transcript.holdings.finding import Finding
from leakledger.attacks.transcript.holdings.numbers import known_ranges
from leakledger.attacks.transcript.holdings.oprf import element, find_scalar, hashed, points, unblinded
from leakledger.preprocess.messages import DhAnswer, DhRequest
from leakledger.preprocess.views import Message, View

TAG, LABEL = 32, 8
ENTRY = TAG + LABEL + SecretBox.MACBYTES
NONCE = bytes(SecretBox.NONCE_SIZE)

DOUBT = 0.001

Labels = Mapping[str, Mapping[str, int]]  # feature -> value -> the sender's number
Elements = tuple[tuple[bytes, str, str], ...]  # own elements: element, feature, value


@dataclass(frozen=True)
class Intersection:
    """The sender's labels of those of the receiver's `own` values that it holds too, and the messages behind them."""

    sender: str
    labels: Labels = field(repr=False)
    own: Counts = field(repr=False)
    behind: tuple[Message, ...] = field(repr=False)


def from_pairs(view: View, candidates: Mapping[str, tuple[str, ...]]) -> Iterator[Finding]:
    """The intersections of every observer with every party outside."""
    ranges = known_ranges(view)
    for one in labels_of_pairs(view, candidates):
        yield from told_of(view, one, candidates, ranges.get(one.sender, {}))


def labels_of_pairs(view: View, features: Collection[str]) -> Iterator[Intersection]:
    """What every observer finds of the values of some features at every party outside."""
    for receiver, counts in own_counts(view).items():
        elements = tuple((element(f, v), f, v) for f, held in counts.items() for v in held if f in features)
        asked = {m.recipient: m for m in view.on(DhRequest, sender=receiver) if m.content is not None}
        scalar = _scalar(view, receiver, elements, asked)
        for m in view.on(DhAnswer, recipient=receiver):
            if scalar is None or m.sender in view.observers or m.sender not in asked or m.content is None:
                continue
            labels = _labels(scalar, elements, asked[m.sender], m)
            if labels is not None:
                yield Intersection(m.sender, labels, counts, (asked[m.sender], m))


def told_of(
    view: View,
    one: Intersection,
    candidates: Mapping[str, tuple[str, ...]],
    ranges: Mapping[str, tuple[int, int]],
) -> Iterator[Finding]:
    """What the sender's labels of the receiver's values tell of the sender; `ranges` of its numbers, if known."""
    evidence = frozenset(m.sequence for m in one.behind)
    for f, shared in one.labels.items():
        scores = {v: float(v in shared) for v in one.own[f]}
        others = [v for v in candidates[f] if v not in one.own[f]]
        scores |= between_labels(shared, others, numbering(view, f, candidates[f]), ranges.get(f))
        yield Finding(one.sender, f, scores, {}, evidence, frozenset(shared))


def _scalar(view: View, receiver: str, elements: Elements, asked: Mapping[str, Message]) -> bytes | None:
    """The observer's blinding scalar; None where its coins or its request are missing or do not fit."""
    if not elements or not asked:
        return None
    try:
        images = points(next(iter(asked.values())).payload.points.value)
    except ValueError:
        return None
    return find_scalar(view.coins.get(receiver), hashed(elements[0][0]), tuple(images))


@lru_cache(1 << 10)
def _labels(scalar: bytes, elements: Elements, asked: Message, answer: Message) -> Labels | None:
    """The labels of shared values; None where the messages do not fit each other.

    Results are kept, since coalitions share members.
    """
    try:
        sent, table = answer.payload, answer.payload.table.value
        outputs = unblinded(scalar, tuple(x for x, _, _ in elements), asked.payload.points.value, sent.evaluated.value)
        rows = [table[i : i + ENTRY] for i in range(0, len(table), ENTRY)]
        tags = {row[:TAG]: row[TAG:] for row in rows}
        labels: dict[str, dict[str, int]] = {f: {} for _, f, _ in elements}
        for x, feature, value in elements:
            if x in outputs and (boxed := tags.get(outputs[x][:TAG])) is not None:
                opened = SecretBox(outputs[x][TAG:]).decrypt(boxed, NONCE)
                labels[feature][value] = int.from_bytes(opened, "big")
        return MappingProxyType({f: MappingProxyType(shared) for f, shared in labels.items()})
    except (ValueError, KeyError, TypeError, RuntimeError, CryptoError):
        return None


def between_labels(
    shared: Mapping[str, int],
    others: Sequence[str],
    order: Sequence[str],
    ends: tuple[int, int] | None = None,
    unlabelled: Iterable[str] = (),
) -> dict[str, float]:
    """Ranks: of the candidates that lie between two neighbouring shared values, the labels say how many are held.

    `order`: all candidates as a party numbers them. `ends`: the first number of the sender's range and the one after
    its last, where known. `unlabelled`: values that are held too, under a number that is not told. Where labels do not
    rise in that order, nothing is said. A rank is no certainty: the dictionary of candidates may be incomplete.
    """
    place = {v: k for k, v in enumerate(order)}
    ordered = sorted((place[v], label) for v, label in shared.items())
    if ends is not None:
        ordered = [(-1, ends[0] - 1), *ordered, (len(order), ends[1])]
    if any(b <= a for (_, a), (_, b) in pairwise(ordered)):
        return {}
    scores: dict[str, float] = {}
    known = [place[v] for v in unlabelled]
    for (left, a), (right, b) in pairwise(ordered):
        inside = [v for v in others if left < place[v] < right]
        left_over = b - a - 1 - sum(left < k < right for k in known)
        if inside and 0 <= left_over <= len(inside):
            scores |= dict.fromkeys(inside, min(max(left_over / len(inside), DOUBT), 1 - DOUBT))
    return scores
