"""Reads out whatever a view holds in the clear: dictionaries, sizes, counts, means, deviations, extremes.

Passive and exact: the claims are what the messages say, rearranged. It needs no auxiliary knowledge. Column statistics
are named by the public layout, whose numeric blocks come first and in the order of the scaler's columns.

From `zscore.mean` (n, mean m) and `zscore.variance` (S, squared deviations from the announced global mean M) follows
the client's own variance: S/n - (m - M)².
"""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np

from attacks.base import Abstained, Attack, AuxiliaryKnowledge, Outcome, Statistic, StatisticClaim, VocabularyClaim
from preprocess.views import Message, View


class Plaintext(Attack):
    technique: ClassVar[str] = "plaintext"
    reference: ClassVar[str] = "Privacy-preserving tabular data transformation, section 5.2 (what the server reads)"
    asset: ClassVar[tuple[str, ...]] = ("vocabulary", "statistics", "sizes")
    topics: ClassVar[frozenset[str]] = frozenset(
        {
            "dictionary.local",
            "pooled.categorical",
            "local.sizes",
            "zscore.mean",
            "zscore.variance",
            "minmax.local",
            "pooled.columns",
            "train.weights",
        }
    )
    assumes: ClassVar[str] = "honest but curious observer of open messages; no auxiliary knowledge"

    def run(self, view: View, knowledge: AuxiliaryKnowledge) -> Outcome:
        if not self.topics & view.topics:
            return Abstained("no message in this view carries a value in the clear")
        claims: list[StatisticClaim | VocabularyClaim] = [
            *self._vocabularies(view),
            *self._sizes(view),
            *self._moments(view),
            *self._extremes(view),
            *self._columns(view),
            *self._row_counts(view),
        ]
        return claims or Abstained("this view sent such messages itself, but received none")

    def _vocabularies(self, view: View) -> Iterable[VocabularyClaim]:
        for topic in ("dictionary.local", "pooled.categorical"):
            for m in view.received(topic):
                for feature, values in m.payload.items():
                    yield VocabularyClaim(m.sender, feature, tuple(sorted(set(values))), (m.sequence,))

    def _sizes(self, view: View) -> Iterable[StatisticClaim]:
        for m in view.received("local.sizes"):
            for feature, size in m.payload.items():
                yield _exact(m, feature, "size", size)

    def _moments(self, view: View) -> Iterable[StatisticClaim]:
        squares = {m.sender: m for m in view.received("zscore.variance")}
        announced = next((m.payload for m in view.on("zscore.global-mean")), None)
        for m in view.received("zscore.mean"):
            count, means = m.payload["count"], m.payload["mean"]
            yield _exact(m, "", "count", count)
            yield from _by_feature(view, m, "mean", means)
            if m.sender in squares and announced is not None:
                variance = squares[m.sender].payload / count - (means - announced) ** 2
                yield from _by_feature(view, m, "std", np.sqrt(np.maximum(variance, 0)), squares[m.sender].sequence)

    def _extremes(self, view: View) -> Iterable[StatisticClaim]:
        for m in view.received("minmax.local"):
            yield from _by_feature(view, m, "minimum", m.payload["minimum"])
            yield from _by_feature(view, m, "maximum", m.payload["maximum"])

    def _columns(self, view: View) -> Iterable[StatisticClaim]:
        for m in view.received("pooled.columns"):
            table = m.payload
            yield _exact(m, "", "count", len(table))
            named: Mapping[Statistic, Any] = {
                "mean": table.mean(0),
                "std": table.std(0),
                "minimum": table.min(0),
                "maximum": table.max(0),
            }
            for statistic, values in named.items():
                yield from _by_feature(view, m, statistic, values)

    def _row_counts(self, view: View) -> Iterable[StatisticClaim]:
        """FedAvg weights carry the client's row count; the first round tells it."""
        seen: set[str] = set()
        for m in view.received("train.weights"):
            if m.sender not in seen:
                seen.add(m.sender)
                yield _exact(m, "", "count", m.payload["rows"])


def _exact(message: Message, feature: str, statistic: Statistic, value: float, *more: int) -> StatisticClaim:
    number = float(value)
    return StatisticClaim(message.sender, feature, statistic, number, number, number, (message.sequence, *more))


def _by_feature(view: View, m: Message, statistic: Statistic, values: Any, *more: int) -> Iterable[StatisticClaim]:
    """One claim per numeric feature of the layout; columns beyond them are encoded categories."""
    for block in view.public.layout.numeric if view.public.layout else ():
        if block.start < len(values):
            yield _exact(m, block.feature, statistic, values[block.start], *more)
