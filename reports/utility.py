"""The utility metrics of an audit as tables, and the one that stands for utility in the leakage-utility plane."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from leakledger.audit.records import UtilityScore, at_least, at_most, metric_title, plain_name
from leakledger.reports import text

# The first of these that an audit measured is its main metric: all are better when higher.
MAIN = ("f1", "macro_f1", "r2", "auroc", "accuracy")
BYTES = frozenset({"bytes", "upload_bytes", "download_bytes"})
COUNTS = frozenset({"messages", "rounds", "parameters", "input_width", "epochs", "features_made", "truncated"})
COSTS = (BYTES | COUNTS | {"seconds"}) - {"features_made"}
WIDEST = 6  # metrics side by side that a printed page can hold


@dataclass(frozen=True)
class UtilityTable:
    """Settings by metrics: `cells[i][j]` is the score of `settings[i]` on `metrics[j]`, None where not measured."""

    kind: str
    metrics: tuple[str, ...]
    settings: tuple[str, ...]
    cells: tuple[tuple[UtilityScore | None, ...], ...]

    @property
    def columns(self) -> list[str]:
        """The metrics as column heads; # marks a column of numbers."""
        return [f"#{metric_title(metric)}" for metric in self.metrics]


def main_metric(scores: Iterable[UtilityScore]) -> str | None:
    """The metric that stands for utility, as the record spells it; None where no known one was measured."""
    spelled = {plain_name(s.metric): s.metric for s in scores}
    return next((spelled[name] for name in MAIN if name in spelled), None)


def tables(scores: Sequence[UtilityScore]) -> list[UtilityTable]:
    """The model's metrics, then the costs, at most `WIDEST` metrics to a table, in the order of the record."""
    metrics = list(dict.fromkeys(s.metric for s in scores))
    kinds = {
        "Utility on held-out rows": [m for m in metrics if plain_name(m) not in COSTS],
        "Cost": [m for m in metrics if plain_name(m) in COSTS],
    }
    parts = [(kind, names[i : i + WIDEST]) for kind, names in kinds.items() for i in range(0, len(names), WIDEST)]
    return [_table(kind, tuple(names), scores) for kind, names in parts]


def _table(kind: str, metrics: tuple[str, ...], scores: Sequence[UtilityScore]) -> UtilityTable:
    by_place = {(s.setting, s.metric): s for s in scores}
    settings = tuple(dict.fromkeys(s.setting for s in scores))
    return UtilityTable(kind, metrics, settings, tuple(tuple(by_place.get((s, m)) for m in metrics) for s in settings))


def shown(value: float | None, metric: str) -> str:
    """`value` as its metric is best read: bytes in decimal units, counts as whole numbers, else three decimals."""
    name = plain_name(metric)
    if name in BYTES:
        return text.size(value)
    if name in COUNTS:
        return text.count(value)
    return text.seconds(value) if name == "seconds" else text.number(value)


def ends(low: float | None, high: float | None, metric: str) -> str:
    """The interval [low, high] in the units of `shown`, rounded outwards; "" where there is none."""
    if low is None or high is None:
        return ""
    if plain_name(metric) not in COSTS:
        return text.interval(low, high)
    return f"[{shown(_outwards(low, metric, at_least), metric)}, {shown(_outwards(high, metric, at_most), metric)}]"


def _outwards(value: float, metric: str, rounded: Callable[[float, int], str]) -> float:
    """An end rounded to the digits in which `shown` has it: three of bytes, one decimal of counts and seconds."""
    digits = min(0, 2 - math.floor(math.log10(abs(value)))) if plain_name(metric) in BYTES and value else 1
    return float(rounded(value, digits))
