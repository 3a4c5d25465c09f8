"""The secure sums of a view: which parts and partial sums were seen, and what each number in them is about.

Parts and partial sums of one quantity (`messages.sums`, like "zscore-sac.mean") belong to one secure sum until the same
sender tells the same recipient a second time: then another one has begun. Their order in the view does not matter, only
their numbers do. A part is a float64 array (k,) under proportional sharing, a uint64 array (k, limbs) over a ring.

What the k numbers are follows from public facts: the count once or per column, sums, and squares where one pass sends
them along (`crypto.secure_moments`); the number of columns is that of the numeric features, or of all encoded columns.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from leakledger.preprocess.messages import SECURE_SUMS, PartialSum, SecureSum, SumPart, ZScoreAnnounced
from leakledger.preprocess.views import CategoricalBlock, Message, PublicFacts, View

Kind = Literal["count", "sum", "square", "deviation", "size", "other"]
Pair = tuple[str, str]
# Of these the counts are read, and what they say of codes is not; `holdings.digits` reads some of them.
CODE_SUMS = tuple(
    kind
    for quantity, kinds in SECURE_SUMS.items()
    if quantity.startswith(("bytes-norm.", "mod-norm.")) and quantity != "mod-norm.unique"
    for kind in (kinds.part, kinds.partial, kinds.share, kinds.share_partial)
)
FRACTION_BITS = {"bytes-norm": 64}  # of the ring's grid; 120 elsewhere


@dataclass(frozen=True, order=True)
class Slot:
    """What one number is about: a feature's sum, squares or distinct values, or (feature "") the rows.

    `value` names one category where the column is its membership. "square" is around 0, "deviation" around the
    federation's mean. "other" has no reading here.
    """

    kind: Kind
    feature: str = ""
    value: str = ""


@dataclass(frozen=True)
class Run:
    """One secure sum: `parts` by (sender, recipient), `partials` by sender, as decoded; `evidence` numbers messages."""

    base: str
    stage: str
    clients: tuple[str, ...]
    slots: tuple[Slot, ...]
    parts: Mapping[Pair, Any] = field(repr=False)
    partials: Mapping[str, Any] = field(repr=False)
    evidence: Mapping[Any, int] = field(repr=False)  # (sender, recipient) of a part, or sender of a partial sum
    order: int = 0

    @property
    def ring(self) -> bool:
        some: np.ndarray = next(iter(self.parts.values()))
        return some.dtype == np.uint64


def secure_sums(view: View) -> tuple[list[Run], list[str]]:
    """The secure sums that the view holds whole, in order, and in words why others are left out.

    Without a categorical feature an encoder adds up nothing, and a count of 0: no number of rows, nor a problem.
    """
    found: list[Run] = []
    problems: list[str] = []
    for quantity, messages in _grouped(view).items():
        base, _, stage = quantity.partition(".")
        for group in messages:
            try:
                run = _run(view, base, stage, group)
                found += [run] if run.slots or base == "zscore-sac" else []
            except ValueError as error:
                problems.append(f"{quantity}, message {group[0].sequence} on: {error}")
    sets = {r.clients for r in found}
    everyone = tuple(view.public.clients)
    if everyone not in sets:  # a smaller set is believed beside the whole one: somebody left or came
        problems += [
            f"{r.base}.{r.stage}: no message of {_missing(r, everyone)}" for r in found if r.clients != everyone
        ]
        found = [r for r in found if r.clients == everyone]
    return sorted(found, key=lambda r: r.order), problems


def _missing(run: Run, everyone: Sequence[str]) -> str:
    return ", ".join(sorted(set(everyone) ^ set(run.clients)))


def _grouped(view: View) -> dict[str, list[list[Message]]]:
    """By quantity, the messages of each secure sum in the order of their numbers."""
    groups: dict[str, list[list[Message]]] = defaultdict(list)
    told: dict[str, set[tuple[str, str, str]]] = {}
    for m in sorted(view.readable(SecureSum), key=lambda m: m.sequence):
        base, kind = _family(m).quantity, m.topic
        if base not in told or (kind, m.sender, m.recipient) in told[base]:
            groups[base].append([])
            told[base] = set()
        told[base].add((kind, m.sender, m.recipient))
        groups[base][-1].append(m)
    return groups


def _family(message: Message) -> type[SecureSum]:
    kind = message.kind
    assert issubclass(kind, SecureSum)
    return kind


def _run(view: View, base: str, stage: str, messages: Sequence[Message]) -> Run:
    parts = {(m.sender, m.recipient): m for m in messages if issubclass(m.kind, SumPart)}
    partials = {(m.sender, m.recipient): m for m in messages if issubclass(m.kind, PartialSum)}
    present = {p for pair in parts for p in pair}
    clients = tuple(c for c in view.public.clients if c in present)
    _check_whole(view, clients, parts, partials)
    values = {pair: _numbers(m) for pair, m in parts.items()}
    sums = {m.sender: _numbers(m) for m in partials.values()}
    form = _check_form([*values.values(), *sums.values()])
    slots = _slots(view, base, stage, form)
    evidence: dict[Any, int] = {pair: m.sequence for pair, m in parts.items()}
    for (sender, _), m in partials.items():
        evidence.setdefault(sender, m.sequence)
    return Run(base, stage, clients, slots, values, sums, evidence, messages[0].sequence)


def _check_whole(view: View, clients: Sequence[str], *told: Mapping[Pair, Message]) -> None:
    """Raises ValueError unless every exchange that an observer took part in, or passed on, is here from end to end."""
    relayed = any(m.relay in view.observers and not m.sealed for t in told for m in t.values())
    if len(clients) < 3:
        raise ValueError(f"parts of only {len(clients)} clients; the secure sum has at least three")
    inside = view.observers.intersection(clients)
    for name, messages in zip(("part", "partial sum"), told, strict=True):
        for sender in clients:
            for recipient in clients if relayed or sender in inside else inside:
                if sender != recipient and (sender, recipient) not in messages:
                    raise ValueError(f"the {name} of {sender} to {recipient} is missing")


@dataclass(frozen=True)
class _Told:
    """What a message says, whoever sees it: the content is all that counts."""

    content: bytes | None = field(repr=False)
    message: Message = field(repr=False, compare=False)


def _numbers(message: Message) -> np.ndarray[Any, Any]:
    return _decoded(_Told(message.content, message))


@lru_cache(1 << 13)
def _decoded(told: _Told) -> np.ndarray[Any, Any]:
    """The numbers of a part, kept by content, since coalitions share messages. Raises ValueError for another form."""
    a: np.ndarray[Any, Any] = told.message.payload.numbers
    if not isinstance(a, np.ndarray) or (a.dtype, a.ndim) not in ((np.dtype("f8"), 1), (np.dtype("u8"), 2)):
        raise ValueError("a part is neither float64 numbers nor elements of a ring")
    if a.dtype == np.float64 and not np.isfinite(a).all():
        raise ValueError("a part holds numbers that are not finite")
    return a


def _check_form(arrays: Iterable[np.ndarray[Any, Any]]) -> tuple[int, ...]:
    shapes = {(a.dtype, a.shape) for a in arrays}
    if len(shapes) != 1:
        raise ValueError("the parts differ in form")
    shape: tuple[int, ...] = next(iter(shapes))[1]
    return shape


def _slots(view: View, base: str, stage: str, form: tuple[int, ...]) -> tuple[Slot, ...]:
    k = form[0]
    if base != "zscore-sac":
        return _code_slots(view.public, stage, k)
    for columns in _column_sets(view.public):
        c = len(columns)
        sums, squares = _named("sum", columns), _named("square", columns)
        layouts: dict[str, list[list[Slot]]] = {
            "variance": [_named("deviation", columns)],
            "mean": [[Slot("count"), *sums], [Slot("count")] * c + sums],
            "moments": [[Slot("count"), *sums, *squares], [Slot("count")] * c + sums + squares],
        }
        announced = {len(p.mean) for p in (m.payload for m in view.readable(ZScoreAnnounced))}
        fitting = [s for s in layouts.get(stage, []) if len(s) == k and announced <= {c}]
        if fitting:
            return tuple(fitting[0])
    raise ValueError(f"{k} numbers fit no set of columns of the public layout")


def _named(kind: Kind, columns: Sequence[tuple[str, str] | None]) -> list[Slot]:
    return [Slot("other") if c is None else Slot(kind, *c) for c in columns]


def _column_sets(public: PublicFacts) -> Iterable[list[tuple[str, str] | None]]:
    """Columns as (feature, value), None where the layout cannot name one: the numeric features; all encoded columns."""
    names = numeric_names(public)
    yield [(n, "") for n in names]
    if public.layout is not None:
        columns: list[tuple[str, str] | None] = [None] * public.layout.width
        columns[: len(names)] = [(n, "") for n in names]
        for b in public.layout.blocks:
            if isinstance(b, CategoricalBlock) and b.codes is None and b.values is not None:
                columns[b.start : b.start + b.width] = [(b.feature, v) for v in b.values]
        yield columns


def numeric_names(public: PublicFacts) -> list[str]:
    """The numeric features of the table in order; where only the layout is public, the numeric columns."""
    if "numeric" in public.schema:
        return [str(n) for n in public.schema["numeric"]]
    return [b.feature for b in public.layout.numeric] if public.layout else []


def _code_slots(public: PublicFacts, stage: str, k: int) -> tuple[Slot, ...]:
    """The slots of encoders: distinct values by feature, or counts in front of sums of codes, which are not read."""
    names = [str(n) for n in public.schema.get("categorical", ())]
    if stage == "unique":
        if len(names) != k:
            raise ValueError(f"{k} numbers for {len(names)} categorical features")
        return tuple(Slot("size", n) for n in names)
    if not names and k <= 1:
        return ()
    if stage == "variance":
        return (Slot("other"),) * k
    c = len(names)
    blocks = 2 if stage == "moments" else 1
    if not c or k not in (1 + blocks * c, (1 + blocks) * c):
        raise ValueError(f"{k} numbers do not fit {c} categorical features")
    counts = 1 if k == 1 + blocks * c else c
    return (Slot("count"),) * counts + (Slot("other"),) * (k - counts)
