"""How far figures that were computed on ciphertexts may lie from the true ones; in the clear they are true to float64.

Sizes follow from what is public. A comparison is off by what its polynomial leaves. A decrypted quotient is under
smudging: sums of many draws, so that six deviations hold it but for one in 10^9. It exceeds the noise that it hides by
2^hiding_bits, and that noise grows with the parties, with the range of what was inverted, and with a smaller ring.
"""

from collections.abc import Iterator, Sequence
from math import ceil, log2

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.views import View

Floats = NDArray[np.float64]
COMPARED = ("ppf-minmax", "ppf-robust")  # scalers whose extremes come of comparisons
COMPARISON = 2 * 8e-5  # what one of them is off by, with noise, in halves of the declared range
DIVIDED = "ppf-zscore"
# By ring: log2 of a deviation of a quotient for each party, at no hiding bits and 2^20 rows.
SMUDGED = {14: -70, 15: -90}
SMALLEST_RING, MOST_HIDING, LARGEST_RANGE = 14, 64, 30  # where an option is not told: the most that it may be off by
CERTAIN = 6  # deviations


def extremes_within(view: View, feature: str) -> float:
    """How far a published extreme may lie from the true one: under comparisons, a part of the declared range."""
    if view.public.scaler.name not in COMPARED:
        return 0.0
    return compared_within(len(view.public.clients)) * next(_halves(view, [feature]))


def compared_within(clients: int) -> float:
    """How far from the extreme over clients a tree of comparisons may end, in halves of the declared range."""
    return (ceil(log2(clients)) + 1) * COMPARISON


def moments_within(view: View, features: Sequence[str], std: Floats) -> tuple[Floats, Floats]:
    """(features,) how far published means may lie from the true ones, and the squares of the published deviations
    `std` from the mean squared distances to the published means.
    """
    if view.public.scaler.name != DIVIDED:
        return np.zeros(len(features)), np.zeros(len(features))
    halves = np.array(list(_halves(view, features)))
    options = view.public.scaler.options
    off = CERTAIN * smudged(
        len(view.public.clients),
        options.get("log_degree", SMALLEST_RING),
        options.get("inverse_range", LARGEST_RANGE),
        options.get("hiding_bits", MOST_HIDING),
    )
    # squares are on a scale of whole ranges; and a variance within six deviations of 0 is told as 0
    return off * halves, off * (2 * halves) ** 2 * np.where(std == 0, 2, 1)


def smudged(clients: int, log_degree: int, inverse_range: int, hiding_bits: int) -> float:
    """At least the deviation of a decrypted quotient, and not much more."""
    return float(clients * 2.0 ** (SMUDGED[log_degree] + (inverse_range - 20) / 2 + hiding_bits))


def _halves(view: View, features: Sequence[str]) -> Iterator[float]:
    """Half the declared range of each feature; infinite of a range that nobody knows."""
    blocks = {b.feature: b for b in view.public.layout.numeric} if view.public.layout else {}
    for feature in features:
        b = blocks.get(feature)
        known = b is not None and b.low is not None and b.high is not None
        yield (b.high - b.low) / 2 if known else float("inf")  # type: ignore[union-attr, operator]
