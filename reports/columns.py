"""Which columns leak: the features of each setting under the attack that gets most of its records, or of the columns
that parties hold.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leakledger.audit.records import FeatureScore, Score, Setting
from leakledger.reports.findings import worst


@dataclass(frozen=True)
class ColumnTable:
    """One setting: the finding that decides about its records or columns, and its features by falling advantage."""

    setting: Setting
    finding: Score
    features: tuple[FeatureScore, ...]

    @property
    def unit(self) -> str:
        """What is measured of each."""
        return "Correlation" if self.finding.asset == "columns" else "Accuracy"


def columns(settings: Mapping[int, Setting], scores: Sequence[Score]) -> list[ColumnTable]:
    """One entry per setting whose records or columns are attacked, the leakiest first and the pooled reference last."""
    found = ((s, worst(scores, s.id, asset)) for s in settings.values() for asset in ("records", "columns"))
    rows = [ColumnTable(s, f, f.detail.features) for s, f in found if f is not None and f.detail is not None]
    return sorted(rows, key=lambda c: (c.setting.reference, -(c.finding.advantage or 0.0)))
