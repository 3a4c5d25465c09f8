"""Global counts, means and variances by secure sums: what a private z-score needs (eq. 5 of the paper).

Source: "Privacy-preserving tabular data transformation", section 6, eq. 5:

    mean = sum_i mean_i |D_i| / sum_i |D_i|        std = sqrt(sum_i s_i / sum_i |D_i|)

with s_i the sum of squared deviations of party i from the *global* mean (the paper writes sigma_i^2 and divides by the
total count only after summing, so it cannot be a variance). What is shared is mean_i |D_i|, the plain sum; the mu_j of
eq. 6 is read as that product.

Options, each of which changes what is observed:

* `passes` 2, the paper's order: (counts, sums), then, with the mean known, the squared deviations: two secure sums one
  after the other, 4 (n - 1) messages per client. `passes` 1: (counts, sums, sums of squares) at once, 2 (n - 1)
  messages per client. Table 5 of the paper counts 2n - 2 for a z-score (the row of Bytes-Norm), which fits one pass and
  not the text. One pass under proportional parts loses float64 digits where the mean is large against the spread:
  parties refuse a column whose deviation that may put off by more than a thousandth, below about 2e-6 of its mean with
  three of them, be it constant. They learn nothing by it, since they have the totals; that they end tells the server,
  also where nobody publishes, that there is such a column.
* `counts` "once" shares one row count for all features; "per-feature" one for each (the paper runs the protocol per
  feature). Under proportional sharing every further sharing of the same count is one more estimate of it.
* `publish` "everyone": the first client tells all others and the server the result, since by section 8.4 "both the
  server and participants gain access" to mean and deviation. "parties": nobody tells the server; on the open relay it
  can still add up the partial sums that it passes on.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import isqrt, ldexp
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.column_errors import ColumnError
from leakledger.preprocess.crypto.secure_sum import Route, check_clients, secure_sum
from leakledger.preprocess.crypto.sharing import Number, Proportional, Ring, Sharing, Weights
from leakledger.preprocess.federation import At, Federation, Public
from leakledger.preprocess.messages import SECURE_SUMS, Payload
from leakledger.preprocess.options import check_options, option

Scheme = Literal["proportional", "ring"]
Counts = Literal["once", "per-feature"]
Publish = Literal["everyone", "parties"]
NOISE = 2.0**-40  # a deviation below this share of the mean is rounding of the sums
UNSURE = 2.0**-9  # of a variance from one pass: a deviation may be off by half of it


@dataclass(frozen=True)
class SacOptions:
    """Options of every method that sums securely; see `crypto.sharing`, `crypto.secure_sum` and this module's text."""

    sharing: Scheme = option("proportional", help='"ring": uniform parts, which say nothing of the number')
    share_weights: Weights = option("uniform", help="what the random weights of proportional parts are drawn from")
    route: Route = option("relay", help="how parts travel: relayed open, relayed sealed, or from party to party")
    counts: Counts = option("once", help="row counts are shared once, or once per feature")
    passes: Literal[1, 2] = option(2, help="secure sums: 2 (sums, then squared deviations), or all at once")
    publish: Publish = option("everyone", help='"parties": the server is not told mean and deviation')

    def __post_init__(self) -> None:
        check_options(self)

    def scheme(self, ring: Ring | None = None) -> Sharing:
        """The sharing that `sharing` names; over `ring` where the numbers need another one than the default."""
        return Proportional(self.share_weights) if self.sharing == "proportional" else ring or Ring()


@dataclass(frozen=True)
class Summaries:
    """How one party sums its columns, k of them: `rows` of the columns, `sums` (k,) and, around k centres, `squares`
    (k,).
    """

    rows: Callable[[Any], int]
    sums: Callable[[Any], list[Number]]
    squares: Callable[[Any, list[Fraction]], list[Number]]


@dataclass(frozen=True)
class Moments:
    """Of k columns over all parties: how many rows, mean, sum of squared deviations from it; exact fractions."""

    rows: tuple[int, ...]
    means: tuple[Fraction, ...]
    squares: tuple[Fraction, ...]

    def zscore(self, ddof: int = 0) -> dict[str, NDArray[np.float64]]:
        """`mean` and `std` (k,), the latter 0 where nothing but rounding is left of it."""
        mean = [float(m) for m in self.means]
        std = [root(max(s, Fraction(0)) / max(n - ddof, 1)) for s, n in zip(self.squares, self.rows, strict=True)]
        real = [s if s > NOISE * abs(m) else 0.0 for s, m in zip(std, mean, strict=True)]
        return {"mean": np.array(mean, np.float64), "std": np.array(real, np.float64)}


def secure_moments(
    fed: Federation,
    columns: Mapping[str, At[Any]],
    options: SacOptions,
    scheme: Sharing,
    summaries: Summaries,
    method: str,
) -> dict[str, At[Moments]]:
    """At every client, the moments of all clients' columns: the same at all of them.

    `method` names the sums (`messages.sums`): `<method>.mean` and `<method>.variance`, in one pass `<method>.moments`.
    Raises ValueError for fewer than three clients, for a number that is not finite or out of range, when no party holds
    a row, and ColumnError where rounding leaves too little of a deviation from one pass.
    """
    check_clients(columns)
    one = options.passes == 1
    first = {c: fed.local(c, partial(first_sums, summaries, options.counts, one), x) for c, x in columns.items()}
    totals = secure_sum(
        fed, first, scheme, options.route, SECURE_SUMS[f"{method}.moments" if one else f"{method}.mean"]
    )
    read = partial(read_totals, options.counts, one, rounding=scheme.rounding(len(columns)))
    known = {c: fed.local(c, read, t) for c, t in totals.items()}
    if one:
        return known
    squares = {
        c: fed.local(c, lambda x, m: summaries.squares(x, list(m.means)), x, known[c]) for c, x in columns.items()
    }
    deviations = secure_sum(fed, squares, scheme, options.route, SECURE_SUMS[f"{method}.variance"])
    return {c: fed.local(c, with_squares, m, deviations[c]) for c, m in known.items()}


def first_sums(summaries: Summaries, counts: Counts, squares: bool, columns: Any) -> list[Number]:
    """Row count, once or per column; sums; sums of squares where asked for."""
    rows, sums = summaries.rows(columns), summaries.sums(columns)
    around = summaries.squares(columns, [Fraction(0)] * len(sums)) if squares else []
    return [*[rows] * (len(sums) if counts == "per-feature" else 1), *sums, *around]


def read_totals(counts: Counts, squares: bool, totals: list[Fraction], rounding: float) -> Moments:
    """The moments that totals in the order of `first_sums` stand for; without squares, they are 0. `rounding` is
    that of the sharing.
    """
    blocks = 2 if squares else 1
    shared = counts == "once"
    columns = (len(totals) - 1) // blocks if shared else len(totals) // (blocks + 1)
    told = [round(n) for n in totals[: 1 if shared else columns]]
    if columns and min(told) < 1:
        raise ValueError("no party holds a row, so there is no mean; check the training tables")
    rows = told * columns if shared else told
    sums = totals[len(told) : len(told) + columns]
    means = [s / n for s, n in zip(sums, rows, strict=True)]
    around = totals[len(told) + columns :] or [Fraction(0)] * columns
    spread = [q - n * m * m for q, n, m in zip(around, rows, means, strict=True)] if squares else around
    for column, (left, whole) in enumerate(zip(spread, around, strict=True)):
        if left * UNSURE < 3 * Fraction(rounding) * whole:  # that of the squares, and twice that of the mean
            raise ColumnError(
                column,
                "deviates from its mean by too little for one pass of proportional parts, or not at all; set passes = "
                '2 or sharing = "ring", or leave it out',
            )
    return Moments(tuple(rows), tuple(means), tuple(spread))


def with_squares(moments: Moments, squares: list[Fraction]) -> Moments:
    return Moments(moments.rows, moments.means, tuple(squares))


def announce(
    fed: Federation, statistics: Mapping[str, At[dict[str, Any]]], kind: type[Payload]
) -> Public[dict[str, Any]]:
    """What all clients know already, told by the first to everyone: n messages of `kind`, whose fields they are."""
    first = next(iter(statistics))
    told = fed.broadcast(fed.local(first, lambda known: kind(**known), statistics[first]), kind=kind)
    return fed.public(lambda payload: dict(payload.__dict__), told)


def root(square: Fraction) -> float:
    """The square root to float64's precision, also of fractions beyond its range. Raises OverflowError where the root
    itself is beyond.
    """
    shift = (128 - square.numerator.bit_length() + square.denominator.bit_length()) // 2
    up, down = max(2 * shift, 0), max(-2 * shift, 0)
    return ldexp(isqrt((square.numerator << up) // (square.denominator << down)), -shift)
