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
  not the text. One pass loses float64 digits where the mean is large against the spread.
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
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from preprocess.crypto.secure_sum import Route, check_clients, check_route, secure_sum
from preprocess.crypto.sharing import Number, Proportional, Ring, Sharing, Weights
from preprocess.federation import At, Federation, Public

Scheme = Literal["proportional", "ring"]
Counts = Literal["once", "per-feature"]
Publish = Literal["everyone", "parties"]
NOISE = 2.0**-40  # a deviation below this share of the mean is rounding of the sums


@dataclass(frozen=True)
class SacOptions:
    """Options of every method that sums securely; see `crypto.sharing`, `crypto.secure_sum` and this module's text."""

    sharing: Scheme = "proportional"
    share_weights: Weights = "uniform"
    route: Route = "relay"
    counts: Counts = "once"
    passes: Literal[1, 2] = 2
    publish: Publish = "everyone"

    def __post_init__(self) -> None:
        known = {"sharing": Scheme, "counts": Counts, "publish": Publish, "share_weights": Weights}
        for name, choices in known.items():
            if (value := getattr(self, name)) not in get_args(choices):
                raise ValueError(f"{name} {value!r} is unknown; choose one of {', '.join(get_args(choices))}")
        if self.passes not in (1, 2):
            raise ValueError(f"passes {self.passes!r} is neither 1 nor 2")
        check_route(self.route)

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
    topic: str,
) -> dict[str, At[Moments]]:
    """At every client, the moments of all clients' columns: the same at all of them.

    Topics: `<topic>.mean.*` and `<topic>.variance.*`, or `<topic>.moments.*` in one pass. Raises ValueError for fewer
    than three clients, for a number that is not finite or out of range, and when no party holds a row.
    """
    check_clients(columns)
    one = options.passes == 1
    first = {c: fed.local(c, partial(first_sums, summaries, options.counts, one), x) for c, x in columns.items()}
    totals = secure_sum(fed, first, scheme, options.route, f"{topic}.moments" if one else f"{topic}.mean")
    read = partial(read_totals, options.counts, one)
    known = {c: fed.local(c, read, t) for c, t in totals.items()}
    if one:
        return known
    squares = {
        c: fed.local(c, lambda x, m: summaries.squares(x, list(m.means)), x, known[c]) for c, x in columns.items()
    }
    deviations = secure_sum(fed, squares, scheme, options.route, f"{topic}.variance")
    return {c: fed.local(c, with_squares, m, deviations[c]) for c, m in known.items()}


def first_sums(summaries: Summaries, counts: Counts, squares: bool, columns: Any) -> list[Number]:
    """Row count, once or per column; sums; sums of squares where asked for."""
    rows, sums = summaries.rows(columns), summaries.sums(columns)
    around = summaries.squares(columns, [Fraction(0)] * len(sums)) if squares else []
    return [*[rows] * (len(sums) if counts == "per-feature" else 1), *sums, *around]


def read_totals(counts: Counts, squares: bool, totals: list[Fraction]) -> Moments:
    """The moments that totals in the order of `first_sums` stand for; without squares, they are 0."""
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
    return Moments(tuple(rows), tuple(means), tuple(spread))


def with_squares(moments: Moments, squares: list[Fraction]) -> Moments:
    return Moments(moments.rows, moments.means, tuple(squares))


def announce(fed: Federation, statistics: Mapping[str, At[dict[str, Any]]], topic: str) -> Public[dict[str, Any]]:
    """What all clients know already, told by the first to everyone: n messages on `<topic>.announced`."""
    first = next(iter(statistics))
    return fed.broadcast(statistics[first], topic=f"{topic}.announced")


def root(square: Fraction) -> float:
    """The square root to float64's precision, also of fractions beyond its range. Raises OverflowError where the root
    itself is beyond.
    """
    shift = (128 - square.numerator.bit_length() + square.denominator.bit_length()) // 2
    up, down = max(2 * shift, 0), max(-2 * shift, 0)
    return ldexp(isqrt((square.numerator << up) // (square.denominator << down)), -shift)
