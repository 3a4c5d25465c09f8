"""Tables of noised counts: how likely a declared value is held, by the likelihood of its count under the stated noise.

A value that is not held has a count of noise alone; one that is has c rows more, c from 1 to what the party may have,
every order of magnitude alike. If either is as likely before the count,

    P(held | x) = L1 / (L0 + L1),    L0 = f(x),    L1 = mean over c of f(x - c),

f the density of the noise that the public facts state (for a table by classes, of the sum of its cells). But what share
of a feature's declared values parties hold is not known: any may be, all alike, the same at all parties, and the counts
of all of them say which. Never certain.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.observed.noised import (
    MOST_ROWS,
    TABLES,
    log_density,
    noise_on,
    released,
    row_numbers,
    rows_by_value,
)
from leakledger.attacks.transcript.holdings.finding import Finding
from leakledger.preprocess.views import View

Floats = NDArray[np.float64]
SURE = 1e-6  # chances stay as far from 0 and 1
SHARES = (np.arange(40) + 0.5) / 40  # of a feature's declared values that a party may hold


def from_noise(view: View) -> Iterator[Finding]:
    """What noised tables tell of each outside party."""
    found = list(even_findings(view))
    weights = share_weights(found)
    for f in found:
        chances = weights[f.feature] @ given_shares(np.array(list(f.scores.values())))
        yield replace(f, scores=dict(zip(f.scores, chances.tolist(), strict=True)))


def even_findings(view: View) -> Iterator[Finding]:
    """The chances if either is as likely beforehand."""
    for kind, total in TABLES:
        known = noise_on(view, kind)
        for told in released(view, kind, total) if known else ():
            for feature, cells in told.values["counts"].items():
                noise = known["table", feature]
                rows = rows_by_value(cells, noise)
                chances = held_given(rows.sum(axis=1), noise, rows.shape[1])
                scores = dict(zip(noise["values"], chances.tolist(), strict=True))
                counts = dict(zip(noise["values"], np.maximum(rows.sum(axis=1), 0.0).tolist(), strict=True))
                yield Finding(told.party, feature, scores, counts, frozenset(told.evidence))


def share_weights(found: Sequence[Finding]) -> dict[str, Floats]:
    """Feature -> (shares,) how likely each share of its values held is, by all parties' even chances."""
    return {name: _weights([f for f in found if f.feature == name]) for name in {f.feature for f in found}}


def _weights(found: Sequence[Finding]) -> Floats:
    """(shares,) the same of one feature."""
    even = np.concatenate([list(f.scores.values()) for f in found])
    likelihood = np.log(np.multiply.outer(SHARES, even) + np.multiply.outer(1 - SHARES, 1 - even)).sum(axis=1)
    weights: Floats = np.exp(likelihood - likelihood.max())
    weights /= weights.sum()
    return weights


def given_shares(even: Floats) -> Floats:
    """(shares, k) the chances under each share, from even ones (k,)."""
    held = np.multiply.outer(SHARES, even)
    chances: Floats = held / (held + np.multiply.outer(1 - SHARES, 1 - even))
    return chances


def held_given(rows: Floats, noise: Mapping[str, Any], cells: int) -> Floats:
    """(k,) the chance that each value is held, given its noised rows (k,), each the sum of so many cells."""
    most = float(np.clip(rows.max(initial=1.0) * 2, 2.0, MOST_ROWS))
    held, weight = row_numbers(most)
    absent = log_density(rows, noise, cells)
    each = log_density(rows[:, None] - held, noise, cells) + np.log(weight)
    present = np.logaddexp.reduce(each, axis=1)
    chance: Floats = 1 / (1 + np.exp(np.clip(absent - present, -50, 50)))
    return np.clip(chance, SURE, 1 - SURE)
