"""What sketches tell: the sizes of the two classes, and how many records are alone in their bin.

A scaled array is (c - least) / (greatest - least), from -k to k. Where some bin is empty its values are the counts over
the greatest one, and the least whole number that makes all of them whole gives the counts, up to a common factor. Both
arrays together hold all records, whose number is known: that leaves one factor for each, or few. Of several classes
each has two such arrays, its own and that of all others.
"""

from collections.abc import Iterator, Mapping
from itertools import count, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.base import FindingClaim, StatisticClaim
from leakledger.attacks.transcript.feature_exchange.exchanged import tasks
from leakledger.preprocess.messages import FeatureSketch, RecordOrder, SketchPair
from leakledger.preprocess.views import Message, View

Counts = NDArray[np.int64]
TOLERANCE = 2e-6  # relative rounding of float32 sketches
MOST = 300  # the greatest count that such rounding can tell from its neighbours
TRIES = 10**8  # factors and counts that are tried; records of which there are more to try are as many as none


def from_sketches(view: View) -> Iterator[StatisticClaim | FindingClaim]:
    """How often the second of two classes occurs at its holder, and which columns have records alone in a bin."""
    records = {m.payload.records for m in view.readable(RecordOrder)} | {
        len(g["ids"]) for g in view.inputs.values() if "ids" in g
    }
    options = view.public.features.options
    told: set[tuple[str, str]] = set()
    rate_told = False
    for m, device, feature, arrays in _sketches(view):
        if device in view.observers or (device, feature) in told or not records:
            continue
        told.add((device, feature))
        problems = [counts_of(a, options, next(iter(records))) for a in arrays]
        settled = [c for c in problems if c is not None]
        if not settled:
            continue
        counts, several = settled[0], len(problems) > 1
        alone = sum(int((c[:1] == 1).sum()) for c in settled) if several else int((counts == 1).sum())
        least = "at least " if len(settled) < len(problems) else ""
        yield FindingClaim(
            device,
            "lone-records",
            f"the sketch of {feature} has {least}{alone} of {counts.sum()} records alone in a bin of their class",
            (m.sequence,),
        )
        holder = str(options.get("holder", ""))
        if not several and not rate_told and holder not in (*view.observers, view.public.server, ""):
            rate, slack = float(counts[1].sum() / counts.sum()), 0.5 / float(counts.sum())
            yield StatisticClaim(holder, "", "target_rate", rate, rate - slack, rate + slack, (m.sequence,))
            rate_told = True


def _sketches(view: View) -> Iterator[tuple[Message, str, str, NDArray[np.float32]]]:
    """Message, device and feature of each sketch (problems, 2, bins) that the observers received."""
    asked = tasks(view)
    for m in view.received(FeatureSketch):
        task = asked.get(m.round)
        if task is not None:
            place = task.devices.index(m.sender) if m.sender in task.devices else 0
            yield m, task.devices[place], task.features[place], m.payload.arrays
    for m in view.received(SketchPair):
        if m.round in asked:
            task = asked[m.round]
            for device, feature, arrays in zip(task.devices, task.features, m.payload.arrays, strict=True):
                yield m, device, feature, arrays


def counts_of(arrays: NDArray[np.float32], options: Mapping[str, Any], records: int) -> Counts | None:
    """The counts (2, bins) behind two arrays; None where they are not determined."""
    if options.get("sketches") == "counts":
        return np.round(arrays).astype(np.int64)
    k = float(options.get("scale", 0.0))
    parts = [_least_counts((np.asarray(a, np.float64) + k) / (2 * k)) for a in arrays] if k > 0 else [None]
    if any(p is None for p in parts):
        return None
    first, second = (p for p in parts if p is not None)
    one, other = int(first.sum()), int(second.sum())
    bins = arrays.shape[1]
    if records > one * (2 * other + 1) + other or (records // bins + 1) * (records // one) > TRIES:
        return None  # of so many records no factor fits, or two do
    fits = (
        (g, left // other, least)
        for least in range(records // bins + 1)  # in each bin of one array or the other, beyond what scaling shows
        for g in range(1, records // one + 1)
        if (left := records - g * one - bins * least) > 0 and left % other == 0
    )
    found = list(islice(fits, 2))
    if len(found) != 1 or found[0][2]:
        return None
    return np.stack([first * found[0][0], second * found[0][1]])


def _least_counts(shares: NDArray[np.float64]) -> Counts | None:
    """The least whole numbers (bins,) in these proportions, whose least is 0; None for equal shares, and where there
    are none that rounding would tell from others.
    """
    if not (shares.max() > 0.5 > shares.min()):
        return None  # all bins alike: scaled to the middle
    for greatest in count(1):
        if greatest > MOST:
            return None
        whole = np.round(shares * greatest)
        if np.abs(shares * greatest - whole).max() < TOLERANCE * greatest:
            return whole.astype(np.int64)
    return None
