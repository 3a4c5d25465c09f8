"""The sums of `bytes-norm`: one integer that says which values everyone else holds, and how often.

"Privacy-preserving tabular data transformation", section 7.2, casts the bytes of a value to an integer x_v, and section
8.4 holds that "the large numerical range of encoded strings makes it challenging to derive meaningful insights" from
the sums. The range is what gives them away. With exact sums (`sharing="ring"`) every client ends with the number of
rows and

    S = sum_v n_v x_v,

a number of 8 bits per byte of the longest value, in mixed radix: the leading digits are those of the longest values.
Less the observers' own rows it is the others'. Given candidates, the counts n_v >= 0 are a knapsack of low density,
which lattice reduction solves (`lattice`) where k values with counts of b bits need fewer bits, k b, than S and its
companions have: the number of rows, and the sum of squares, which the deviation gives as well (twice the bits).

The result is the multiset of all parties outside: of one such party, its vocabulary with counts, exactly; of several,
who holds what is left open (a party holds one of n_v equally spread rows with chance 1 - (1 - 1/m)^n_v). No claim where
the reduction finds no solution, or another one beside it. Values that are no candidates can make sums that candidates
make, too, with a chance of about the number of multisets in units of how many sums there may be: where texts are short
that is likely, and scores say so (`doubt`). Where a search for other solutions has no end, as of dozens of candidates,
the one that was found is claimed if that chance is next to none, and nothing of it for certain. With
`sharing="proportional"` sums are float64, which keep the leading six bytes only: not attacked here.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction
from math import exp, lgamma, log

import numpy as np

from leakledger.attacks.observed.own_rows import own_counts
from leakledger.attacks.observed.values import byte_number, categorical_features
from leakledger.attacks.transcript.holdings.finding import DOUBT, Finding, held_by_one
from leakledger.attacks.transcript.holdings.lattice import Solution, non_negative_solution
from leakledger.preprocess.messages import SECURE_SUMS, PartialSum
from leakledger.preprocess.views import View

GRID, MOST = 2**64, 48  # of the sums; candidates of a feature that is attempted
SURE = 64  # how much a weight may differ between values
LIKELY = 0.5  # a coincidence of this chance leaves no claim
UNSHOWN = 0.01  # what is left for other counts of many candidates, where a search for them had no end


def from_sums(view: View, candidates: Mapping[str, tuple[str, ...]]) -> Iterator[Finding]:
    """What the observers' copy of all partial sums says of the parties outside."""
    own = own_counts(view)
    outside = [c for c in view.public.clients if c not in view.observers]
    known = len(own) == len(view.public.clients) - len(outside)
    totals = exact_totals(view)
    if totals is None or not known or not outside:
        return
    rows, sums, squares, evidence = totals
    for i, feature in enumerate(categorical_features(view)):
        values = candidates.get(feature, ())
        if not 0 < len(values) <= MOST or i >= len(sums):
            continue
        held = sum((c.get(feature, Counter()) for c in own.values()), Counter[str]())
        codes = [byte_number(v, view.public.encoder.options) for v in values]
        solved = solve(values, codes, held, rows[i], sums[i], squares[i] if squares else None)
        if solved is None:
            continue
        counts, only = solved
        doubtful = doubt(codes, sum(counts), 1 if squares is None else 2)
        if doubtful > (LIKELY if only else DOUBT):
            continue
        doubtful = doubtful if only else UNSHOWN
        sure = {v: held_by_one(n, len(outside)) for v, n in zip(values, counts, strict=True)}
        scores = sure if doubtful <= DOUBT else {v: s + doubtful * (0.5 - s) for v, s in sure.items()}
        told = {v: float(n) for v, n in zip(values, counts, strict=True) if n} if len(outside) == 1 else {}
        for party in outside:
            yield Finding(party, feature, scores, told, evidence)


def doubt(codes: list[int], rows: int, sums: int) -> float:
    """The chance that candidates with these codes make the sums of other values by coincidence: so many rows of each
    candidate, over the sums there may be (`sums` 2: of squares too, which beside the first are those around any code).
    """
    width = max(codes) - min(codes)
    log_multisets = lgamma(rows + len(codes)) - lgamma(rows + 1) - lgamma(len(codes))
    log_sums = sum(log(1 + rows * width**power) for power in range(1, sums + 1))
    return exp(min(log_multisets - log_sums, 0.0))


def solve(
    values: tuple[str, ...], codes: list[int], held: Counter[str], rows: int, total: int, squares: int | None
) -> Solution | None:
    """(values,) in how many rows of the others each value is, from all rows less those `held` by observers."""
    mine = [held[v] for v in values]
    left = rows - sum(mine)
    equations = [[1] * len(codes), codes]
    sums = [left, total - sum(n * x for n, x in zip(mine, codes, strict=True))]
    if squares is not None:
        equations.append([x * x for x in codes])
        sums.append(squares - sum(n * x * x for n, x in zip(mine, codes, strict=True)))
    if left <= 0 or min(sums) < 0:
        return None
    share = [(n + 0.5) / (sum(mine) + len(mine) / 2) for n in mine] if sum(mine) else [1 / len(mine)] * len(mine)
    expected = [round(left * p) for p in share]
    weights = [max(1, round(SURE / np.sqrt(1 + left * p))) for p in share]
    return non_negative_solution(equations, sums, expected, weights)


def exact_totals(view: View) -> tuple[list[int], list[int], list[int] | None, frozenset[int]] | None:
    """(features,) rows, sums and, where they follow, sums of squares over all clients; None where they are not whole in
    the view.
    """
    kinds = {stage: SECURE_SUMS[f"bytes-norm.{stage}"].share_partial for stage in ("mean", "variance", "moments")}
    one = view.has(kinds["moments"])
    first = revealed(view, kinds["moments" if one else "mean"])
    features = len(categorical_features(view))
    if first is None or not features:
        return None
    numbers, evidence = first
    blocks = 2 if one else 1
    counts = numbers[: len(numbers) - blocks * features]
    if len(counts) not in (1, features) or any(n.denominator != 1 for n in counts):
        return None
    rows = [int(n) for n in counts] * (features if len(counts) == 1 else 1)
    sums = [int(s) for s in numbers[len(counts) : len(counts) + features]]
    if one:
        return rows, sums, [int(q) for q in numbers[len(counts) + features :]], evidence
    second = revealed(view, kinds["variance"])
    if second is None or len(second[0]) != features or min(rows) < 1:
        return rows, sums, None, evidence
    around = [q + Fraction(s * s, n) for q, s, n in zip(second[0], sums, rows, strict=True)]
    return rows, sums, [round(q) for q in around], evidence | second[1]


def revealed(view: View, kind: type[PartialSum]) -> tuple[list[Fraction], frozenset[int]] | None:
    """The sums that all clients' partial sums add up to; None unless the view has one of each, over a ring."""
    partial = {m.sender: m for m in view.readable(kind)}
    if set(partial) != set(view.public.clients):
        return None
    try:
        tables = [np.asarray(m.payload.numbers) for m in partial.values()]
    except ValueError:
        return None
    if any(t.dtype != np.uint64 or t.ndim != 2 or t.shape != tables[0].shape for t in tables):
        return None
    bits = 64 * tables[0].shape[1]
    totals = [
        sum(int.from_bytes(t[k].astype("<u8").tobytes(), "little") for t in tables) % 2**bits
        for k in range(len(tables[0]))
    ]
    signed = [t - 2**bits if t >= 2 ** (bits - 1) else t for t in totals]
    return [Fraction(t, GRID) for t in signed], frozenset(m.sequence for m in partial.values())
