"""Which number an observer ended with for each of its own values.

Numbers are not in any message: they follow from what a party computes by itself. A view has them in the party's own
encoded rows (`view.inputs[party]["encoded"]`), which each party holds.

Under a set intersection the lowest number wins, so an own value whose number is below the own range is shared with an
earlier party, and no party before the one whose range has the number holds it; one that kept its number is held by no
earlier party. Whose range a number lies in is known where both ends are (`observed.ring`); else
one party of the segment holds the value at least, and each of them with the prior's chance given that. This is all that
`apsi` leaves in a view without its decryption key, and what the other intersections leave without coins.
"""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.observed.ring import Boundaries, Unreadable, read_ring
from leakledger.attacks.transcript.holdings.finding import Finding, exactly
from leakledger.preprocess.messages import AllUnusedIds
from leakledger.preprocess.views import CategoricalBlock, View

SHARED_NUMBERS = ("dh-psi", "apsi", "otmp-psi")


def own_numbers(view: View, block: CategoricalBlock) -> dict[int, str]:
    """Number -> value, of all observers with a table and encoded rows."""
    found: dict[int, str] = {}
    for party in view.inputs:
        found.update({number: value for value, number in numbers_of(view, party, block).items()})
    return found


def numbers_of(view: View, party: str, block: CategoricalBlock) -> dict[str, int]:
    """Value -> number at one observer; empty without its encoded rows, or where they do not fit its table."""
    plain = view.inputs.get(party)
    if not isinstance(plain, Mapping) or "encoded" not in plain or _scaled_by_itself(view, block):
        return {}
    rows = np.asarray(plain["encoded"])
    column = plain["columns"].get(block.feature)
    if (
        not isinstance(column, Mapping)
        or len(rows) != len(column["codes"])
        or rows.shape[1] < block.start + block.width
    ):
        return {}
    numbers, told = _numbers(block, unscaled(block, rows[:, block.start : block.start + block.width]))
    codes = np.asarray(column["codes"])
    certain = told & (codes >= 0)
    return {column["values"][c]: int(n) for c, n in zip(codes[certain], numbers[certain], strict=True)}


def _scaled_by_itself(view: View, block: CategoricalBlock) -> bool:
    """Whether a column of numbers was scaled by figures that are not public: another number may have its value then."""
    scaled = view.public.scaler.options.get("columns") == "all"
    return block.codes is not None and block.shift is None and scaled


def _numbers(block: CategoricalBlock, rows: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """(n,) the number in each row, one-hot or as it is, and whether there is one; no other codes have numbers."""
    if block.codes is None:
        return rows.argmax(1), rows.max(1) > 0.5
    numbers = np.rint(rows[:, 0]).astype(np.int64)
    in_range = (numbers >= 0) & (numbers < block.size)
    return numbers, in_range & np.array_equal(block.codes, np.arange(block.size)[:, None])


def unscaled(block: CategoricalBlock, columns: NDArray[np.floating]) -> NDArray[np.float64]:
    """Columns as they were before scaling."""
    plain = np.asarray(columns, np.float64)
    if block.shift is None or block.scale is None:
        return plain
    raw: NDArray[np.float64] = plain * np.asarray(block.scale) + np.asarray(block.shift)
    return raw


def known_ranges(view: View) -> dict[str, dict[str, tuple[int, int]]]:
    """Party -> feature -> the first of its numbers and the one after the last, where both ends are known."""
    try:
        bounds = read_ring(view, None)
    except Unreadable:
        return {}
    found = {}
    for first, last in bounds.segments():
        if last == first + 1:
            low, high = bounds.ends[first].astype(int).tolist(), bounds.ends[last].astype(int).tolist()
            found[bounds.ring[first]] = dict(zip(bounds.features, zip(low, high, strict=True), strict=True))
    return found


def from_numbers(view: View, prior: Mapping[str, Mapping[str, float]]) -> Iterator[Finding]:
    """What the observers' final numbers tell of the parties before them in the ring; `prior`: feature -> value -> the
    chance that a party holds it.
    """
    if view.public.encoder.name not in SHARED_NUMBERS or view.public.layout is None:
        return
    try:
        bounds = read_ring(view, None)
    except Unreadable:
        return
    announced = (m.payload.numbers for m in view.readable(AllUnusedIds))
    dropped: Mapping[str, NDArray[np.int64]] = next(announced, {})
    for party in sorted(set(view.inputs) & set(bounds.ring)):
        for block in view.public.layout.categorical:
            if block.feature in bounds.features:
                numbers = numbers_of(view, party, block)
                allotted = {v: _allotted(n, dropped.get(block.feature)) for v, n in numbers.items()}
                before = prior.get(block.feature, {})
                yield from _lowered(view, bounds, party, block.feature, allotted, before)


def _allotted(number: int, dropped: NDArray[np.int64] | None) -> int:
    """The number as the ring gave it, before unused ones were dropped."""
    for gone in () if dropped is None else np.sort(dropped):
        number += gone <= number
    return int(number)


def _lowered(
    view: View,
    bounds: Boundaries,
    party: str,
    feature: str,
    numbers: Mapping[str, int],
    prior: Mapping[str, float],
) -> Iterator[Finding]:
    place, k = bounds.ring.index(party), bounds.features.index(feature)
    segments = [(a, b) for a, b in bounds.segments() if b <= place]
    if not numbers or (segments[-1][1] if segments else 0) != place:
        return
    scores: dict[str, dict[str, float]] = {p: {} for p in bounds.ring[:place] if p not in view.observers}
    for value, number in numbers.items():
        home = next((s for s in segments if bounds.ends[s[0], k] <= number < bounds.ends[s[1], k]), None)
        for i, earlier in enumerate(bounds.ring[:place]):
            if earlier not in scores:
                continue
            if home is None or i < home[0]:
                scores[earlier][value] = 0.0
            elif i < home[1]:
                scores[earlier][value] = held_by_some(prior.get(value, 0.5), home[1] - home[0])
    evidence = frozenset(bounds.evidence.values())
    for earlier, found in scores.items():
        if found:
            yield exactly(earlier, feature, found, evidence)


def held_by_some(prior: float, parties: int) -> float:
    """The chance that a party holds a value, where each of some parties does with chance `prior` and one of them does
    for certain.
    """
    return 1.0 if parties == 1 else prior / (1 - (1 - prior) ** parties)  # of one party it is certain, not rounded
