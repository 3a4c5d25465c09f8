"""What to do next, from pairs of settings of the same run that differ in one thing: what it changed, and what it cost.

A pair is two settings that a federation can run and that share everything but the defense, the encoder, the scaler (or
both of these, where the run only has them together), the training, the partition or the data. The verdicts on both are
quoted, never bettered: *ends* needs the verdict that nothing leaks, a leak after which the verdict is open is *open*,
a group of which fewer assets are shown to leak, and none more, is *fewer*, and a lower figure that still leaks is
*lowers*, and only where the two intervals are apart. What leaks more to one adversary *raises* the group, whatever it
does to others, and nothing gets better where something is shown to leak to one that was not before. Of several pairs
that make the same change, the least favourable one speaks.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt
from statistics import fmean, stdev
from typing import Literal

from scipy.special import stdtrit

from leakledger.audit.records import AuditRecord, CaseRecord, Level, Setting, metric_title, plain_name
from leakledger.reports.overview import Cell, Row
from leakledger.reports.utility import main_metric

Kind = Literal["starts", "raises", "same", "fewer", "level", "open", "lowers", "settles", "ends"]
ORDER: tuple[Kind, ...] = ("starts", "raises", "same", "fewer", "open", "level", "lowers", "settles", "ends")
"""From the least favourable to the most."""
BETTER = frozenset({"fewer", "open", "level", "lowers", "settles", "ends"})
SHOWN = frozenset({"level", "lowers", "settles", "ends"})
"""Of these, what the verdicts show; that a leak is no longer shown may be a weaker attack, or chance."""
WORSE = frozenset({"starts", "raises"})
FEWEST = 3  # seeds: below, differences say next to nothing about how far they scatter
CONFIDENCE = 0.95
LEVELS: tuple[Level, ...] = ("", "value", "pseudonym", "code")  # from the most that is known to the least
PARTS = ("data", "partition", "parties", "encoder", "scaler", "defense", "training")


@dataclass(frozen=True)
class Effect:
    """What a change did to one group of assets: the cells before and after."""

    kind: Kind
    before: Cell
    after: Cell


@dataclass(frozen=True)
class Cost:
    """How much a metric of the model changed: the mean over seeds of both settings, after less before, with its 95 %
    interval (Student-t), None below three seeds.
    """

    metric: str
    change: float
    low: float | None
    high: float | None
    seeds: int


@dataclass(frozen=True)
class Change:
    """One thing that differs between settings, `before` and `after`, with what it did in every pair of them.

    `pairs`: the numbers of the settings, before and after. `effects` and `costs` are those of the least favourable
    pair, in each group and metric.
    """

    part: str
    before: str
    after: str
    pairs: tuple[tuple[int, int], ...]
    effects: tuple[Effect, ...]
    costs: tuple[Cost, ...]

    def of(self, *kinds: Kind) -> tuple[Effect, ...]:
        """The effects of these kinds."""
        return tuple(e for e in self.effects if e.kind in kinds)

    @property
    def shown(self) -> bool:
        """Whether the verdicts show that anything got better."""
        return any(e.kind in SHOWN for e in self.effects)

    @property
    def helps(self) -> bool:
        """Whether anything got better, or is at least no longer shown to leak."""
        return any(e.kind in BETTER for e in self.effects)


def changes(rows: Sequence[Row], record: AuditRecord) -> list[Change]:
    """Every change that two settings of the run differ in, those first that do most about the worst leaks."""
    cases: dict[str, list[CaseRecord]] = {}
    for case in record.cases:
        cases.setdefault(case.setting.id, []).append(case)
    main = plain_name(main_metric(record.utility) or "")
    found: dict[tuple[str, str, str], list[tuple[Row, Row]]] = {}
    for a, b in combinations([row for row in rows if row.cells], 2):
        if (part := differs_in(a.setting, b.setting)) is not None:
            before, after = directed(a, b)
            key = (part, named(before.setting, part), named(after.setting, part))
            found.setdefault(key, []).append((before, after))
    made = [_change(*key, pairs, cases, main) for key, pairs in found.items()]
    return sorted(made, key=_rank)


def differs_in(a: Setting, b: Setting) -> str | None:
    """The one thing that differs between two settings; "preprocessing" for encoder and scaler together; None for
    nothing, or for more.
    """
    parts = [p for p in PARTS if getattr(a, p) != getattr(b, p)]
    if parts == ["encoder", "scaler"]:
        return "preprocessing"
    if parts == ["partition", "parties"]:
        return "partition"
    return parts[0] if len(parts) == 1 else None


def named(setting: Setting, part: str) -> str:
    """What a setting has for a part."""
    return setting.method if part == "preprocessing" else str(getattr(setting, part))


def directed(a: Row, b: Row) -> tuple[Row, Row]:
    """The two in the order in which the first group that differs gets better; a defense always comes after none."""
    if "none" in (a.setting.defense, b.setting.defense) and a.setting.defense != b.setting.defense:
        return (a, b) if a.setting.defense == "none" else (b, a)
    for before, after in zip(a.cells, b.cells, strict=True):
        kind = effect(before, after).kind
        if kind in BETTER:
            return a, b
        if kind in WORSE:
            return b, a
    return a, b


def effect(before: Cell, after: Cell) -> Effect:
    """What happened to one group between two settings."""
    return Effect(_kind(before, after), before, after)


def _kind(before: Cell, after: Cell) -> Kind:
    if before.verdict != "leaks":
        if after.verdict == "leaks":
            return "starts"
        return "settles" if after.verdict == "no leak" and before.verdict != "no leak" else "same"
    if after.verdict != "leaks":
        return "ends" if after.verdict == "no leak" else "open"
    return _between_leaks(before, after)


def _between_leaks(before: Cell, after: Cell) -> Kind:
    """Both leak: what is known may be of another kind, or less by more than both intervals."""
    a, b = before.ruling, after.ruling
    assert a is not None
    assert b is not None
    told, still = leaking(before), leaking(after)
    if risen(before, after) or LEVELS.index(b.level) < LEVELS.index(a.level):
        return "raises"
    if a.level != b.level:
        return "level" if still <= told else "same"
    if still < told or told < still:
        return "fewer" if still < told else "raises"
    if None in (a.low, a.high, b.low, b.high):
        return "same"
    known_exactly = any(r.verdict == "leaks" and not _in_numbers(r.p) for r in after.rulings)
    if b.high < a.low and still <= told and not known_exactly:  # type: ignore[operator]
        return "lowers"
    return "raises" if b.low > a.high else "same"  # type: ignore[operator]


def leaking(cell: Cell) -> frozenset[tuple[str, str]]:
    """(kind of adversary, asset) of what is shown to leak."""
    return frozenset((r.adversary, r.asset) for r in cell.rulings if r.verdict == "leaks")


def risen(before: Cell, after: Cell) -> frozenset[tuple[str, str]]:
    """(kind of adversary, asset) of what leaks before and after, known alike, and more by more than both intervals."""
    one = {(r.adversary, r.asset): r for r in before.rulings if r.verdict == "leaks"}
    both = [(one[r.adversary, r.asset], r) for r in after.rulings if (r.adversary, r.asset) in one]
    return frozenset(
        (b.adversary, b.asset)
        for a, b in both
        if b.verdict == "leaks" and a.level == b.level and None not in (a.high, b.low) and b.low > a.high  # type: ignore[operator]
    )


def _in_numbers(p: float | None) -> bool:
    """Whether a leak was shown by statistics; one that a fact shows is not measured by its mean."""
    return p is not None


def _change(
    part: str,
    before: str,
    after: str,
    pairs: Sequence[tuple[Row, Row]],
    cases: Mapping[str, Sequence[CaseRecord]],
    main: str,
) -> Change:
    effects = [[effect(x, y) for x, y in zip(a.cells, b.cells, strict=True)] for a, b in pairs]
    worst = tuple(min(of, key=lambda e: ORDER.index(e.kind)) for of in zip(*effects, strict=True))
    costs = [c for a, b in pairs for c in differences(cases[a.setting.id], cases[b.setting.id], (main, "auroc"))]
    names = dict.fromkeys(c.metric for c in costs)
    largest = tuple(min((c for c in costs if c.metric == name), key=lambda c: c.change) for name in names)
    return Change(part, before, after, tuple((a.number, b.number) for a, b in pairs), worst, largest)


def differences(before: Iterable[CaseRecord], after: Iterable[CaseRecord], metrics: Sequence[str]) -> tuple[Cost, ...]:
    """By how much each metric changed, paired by seed; metrics that both lack are left out."""
    costs = []
    for metric in dict.fromkeys(metrics):
        one, two = _by_seed(before, metric), _by_seed(after, metric)
        found = [two[seed] - one[seed] for seed in sorted(one.keys() & two.keys())]
        if found:
            costs.append(Cost(metric_title(metric), fmean(found), *_interval(found), len(found)))
    return tuple(costs)


def _by_seed(cases: Iterable[CaseRecord], metric: str) -> dict[int, float]:
    return {c.seed: u.value for c in cases for u in c.utility if plain_name(u.metric) == metric}


def _interval(values: Sequence[float]) -> tuple[float | None, float | None]:
    if len(values) < FEWEST:
        return None, None
    reach = stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2) * stdev(values) / sqrt(len(values))
    return fmean(values) - float(reach), fmean(values) + float(reach)


def _rank(change: Change) -> tuple[object, ...]:
    """What is shown to help first, then what leaves a leak open; of each by what it does to each group in turn, least
    favourable pairs counting.
    """
    by_group = tuple(-ORDER.index(e.kind) for e in change.effects)
    return not change.shown, not change.helps, by_group, change.part != "defense"


def unstopped(rows: Sequence[Row]) -> list[str]:
    """The nouns of the groups that leak in every setting that a federation can run and that was attacked."""
    whole = [row for row in rows if row.cells]
    if not whole:
        return []
    columns = zip(*(row.cells for row in whole), strict=True)
    return [column[0].group.noun for column in columns if all(c.verdict == "leaks" for c in column)]


def undefended(rows: Sequence[Row]) -> bool:
    """Whether rows leak, not columns, and no setting that a federation can run has a defense of updates. Parties that
    scale nothing, since they engineer features or align schemas, can have none.
    """
    whole = [row for row in rows if not row.setting.reference and row.setting.scaler]
    leaks = any("records" in c.what for row in whole for c in row.cells)
    return leaks and all(row.setting.defense == "none" for row in whole)
