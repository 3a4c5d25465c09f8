"""The columns that masked exchanges determine: algorithm 3 of FLFE, read as equations.

Of a loop that takes f1 of one device and f2 of another, the second device sees f1 under the mask m, the server sees m
and the masked result. So the server has T(f1, f2) in the clear, both together have f1, the server and the first device
have f2. Two results of one pair are two equations: the sum and the difference give both columns, product and quotient
both up to sign, a sum or a difference with a quotient both again. A mask that is used twice is one unknown in two
equations: f1 + m and f1 - m give f1 to the device that it is to be hidden from.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from leakledger.attacks.transcript.feature_exchange.equations import (
    Column,
    Equation,
    Solved,
    Unknown,
    solve_products,
    solve_sums,
)
from leakledger.preprocess.messages import FeatureTask, MaskedColumn, MaskedResult, MaskVector, Payload
from leakledger.preprocess.views import Message, View

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

    def equations(self) -> Iterator[Equation]:
        """What its messages say: T(f1, m), T(T(f1, m), f2) and m."""
        sign = 1 if self.how in ("sum", "product") else -1
        if self.masked:
            yield Equation({self.first: 1, self.mask: sign}, *_said(self.masked))
        if self.result:
            yield Equation({self.first: 1, self.mask: sign, self.second: sign}, *_said(self.result))
        if self.vector:
            yield Equation({self.mask: 1}, *_said(self.vector))


def column(device: str, feature: str) -> Unknown:
    return ("column", device, feature)


def tasks(view: View) -> dict[int, FeatureTask]:
    """Loop -> what it tried, as the observers were told or told others."""
    return {m.round: m.payload for m in view.readable(FeatureTask)}


def loops(view: View) -> list[Loop]:
    """The loops of two columns of which the observers hold something."""
    reused = view.public.features.options.get("masks") == "reused"
    kinds: tuple[type[Payload], ...] = (MaskedColumn, MaskedResult, MaskVector)
    said = {kind: {m.round: m for m in view.readable(kind)} for kind in kinds}
    return [
        _loop(number, task, reused, said)
        for number, task in tasks(view).items()
        if len(task.devices) == 2 and any(number in by_loop for by_loop in said.values())
    ]


def _loop(number: int, task: FeatureTask, reused: bool, said: Mapping[type[Payload], Mapping[int, Message]]) -> Loop:
    how, (d1, d2), (f1, f2) = task.transformation, task.devices, task.features
    mask = ("mask", d1, "added" if how in SUMS else "multiplied") if reused else ("mask", str(number))
    messages = (said[kind].get(number) for kind in (MaskedColumn, MaskedResult, MaskVector))
    return Loop(how, column(d1, f1), column(d2, f2), mask, *messages)


def own_columns(view: View) -> dict[Unknown, Solved]:
    """The columns that the observers hold themselves."""
    return {
        column(d, f): Solved(np.asarray(values, np.float64), ())
        for d, given in view.inputs.items()
        for f, values in given.get("columns", {}).items()
    }


def exact_columns(view: View) -> dict[Unknown, Solved]:
    """Every column that follows without guessing, the observers' own included.

    What one kind of equation gives is known in the other, until neither gives more.
    """
    found, exchanged = own_columns(view), loops(view)
    while True:
        before = len(found)
        for hows, solve in ((SUMS, solve_sums), (PRODUCTS, solve_products)):
            equations = [e for loop in exchanged if loop.how in hows for e in loop.equations()]
            known = [Equation({u: 1}, s.values, s.evidence) for u, s in found.items() if s.signed]
            met = {u for e in equations for u in e.of}
            solved = solve([*(k for k in known if met & k.of.keys()), *equations])
            _take(found, solved)
        _take(found, _mixed(exchanged))
        if len(found) == before:
            return {u: s for u, s in found.items() if u[0] == "column"}


def _take(found: dict[Unknown, Solved], solved: Mapping[Unknown, Solved]) -> None:
    """Keeps what is new, and what is known with its signs now."""
    for u, s in solved.items():
        if u[0] == "column" and (u not in found or (s.signed and not found[u].signed)):
            found[u] = s


def _mixed(exchanged: list[Loop]) -> dict[Unknown, Solved]:
    """Both columns of a pair from their sum or difference and their quotient q: f2 = s / (q + 1), or d / (q - 1)."""
    results: dict[tuple[Unknown, Unknown], dict[str, Solved]] = {}
    for loop in exchanged:
        if loop.result and loop.vector:
            results.setdefault((loop.first, loop.second), {})[loop.how] = _result(loop)
    found = {}
    for (first, second), known in results.items():
        for how, one in (("sum", 1.0), ("difference", -1.0)):
            if how in known and "quotient" in known:
                total, quotient = known[how], known["quotient"]
                with np.errstate(divide="ignore", invalid="ignore"):
                    divisor = quotient.values + one
                    values = np.where(np.abs(divisor) > 1e-9, total.values / divisor, np.nan)
                evidence = tuple(sorted({*total.evidence, *quotient.evidence}))
                found[second] = Solved(values, evidence)
                found[first] = Solved(quotient.values * values, evidence)
    return found


def _result(loop: Loop) -> Solved:
    """T(f1, f2), from the masked result and the mask."""
    assert loop.result is not None
    assert loop.vector is not None
    (value, first), (mask, second) = _said(loop.result), _said(loop.vector)
    with np.errstate(divide="ignore", invalid="ignore"):
        undone = {"sum": value - mask, "difference": value + mask, "product": value / mask, "quotient": value * mask}
    return Solved(undone[loop.how], (*first, *second))


def _said(message: Message) -> tuple[Column, tuple[int, ...]]:
    return np.asarray(message.payload.values, np.float64), (message.sequence,)
