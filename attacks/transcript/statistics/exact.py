"""What follows without any doubt: figures of single parties that the equations of a view determine, and group totals.

Secure sum, parties s and r: p[s, r] is the part that s gives r. With x[s] what s shares,

    sum_r p[s, r] = x[s]        sum_s p[s, r] = partial[r]        sum_r partial[r] = total

Unknown are the parts that no observer sent, received or passed on; an observer's own x is known. `system.determine`
finds which x[v] follow. Two cases always do, whatever the sharing:

* all but one client: x[v] = total - sum of the others' x.
* the open relay: it reads every part but p[r, r], and every partial sum, so p[r, r] = partial[r] - sum_{s != r} p[s, r]
  is the part that r kept, and x[r] = p[r, r] + sum_{s != r} p[r, s]. Sharing over a ring does not prevent it: the
  equations hold modulo 2^b, with whole coefficients.

Several runs over different clients are put together in a second step: who is in both but for one party gives that
party. It assumes that a table is the same in all runs; if runs over the same clients disagree, nothing is combined.
Squares around different means are first brought to squares around 0: sum (x - M)^2 = sum x^2 - 2 M sum x + n M^2.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.observed.equations import Determined, determine
from leakledger.attacks.observed.secure_sums import FRACTION_BITS, Run, Slot
from leakledger.attacks.transcript.statistics.own import OwnTable

EPSILON = float(np.finfo(np.float64).eps)

Group = frozenset[str]
Means = Mapping[tuple[str, str], float]  # (feature, value) -> mean over the federation


@dataclass(frozen=True)
class Fact:
    """Sums over the parties in `group`, by slot, and the messages that they follow from.

    A sum that is left where large numbers cancel has their rounding: `within` it grows with what was added up.
    """

    group: Group
    values: Mapping[Slot, float] = field(repr=False)
    evidence: tuple[int, ...] = field(repr=False)
    centre: Means = field(default_factory=dict, repr=False)  # what deviations are around
    within: Mapping[Slot, float] = field(default_factory=dict, repr=False)  # how far rounding takes the values


def run_facts(run: Run, tables: Mapping[str, OwnTable], means: Means, before: Sequence[Fact] = ()) -> list[Fact]:
    """The facts of one secure sum: each party that is determined, and the clients outside the view together.

    Deviations are around `means`; `before` are the facts of the sum that has the row counts, where this one has not.
    """
    counts = {f.group: f.values[Slot("count")] for f in before if Slot("count") in f.values}
    inside, outside = ([c for c in run.clients if (c in tables) == own] for own in (True, False))
    clients = [*inside, *outside]  # in this order, coalitions of one size have the same equations
    groups = [frozenset([c]) for c in outside] + ([frozenset(outside)] if len(outside) > 1 else [])
    hidden = np.array([[(s, r) not in run.parts for r in clients] for s in clients])
    told = [c for c in clients if c in run.partials]
    solved = _solved(hidden.tobytes(), tuple(clients.index(c) for c in told), len(inside), len(clients))
    right = _right_sides(run, told, inside, tables, means)
    sizes = [] if run.ring else _sizes(run, told, inside, tables, means)
    weights = solved.weights // solved.scale[:, None]  # totally unimodular: whole
    return [
        _fact(run, group, weights[i], right, sizes, means, counts) for i, group in enumerate(groups) if solved.known[i]
    ]


@lru_cache(1 << 6)
def _solved(pattern: bytes, told: tuple[int, ...], inside: int, clients: int) -> Determined:
    """What follows about each client outside and all of them, from the first `inside` clients' numbers and the partial
    sums of `told`; the parts in `pattern` (giver, receiver) are hidden. Kept, since coalitions share patterns.
    """
    hidden = np.frombuffer(pattern, np.bool_).reshape(clients, clients)
    rows = [hidden & (np.arange(clients) == c)[:, None] for c in range(clients)]  # parts that c gave or kept
    columns = [hidden & (np.arange(clients) == c) for c in told]  # parts that c received or kept
    whole = [np.logical_or.reduce(rows[inside:])] if clients - inside > 1 else []
    equations, targets = [*columns, *rows[:inside]], [*rows[inside:], *whole]
    left, wanted = (
        np.array([e[hidden] for e in block], np.int64).reshape(len(block), -1) for block in (equations, targets)
    )
    return determine(left, wanted)


def _right_sides(
    run: Run, told: Sequence[str], inside: Sequence[str], tables: Mapping[str, OwnTable], means: Means
) -> list[Any]:
    """What the unknown parts of each equation add up to: of each partial sum, then of each observer's numbers."""
    received: dict[str, list[Any]] = {c: [] for c in run.clients}
    given: dict[str, list[Any]] = {c: [] for c in run.clients}
    for (s, r), part in run.parts.items():
        received[r].append(part)
        given[s].append(part)
    sums = [_numbers(run, run.partials[c]) - _added(run, received[c]) for c in told]
    own = [_shared_by(run, tables[c], means) - _added(run, given[c]) for c in inside]
    return [*sums, *own]


def _sizes(
    run: Run, told: Sequence[str], inside: Sequence[str], tables: Mapping[str, OwnTable], means: Means
) -> list[Any]:
    """(k,) the magnitudes of all that `_right_sides` adds up, equation by equation."""
    received: dict[str, Any] = dict.fromkeys(run.clients, 0.0)
    given: dict[str, Any] = dict.fromkeys(run.clients, 0.0)
    for (s, r), part in run.parts.items():
        received[r], given[s] = received[r] + np.abs(part), given[s] + np.abs(part)
    sums = [np.abs(run.partials[c]) + received[c] for c in told]
    return [*sums, *(np.abs(own_figures(run, tables[c], means)) + given[c] for c in inside)]


def _fact(
    run: Run,
    group: Group,
    weights: NDArray[np.int64],
    right: Sequence[Any],
    sizes: Sequence[Any],
    means: Means,
    counts: Mapping[Group, float],
) -> Fact:
    parts = [p for (s, _), p in run.parts.items() if s in group]
    total = _added(run, parts) + sum(int(w) * b for w, b in zip(weights, right, strict=True) if w)
    told = {number for key, number in run.evidence.items() if isinstance(key, str) or key[0] in group}
    values = {s: v for s, v in zip(run.slots, _reveal(run, total), strict=True) if s.kind != "other"}
    if run.ring:  # each row was rounded to the grid
        within = dict.fromkeys(values, values.get(Slot("count"), counts.get(group, 1.0)) / (2 * _ring(run)[1]))
    else:
        size = sum(map(np.abs, parts), np.zeros(len(run.slots)))
        size = size + sum(abs(int(w)) * b for w, b in zip(weights, sizes, strict=True))
        lost = dict(zip(run.slots, (len(run.clients) * EPSILON * size).tolist(), strict=True))
        within = {s: lost[s] for s in values}
    return Fact(group, values, tuple(sorted(told)), means, within)


def _added(run: Run, parts: Sequence[NDArray[Any]]) -> Any:
    if not parts:
        return 0
    return np.sum([_numbers(run, p) for p in parts] if run.ring else parts, axis=0)


def _numbers(run: Run, part: NDArray[Any]) -> NDArray[Any]:
    """(k,) floats, or whole numbers of the ring."""
    if not run.ring:
        return part
    return np.array([int.from_bytes(row.astype("<u8").tobytes(), "little") for row in part], dtype=object)


def _reveal(run: Run, total: Any) -> list[float]:
    if not run.ring:
        return [float(x) for x in total]
    modulus, grid = _ring(run)
    centred = [(int(x) + modulus // 2) % modulus - modulus // 2 for x in total]
    return [float(Fraction(x, grid)) for x in centred]


def _ring(run: Run) -> tuple[int, int]:
    """The modulus, and how many steps of the grid make 1."""
    limbs = next(iter(run.parts.values())).shape[1]
    return 2 ** (64 * limbs), 2 ** FRACTION_BITS.get(run.base, 120)


def _shared_by(run: Run, table: OwnTable, means: Means) -> NDArray[Any]:
    """(k,) what an observer shared in this run, recomputed from its table; what has no reading is taken as 0."""
    if not run.ring:
        return own_figures(run, table, means)
    _, grid = _ring(run)
    return np.array([steps_shared(table, slot, means, grid) for slot in run.slots], dtype=object)


def steps_shared(table: OwnTable, slot: Slot, means: Means, grid: int) -> int:
    """One number of a table as it is shared over a ring, in steps of the grid: each row is rounded by itself, as in
    `crypto.grid_sums`. Raises Unreadable for a feature that it lacks.
    """
    if slot.kind not in ("sum", "square", "deviation"):
        return round(own_figure(table, slot, means)) * grid
    centre = means[slot.feature, slot.value] if slot.kind == "deviation" else 0.0
    key = slot, centre, grid
    if key not in table.steps:
        numbers, rows = np.unique(table.column(slot.feature, slot.value), return_counts=True)
        middle = _steps(centre, grid)
        steps = [_steps(x, grid) - middle for x in numbers.tolist()]
        terms = steps if slot.kind == "sum" else [(x * x + grid // 2) // grid for x in steps]
        table.steps[key] = sum(x * n for x, n in zip(terms, rows.tolist(), strict=True))
    return table.steps[key]


def _steps(x: float, grid: int) -> int:
    """A number in steps of the grid, rounded; half a step up."""
    above, below = x.as_integer_ratio()
    return (2 * above * grid + below) // (2 * below)


def own_figures(run: Run, table: OwnTable, means: Means) -> NDArray[np.float64]:
    """(k,) the numbers of a table by the slots of a run; deviations are around `means`. Raises Unreadable."""
    centres = tuple(means[s.feature, s.value] for s in run.slots if s.kind == "deviation")
    key = run.base, run.stage, run.order, centres
    if key not in table.figures:
        table.figures[key] = np.array([own_figure(table, slot, means) for slot in run.slots], np.float64)
    return table.figures[key]


def own_figure(table: OwnTable, slot: Slot, means: Means) -> float:
    """One number of a table. Raises Unreadable for a feature that it lacks."""
    if slot.kind == "count":
        return float(table.rows)
    if slot.kind == "other":
        return 0.0
    if slot.kind == "size":
        return float(len(table.values(slot.feature)))
    column = table.column(slot.feature, slot.value)
    centre = means[slot.feature, slot.value] if slot.kind == "deviation" else 0.0
    return float(column.sum() if slot.kind == "sum" else ((column - centre) ** 2).sum())
