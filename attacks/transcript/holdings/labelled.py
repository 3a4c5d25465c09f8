"""What a labelled intersection under encryption tells its receiver: which of its values the sender holds, and numbers.

From `apsi` (Cong et al. 2021; the choices are those of "Privacy-preserving tabular data transformation", section 7.1).
An honest receiver decrypts the answer, so an observer who was one can: its blinding scalar and, behind it, the seed of
its key are in its key stream (`oprf`). From F(k, x) of an own element x follow

    four numbers of 20 bits, three bins out of 1024 for each row of the answer, and a pad of ten bytes,

and the bin in which the receiver asked for x, since it places its elements one after the other (cuckoo hashing). Where
the first of two ciphertexts is 0 in the bin's four slots, the sender holds x, and the second has the sender's number
under the pad. What is learnt is what `pairwise` learns from `dh-psi`, and no more: other places are random.

Exact for the receiver's own values, as messages of an honest sender are: four slots are 0 by chance once in 2^84.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.observed.own_rows import own_counts
from leakledger.attacks.seal import BatchOpener
from leakledger.attacks.transcript.holdings.finding import Finding
from leakledger.attacks.transcript.holdings.numbers import known_ranges
from leakledger.attacks.transcript.holdings.oprf import element, find_place, hashed, points, stream_at, unblinded
from leakledger.attacks.transcript.holdings.pairwise import Elements, Intersection, Labels, told_of
from leakledger.preprocess.messages import ApsiAnswer, ApsiEvaluation, ApsiRequest
from leakledger.preprocess.views import Message, View

FELTS, BITS, HASHES, BINS = 4, 20, 3, 1024
ITEM_BYTES, SEED_BYTES, NUMBER_BYTES = 10, 64, 8


@dataclass(frozen=True)
class Item:
    """What F(k, x) makes of an element: its bins and the pad of its label."""

    bins: tuple[int, ...]
    pad: bytes = field(repr=False)

    @classmethod
    def of(cls, out: bytes, bins: int) -> "Item":
        places = (int.from_bytes(out[ITEM_BYTES + 8 * h : ITEM_BYTES + 8 * h + 8], "big") for h in range(HASHES))
        end = ITEM_BYTES + 8 * HASHES
        return cls(tuple(dict.fromkeys(p % bins for p in places)), out[end : end + ITEM_BYTES])


def from_labelled(view: View, candidates: Mapping[str, tuple[str, ...]]) -> Iterator[Finding]:
    """The intersections of every observer with every party outside."""
    ranges = known_ranges(view)
    for one in labels_of_answers(view, candidates):
        yield from told_of(view, one, candidates, ranges.get(one.sender, {}))


def labels_of_answers(view: View, features: Collection[str]) -> Iterator[Intersection]:
    """What every observer finds of the values of some features at every party outside."""
    for receiver, counts in own_counts(view).items():
        elements = tuple((element(f, v), f, v) for f, held in counts.items() for v in held if f in features)
        asked = {m.recipient: m for m in view.on(ApsiRequest, sender=receiver) if m.content is not None}
        evaluated = {m.sender: m for m in view.on(ApsiEvaluation, recipient=receiver) if m.content is not None}
        for m in view.on(ApsiAnswer, recipient=receiver):
            if m.sender in view.observers or m.content is None or not {m.sender} <= asked.keys() & evaluated.keys():
                continue
            behind = asked[m.sender], evaluated[m.sender], m
            labels = _labels(view.coins.get(receiver), elements, *behind)
            if labels is not None:
                yield Intersection(m.sender, labels, counts, behind)


@lru_cache(1 << 10)
def _labels(
    secret: bytes | None, elements: Elements, asked: Message, evaluated: Message, answer: Message
) -> Labels | None:
    """The labels of shared values; None where the messages do not fit each other, or the coins are missing."""
    try:
        sent = asked.payload.points.value
        place = find_place(secret, hashed(elements[0][0]), tuple(points(sent))) if elements else None
        if secret is None or place is None:
            return None
        scalar, seed = stream_at(secret, place, SEED_BYTES)
        outputs = unblinded(scalar, tuple(x for x, _, _ in elements), sent, evaluated.payload.points.value)
        if len(outputs) < len(elements):
            return None
        names = {x: (f, v) for x, f, v in elements}
        rows = answer.payload.evaluations.value
        if not rows:
            return None
        items = {x: Item.of(out, BINS * len(rows)) for x, out in outputs.items()}  # in the order of the request
        labels: dict[str, dict[str, int]] = {f: {} for _, f, _ in elements}
        for x, number in _opened(BatchOpener(seed), items, rows).items():
            feature, value = names[x]
            labels[feature][value] = number
        return labels
    except (ValueError, KeyError, TypeError, IndexError, RuntimeError):
        return None


def _opened(
    opener: BatchOpener, items: Mapping[bytes, Item], rows: Sequence[Sequence[Sequence[bytes]]]
) -> dict[bytes, int]:
    """Element -> the sender's number, of those that it holds."""
    plain = np.array([[[opener.numbers(part) for part in bundle] for bundle in row] for row in rows])
    slots: NDArray[np.int64] = plain.reshape(*plain.shape[:3], BINS, FELTS)  # rows, bundles, roots and labels
    held = cuckoo(tuple(item.bins for item in items.values()))
    found: dict[bytes, int] = {}
    for place, (x, item) in ((held[i], one) for i, one in enumerate(items.items())):
        for roots, labels in slots[place // BINS, :, :, place % BINS]:  # of each bundle
            if not roots.any() and (number := _number(labels.tolist(), item.pad)) is not None:
                found[x] = number
    return found


def _number(felts: Sequence[int], pad: bytes) -> int | None:
    """The number under the pad; None where there is none."""
    whole = sum(felt << BITS * k for k, felt in enumerate(felts))
    if max(felts) >= 2**BITS:
        return None
    plain = bytes(a ^ b for a, b in zip(whole.to_bytes(ITEM_BYTES, "big"), pad, strict=True))
    return None if any(plain[NUMBER_BYTES:]) else int.from_bytes(plain[:NUMBER_BYTES], "big")


def cuckoo(bins: Sequence[tuple[int, ...]]) -> dict[int, int]:
    """Item -> its bin, of items that are placed in order: each in its first free bin, else behind others that move on
    along the shortest path, breadth first; one without such a way has none.
    """
    held: dict[int, int] = {}  # bin -> item
    for start in range(len(bins)):
        wanted: dict[int, int] = {}  # bin -> the item that wants it
        queue = [start]
        for item in queue:
            new = [b for b in bins[item] if b not in wanted]
            free = next((b for b in new if b not in held), None)
            before = new if free is None else new[: new.index(free) + 1]
            wanted.update(dict.fromkeys(before, item))
            if free is not None:
                break
            queue += [held[b] for b in new]
        home = {item: b for b, item in held.items()}
        place: int | None = free
        while place is not None:
            held[place] = item = wanted[place]
            place = home.get(item)
    return {item: b for b, item in held.items()}
