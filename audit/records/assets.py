"""What there is to learn, by which metric it is told, and what may be said of it."""

from typing import Literal

Status = Literal["scored", "abstained", "not_applicable", "inconclusive"]
Decision = Literal["leaks", "no leak", "inconclusive"]

Level = Literal["", "value", "pseudonym", "code"]
"""How records are known: by their values, by numbers without names, by what a method makes of them; "" elsewhere."""

Observers = tuple[str, ...]
Kind = Literal["categorical", "numeric"]

CELLWISE = ("records", "columns")
"""Assets scored cell by cell: what one of their columns tells is a result of its own; of others it is for bounds."""

HEADLINE = {"records": "accuracy", "vocabulary": "f1", "membership": "auc", "columns": "correlation"}
"""The metric that speaks for an asset where several describe one attack; elsewhere every metric speaks for itself."""

QUALITY = frozenset({"size_error", "size_coverage", "false_exact"})
"""Metrics that say how good claims are, beside those that say how much was learnt: they decide nothing."""

ASSETS = {
    "vocabulary": "values",
    "membership": "who holds them",
    "size": "sizes",
    "count": "counts",
    "mean": "means",
    "std": "deviations",
    "minimum": "minima",
    "maximum": "maxima",
    "quantile": "quartiles",
    "frequency": "shares of values",
    "target_rate": "target rates",
    "held_out_count": "held-out counts",
    "held_out_rate": "held-out rates",
    "held_out_mean": "held-out means",
    "held_out_std": "held-out deviations",
    "columns": "columns",
    "records": "records",
}
"""What there is to learn, and its heading in tables: assets with a headline metric, the metrics of the others."""

COUNTED = ("count", "size", "held_out_count")
"""Statistics that are whole numbers of something: known when exact."""

HELD_OUT = tuple(a for a in ASSETS if a.startswith("held_out"))
"""What is about rows kept for evaluation, and about the target alone."""

INFORMATION = "_information"
"""Ends the name of the graded metric of a statistic or size."""


def speaks(asset: str, metric: str) -> bool:
    """Whether a metric stands for how much leaked of an asset."""
    return metric == HEADLINE.get(asset, metric) and metric not in QUALITY and not metric.endswith(INFORMATION)
