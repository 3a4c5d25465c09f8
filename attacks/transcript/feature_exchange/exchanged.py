"""The columns that masked exchanges determine: algorithm 3 of FLFE, read as equations.

Of a loop that takes f1 of one device and f2 of another, the second device sees f1 under the mask m, the server sees m
and the masked result. So the server has T(f1, f2) in the clear, both together have f1, the server and the first device
have f2. Two results of one pair are two equations: the sum and the difference give both columns, product and quotient
both up to sign, a sum or a difference with a quotient both again, and with a product both of two pairs that share a
column (`quadratics`). A mask that is used twice is one unknown in two
equations: f1 + m and f1 - m give f1 to the device that it is to be hidden from. Where columns are encrypted instead,
whoever has the loop's key has the same equations without masks (`encrypted`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from leakledger.attacks.transcript.feature_exchange.encrypted import NOISE, NOISE_OF_COLUMN, opened, openers
from leakledger.attacks.transcript.feature_exchange.equations import (
    EPS,
    Column,
    Equation,
    Solved,
    Unknown,
    solve_products,
    solve_sums,
)
from leakledger.attacks.transcript.feature_exchange.quadratics import Results, common_roots
from leakledger.preprocess.messages import (
    EncryptedColumn,
    EncryptedResult,
    FeatureTask,
    MaskedColumn,
    MaskedResult,
    MaskVector,
    Payload,
    RecordOrder,
)
from leakledger.preprocess.views import MalformedMessage, Message, View

SUMS, PRODUCTS = ("sum", "difference"), ("product", "quotient")


@dataclass(frozen=True)
class Loop:
    """The exchange of one loop, as far as the observers hold it."""

    how: str
    first: Unknown
    second: Unknown
    mask: Unknown
    masked: Message | None
    result: Message | None
    vector: Message | None
    opened: tuple[Equation, ...] = ()
    open_result: Solved | None = None

    @property
    def sign(self) -> int:
        return 1 if self.how in ("sum", "product") else -1

    @property
    def made(self) -> Solved | None:
        """T(f1, f2), where the observers have it."""
        if self.open_result or not (self.result and self.vector):
            return self.open_result
        (value, first), (mask, second) = _said(self.result), _said(self.vector)
        with np.errstate(divide="ignore", invalid="ignore"):
            undone = {
                "sum": value - mask,
                "difference": value + mask,
                "product": value / mask,
                "quotient": value * mask,
            }
        made = undone[self.how]
        rounded = EPS * (np.abs(value) if self.how in SUMS else np.abs(made))
        return Solved(made, (*first, *second), noise=rounded)

    def equations(self) -> Iterator[Equation]:
        """What its messages say: T(f1, m), T(T(f1, m), f2) and m, or what was encrypted and could be opened."""
        sign = self.sign
        yield from self.opened
        if self.open_result:
            made = self.open_result
            yield Equation({self.first: 1, self.second: sign}, made.values, made.evidence, made.noise)
        if self.masked:
            yield Equation({self.first: 1, self.mask: sign}, *_said(self.masked))
        if self.result:
            yield Equation({self.first: 1, self.mask: sign, self.second: sign}, *_said(self.result))
        if self.vector:
            yield Equation({self.mask: 1}, *_said(self.vector))


def column(device: str, feature: str) -> Unknown:
    return ("column", device, feature)


def tasks(view: View) -> dict[int, FeatureTask]:
    """Loop -> what it tried, as the observers were told or told others. Raises MalformedMessage for what no loop can
    try.
    """
    return {m.round: _task(m, view) for m in view.readable(FeatureTask)}


def _task(message: Message, view: View) -> FeatureTask:
    task: FeatureTask = message.payload
    if not task.devices or not {*task.devices} <= {*view.public.clients}:
        raise MalformedMessage(f"{message.name}: it names no devices, or others than the public clients")
    if len(task.devices) > 2 or (len(task.devices) == 2) != (task.transformation in SUMS + PRODUCTS):
        raise MalformedMessage(f"{message.name}: its transformation is none of so many columns")
    return task


def loops(view: View) -> list[Loop]:
    """The loops of two columns of which the observers hold something."""
    reused = view.public.features.options.get("masks") == "reused"
    kinds: tuple[type[Payload], ...] = (MaskedColumn, MaskedResult, MaskVector)
    said = {kind: {m.round: m for m in view.readable(kind)} for kind in kinds}
    columns, results = _opened(view)
    held = set(columns).union(results, *said.values())
    return [
        replace(_loop(number, task, reused, said), opened=columns.get(number, ()), open_result=results.get(number))
        for number, task in tasks(view).items()
        if len(task.devices) == 2 and number in held
    ]


def _loop(number: int, task: FeatureTask, reused: bool, said: Mapping[type[Payload], Mapping[int, Message]]) -> Loop:
    how, (d1, d2), (f1, f2) = task.transformation, task.devices, task.features
    mask = ("mask", d1, "added" if how in SUMS else "multiplied") if reused else ("mask", str(number))
    masked, result, vector = (said[kind].get(number) for kind in (MaskedColumn, MaskedResult, MaskVector))
    return Loop(how, column(d1, f1), column(d2, f2), mask, masked, result, vector)


def _opened(view: View) -> tuple[dict[int, tuple[Equation, ...]], dict[int, Solved]]:
    """By loop, the columns and the results that were encrypted under a key which the observers have."""
    columns, results = dict[int, tuple[Equation, ...]](), dict[int, Solved]()
    if not (by := openers(view)):
        return columns, results
    asked = tasks(view)
    records = max((m.payload.records for m in view.readable(RecordOrder)), default=0)  # as parties told the server
    for m in view.readable(EncryptedColumn):
        values, task = opened(m, by, records, NOISE_OF_COLUMN), asked.get(m.round)
        if values is not None and task is not None and m.sender in task.devices:
            feature = task.features[task.devices.index(m.sender)]
            told = Equation({column(m.sender, feature): 1}, values, (m.sequence,), NOISE_OF_COLUMN)
            columns[m.round] = (*columns.get(m.round, ()), told)
    for m in view.readable(EncryptedResult):
        task = asked.get(m.round)
        noise = 0.0 if task is None else NOISE.get(task.transformation, 0.0)
        if (values := opened(m, by, records, noise)) is not None:
            results[m.round] = Solved(values, (m.sequence,), noise=noise)
    return columns, results


def made_of_unknown(
    exchanged: Sequence[Loop], known: Mapping[Unknown, Solved], hows: Sequence[str]
) -> list[tuple[Loop, Solved]]:
    """The results of these transformations that the observers have, and of whose columns they know neither."""
    return [
        (loop, made)
        for loop in exchanged
        if loop.how in hows and not {loop.first, loop.second} & known.keys() and (made := loop.made)
    ]


def own_columns(view: View) -> dict[Unknown, Solved]:
    """The columns that the observers hold themselves."""
    return {
        column(d, f): Solved(np.asarray(values, np.float64), ())
        for d, given in view.inputs.items()
        for f, values in given.get("columns", {}).items()
    }


def exact_columns(view: View, told: Mapping[Unknown, Solved]) -> dict[Unknown, Solved]:
    """Every column that follows without guessing, the observers' own included, and what follows once those that are
    `told` by themselves are known, which lost digits on the way.

    What one kind of equation gives is known in the other, until neither gives more. A column with records that are open
    is used last, so that these follow from others where they can.
    """
    found, exchanged = own_columns(view), loops(view)
    results = results_of_pairs(exchanged)
    while True:
        before = _records(found)
        for hows, solve in ((SUMS, solve_sums), (PRODUCTS, solve_products)):
            equations = [e for loop in exchanged if loop.how in hows for e in loop.equations()]
            met = {u for e in equations for u in e.of}
            known = {u: s for u, s in found.items() if s.signed and u in met}
            whole, partial = (
                [Equation({u: 1}, s.values, s.evidence, s.noise) for u, s in known.items() if s.whole == all_of_it]
                for all_of_it in (True, False)
            )
            _take(found, solve([*whole, *equations, *partial]))
        _take(found, _mixed(results))
        _take(found, common_roots(results))
        if _records(found) != before:
            continue
        if not told:
            return {u: s for u, s in found.items() if u[0] == "column"}
        _take(found, told)
        told = {}


def _take(found: dict[Unknown, Solved], solved: Mapping[Unknown, Solved]) -> None:
    """Keeps what is new, and what is known with its signs now, and of what is known in part the records that are told
    exactly now.
    """
    for u, s in solved.items():
        if u[0] == "column" and (u not in found or (s.signed and not found[u].signed)):
            found[u] = s
        elif u[0] == "column" and s.signed and not found[u].whole:
            found[u] = found[u].filled(s)


def _records(found: Mapping[Unknown, Solved]) -> tuple[int, int]:
    """How many columns are known, and how many of their records."""
    return len(found), sum(int(np.isfinite(s.values).sum()) for s in found.values())


def results_of_pairs(exchanged: Sequence[Loop]) -> Results:
    """Pair -> transformation -> the result, where the observers have it."""
    results: dict[tuple[Unknown, Unknown], dict[str, Solved]] = {}
    for loop in exchanged:
        if made := loop.made:
            results.setdefault((loop.first, loop.second), {})[loop.how] = made
    return results


def _mixed(results: Results) -> dict[Unknown, Solved]:
    """Both columns of a pair from their sum or difference and their quotient q: f2 = s / (q + 1), or d / (q - 1)."""
    found = {}
    for (first, second), known in results.items():
        for how, one in (("sum", 1.0), ("difference", -1.0)):
            if how in known and "quotient" in known:
                total, quotient = known[how], known["quotient"]
                with np.errstate(divide="ignore", invalid="ignore"):
                    divisor = quotient.values + one
                    values = np.where(np.abs(divisor) > 1e-9, total.values / divisor, np.nan)
                    noise = np.hypot(total.noise, values * quotient.noise) / np.abs(divisor)
                evidence = tuple(sorted({*total.evidence, *quotient.evidence}))
                found[second] = Solved(values, evidence, noise=noise)
                other = np.abs(quotient.values) * noise + np.abs(values) * quotient.noise
                found[first] = Solved(quotient.values * values, evidence, noise=other)
    return found


def _said(message: Message) -> tuple[Column, tuple[int, ...]]:
    return np.asarray(message.payload.values, np.float64), (message.sequence,)
