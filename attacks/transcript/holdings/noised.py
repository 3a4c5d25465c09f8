"""Tables of noised counts: how likely a declared value is held, by the likelihood of its count under the stated noise.

A value that is not held has a count of noise alone; one that is has c rows more, c from 1 to what the party may have,
every order of magnitude alike. If either is as likely before the count,

    P(held | x) = L1 / (L0 + L1),    L0 = f(x),    L1 = mean over c of f(x - c),

f the density of the noise that the public facts state (for a table by classes, of the sum of its cells). Every row has
one of the values, so that the number n of rows, where anything else tells it (other tables, a count, updates and their
sums, evaluations), less the counts of the other values is c under noise of its own, and counts as a second observation:

    L(c) = f(x - c) g(n - sum of the others - c),    g of k - 1 such noises, wider by that of n

But what share of a feature's declared values parties hold is not known: any may be, all alike, the same at all parties,
and the counts of all of them say which. Never certain.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.base import StatisticClaim
from leakledger.attacks.observed.evaluated import EVALUATED
from leakledger.attacks.observed.noised import (
    LEAST,
    MOST_ROWS,
    TABLES,
    Counted,
    log_density,
    noise_on,
    released,
    row_numbers,
    rows_but_for,
    rows_by_value,
    told_of_rows,
)
from leakledger.attacks.observed.stated import columns, moments
from leakledger.attacks.observed.trained_rows import counted_rows
from leakledger.attacks.transcript.holdings.finding import Finding
from leakledger.preprocess.messages import NoisedMoments, NoisedMomentTotals
from leakledger.preprocess.views import View

Floats = NDArray[np.float64]
SURE = 1e-6  # chances stay as far from 0 and 1
SHARES = (np.arange(40) + 0.5) / 40  # of a feature's declared values that a party may hold
LEVEL = 0.9  # of intervals, which nothing here asks for
COUNTING = (*EVALUATED, NoisedMoments, NoisedMomentTotals)
"""Of these only row counts are read."""


def from_noise(view: View) -> Iterator[Finding]:
    """What noised tables tell of each outside party."""
    found = list(even_findings(view))
    weights = share_weights(found)
    for f in found:
        chances = weights[f.feature] @ given_shares(np.array(list(f.scores.values())))
        yield replace(f, scores=dict(zip(f.scores, chances.tolist(), strict=True)))


def even_findings(view: View) -> Iterator[Finding]:
    """The chances if either is as likely beforehand."""
    noised, exact = told_of_rows(view, LEVEL), _stated_rows(view)
    for kind, total in TABLES:
        known = noise_on(view, kind)
        for told in released(view, kind, total) if known else ():
            for feature, cells in told.values["counts"].items():
                noise = known["table", feature]
                rows = rows_by_value(cells, noise)
                all_rows = rows_but_for((kind, feature), noised[told.party], exact.get(told.party), LEVEL)
                chances = held_given(rows.sum(axis=1), noise, rows.shape[1], all_rows)
                scores = dict(zip(noise["values"], chances.tolist(), strict=True))
                counts = dict(zip(noise["values"], np.maximum(rows.sum(axis=1), 0.0).tolist(), strict=True))
                evidence = frozenset(told.evidence) | frozenset(all_rows.evidence if all_rows else ())
                yield Finding(told.party, feature, scores, counts, evidence)


def _stated_rows(view: View) -> dict[str, StatisticClaim]:
    """Party -> its number of rows, as messages without noise tell it; none where no table is noised."""
    if not view.public.statistics:
        return {}
    return {c.party: c for c in counted_rows(view, [*moments(view), *columns(view)])}


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


def held_given(rows: Floats, noise: Mapping[str, Any], cells: int, all_rows: Counted | None = None) -> Floats:
    """(k,) the chance that each value is held, given its noised rows (k,), each the sum of so many cells, and the
    number of all rows, where that is told otherwise.
    """
    most = float(np.clip(rows.max(initial=1.0) * 2, 2.0, MOST_ROWS))
    held, weight = row_numbers(most)
    absent, each = log_density(rows, noise, cells), log_density(rows[:, None] - held, noise, cells)
    if all_rows is not None:
        left = all_rows.rows - (rows.sum() - rows)
        others, beside = cells * (len(rows) - 1), max(all_rows.spread, LEAST)
        absent = absent + log_density(left, noise, others, beside)
        each = each + log_density(left[:, None] - held, noise, others, beside)
    present = np.logaddexp.reduce(each + np.log(weight), axis=1)
    chance: Floats = 1 / (1 + np.exp(np.clip(absent - present, -50, 50)))
    return np.clip(chance, SURE, 1 - SURE)
