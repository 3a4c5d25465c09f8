"""The truth of a case in which parties hold other columns of the same records.

Nobody else has a party's columns, so the federation publishes no statistic that could stand in for a party's own. The
adversary with the prior alone knows the population from which records come, as in any other case: here the records that
are held out. It guesses a party's statistics by theirs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.base import KnownRows
from leakledger.audit.federate_features import Divided, Engineered
from leakledger.audit.truth import Truth, of_column

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class VerticalTruth(Truth):
    """What is true in one case of features that were made together."""

    federated: Engineered

    @property
    def divided(self) -> Divided:
        return self.federated.divided

    @property
    def holders(self) -> tuple[str, ...]:
        return tuple(self._inputs)

    @cached_property
    def _inputs(self) -> dict[str, Mapping[str, Any]]:
        return dict(self.divided.inputs)

    def rows_but(self, batches: Sequence[tuple[str, int]]) -> KnownRows:
        """None: no party holds whole rows."""
        return KnownRows()

    @cached_property
    def vocabularies(self) -> Mapping[str, Mapping[str, frozenset[str]]]:
        """Nobody holds a category."""
        return {party: {} for party in self.parties}

    @cached_property
    def own_columns(self) -> Mapping[tuple[str, str], Floats]:
        held = {(p, f): self.column(p, f) for p, own in self.divided.held.items() for f in own}
        labels = self.divided.holder, self.federated.schema.target
        return {**held, labels: self.column(*labels)}

    def numeric_of(self, party: str) -> tuple[str, ...]:
        return self.divided.held.get(party, ())  # the server may have labels alone

    def column(self, party: str, feature: str) -> Floats:
        """The column (n,) that a party holds, or under its name the class of each record. Raises KeyError for any
        other.
        """
        if (party, feature) == (self.divided.holder, self.federated.schema.target):
            return self.divided.train_labels.astype(np.float64)
        if feature not in self.divided.held.get(party, ()):
            raise KeyError(f"{party} holds no column {feature!r}")
        return self.divided.train[:, self.federated.schema.numeric.index(feature)]

    def statistic(self, party: str, feature: str, statistic: str, value: str = "") -> float:
        """One statistic of what a party holds; NaN where it holds nothing of the kind."""
        if statistic == "count":
            return float(len(self.divided.ids))
        if statistic == "target_rate":
            rate = float((self.divided.train_labels == 1).mean())
            return rate if party == self.divided.holder and not feature else float("nan")
        if feature not in self.divided.held.get(party, ()):
            return float("nan")
        return of_column(statistic, self.column(party, feature), value)

    def pooled_statistic(self, feature: str, statistic: str, value: str = "") -> float:
        """The same of the records that are held out; their number is that of the records that are not."""
        if statistic == "count":
            return float(len(self.divided.ids))
        if statistic == "target_rate":
            return float((self.divided.test_labels == 1).mean())
        numbers = self.divided.test[:, self.federated.schema.numeric.index(feature)]
        return of_column(statistic, numbers, value)
