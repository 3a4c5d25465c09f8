"""Plain words for what adversaries may learn, who they are and how rows are known.

The record names assets one by one (means, deviations, quartiles, ...); a first screen has room for what people ask
about: rows, values, statistics, sizes, membership. What belongs to none of these stands under checks.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from leakledger.audit.records import ASSETS, COUNTED, INFORMATION, Level, Score, check_title

CHECKS = "check"  # the asset of rulings about what checks of the protocol show


@dataclass(frozen=True)
class Group:
    """Assets that one column stands for: its heading, what the heading means, and the noun of a sentence."""

    id: str
    heading: str
    meaning: str
    noun: str
    assets: tuple[str, ...]


def _rest() -> tuple[str, ...]:
    return tuple(a for a in ASSETS if a not in {"records", "columns", "vocabulary", "membership", *COUNTED})


GROUPS = (
    Group("rows", "Rows", "of people: cells or whole columns", "people's rows", ("records", "columns")),
    Group("values", "Values", "which ones a party holds", "which values each party holds", ("vocabulary",)),
    Group("statistics", "Statistics", "of one party: means, extremes, rates", "parties' own statistics", _rest()),
    Group("sizes", "Sizes", "of one party: rows, distinct values", "parties' sizes", COUNTED),
    Group("membership", "Membership", "who holds a given value", "who holds a given value", ("membership",)),
)

NOUNS = {
    **ASSETS,
    "records": "cells of rows",
    "columns": "columns, record by record",
    "vocabulary": "values held",
    "membership": "the ranking of who holds a value",
    "size": "numbers of distinct values",
    "count": "row counts",
    "target_rate": "rates of the outcome",
    "held_out_count": "counts of held-out rows",
    "held_out_rate": "rates of the outcome in held-out rows",
    "held_out_mean": "means of the target in held-out rows",
    "held_out_std": "deviations of the target in held-out rows",
    CHECKS: "what checks of the protocol show",
}

OF_ALL = {"sizes": "size"}
"""The asset with which metrics over all claims of a kind stand: how far they are off, how often they cover."""

LEVELS: dict[Level, str] = {
    "": "",
    "value": "by their values",
    "pseudonym": "by number, without the names of values",
    "code": "by the codes that a method makes of values",
}
"""How rows are known, after "rows known"."""


def level(name: str) -> str:
    """How rows are known, in words; the name itself for a level of a later version."""
    return next((words for known, words in LEVELS.items() if known == name), name)


def noun(asset: str) -> str:
    """What there is to learn, in the plural, or what a check found; the name itself for one of a later version."""
    return NOUNS.get(asset) or check_title(asset)


def group_of(asset: str) -> str:
    """The id of the asset's group; that of checks for what belongs to none."""
    return next((g.id for g in GROUPS if asset in g.assets), CHECKS)


def unplayed(asked: Iterable[str]) -> list[str]:
    """The nouns of the groups that none of the assets `asked` is of: on these no attack was played."""
    groups = {group_of(asset) for asset in asked}
    return [g.noun for g in GROUPS if g.id not in groups]


def asset_of(score: Score) -> str:
    """The asset that a score is about: its own, or the statistic or size that its metric names."""
    if score.asset in ASSETS:
        return score.asset
    metric = score.metric.removesuffix(INFORMATION)
    return metric if metric in ASSETS else OF_ALL.get(score.asset, score.asset)


def adversary(kind: str) -> str:
    """A kind of adversary as the subject of a sentence, without its first capital."""
    return {"server": "the server", "one client": "a single client"}.get(kind, kind)


def capitalised(text: str) -> str:
    """`text` with a first capital; the rest stays as it is."""
    return text[:1].upper() + text[1:]


def listed(words: list[str]) -> str:
    """a, b and c."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def nothing_said(groups: list[str]) -> str:
    """A sentence that names what no attack was played on, by its nouns (`unplayed`); "" for nothing."""
    return f"No attack was played on {listed(groups)}: nothing is said of that." if groups else ""


def dealt(seeds: Sequence[int]) -> str:
    """Under which seed the rows of parties are counted, behind what they are dealt by; "" where there is one: others
    may deal others.
    """
    return f" under seed {seeds[0]}, the first" if len(seeds) > 1 else ""
