"""`server-zscore`: the server pools the clients' counts, means and squared deviations, received in the clear.

Source: "Privacy-preserving tabular data transformation", eq. 4 and 5, with the server as in section 5.2. Two rounds:
each client sends its count and means and learns the global mean; then it sends the sum of squared deviations from that
global mean (the sigma_if^2 of eq. 5, which the paper divides by the total count only after summing) and learns the
global deviation.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from leakledger.preprocess.federation import At, Federation
from leakledger.preprocess.messages import GlobalDeviations, GlobalMeans, LocalMeans, LocalSquares
from leakledger.preprocess.options import option
from leakledger.preprocess.scalers.base import (
    Matrix,
    PublicScaling,
    Scaler,
    ScalerFit,
    beyond_rounding,
    nonzero,
    shared_fit,
)


@dataclass(frozen=True)
class ServerZScore(Scaler):
    """`ddof` 0 divides by the total count (eq. 5), 1 by one less."""

    ddof: Literal[0, 1] = option(0, help="a variance divides by the count less this")

    name = "server-zscore"
    reference = "Privacy-preserving tabular data transformation, sections 5.2 and 6, eq. 4 and 5"
    said_to_share = "each client's count, means and deviations, with the server; pooled ones, with all (section 5.2)"

    def fit(self, fed: Federation, columns: Mapping[str, At[Matrix]]) -> ScalerFit:
        means = {c: fed.local(c, count_and_means, x) for c, x in columns.items()}
        received = fed.gather(means, to=fed.server)
        mean = fed.broadcast(fed.local(fed.server, weighted_mean, *received))

        deviations = {c: fed.local(c, squared_deviations, x, mean) for c, x in columns.items()}
        squares = fed.gather(deviations, to=fed.server)
        total = fed.local(fed.server, total_count, *received)
        std = fed.broadcast(fed.local(fed.server, pooled_std, self.ddof, total, mean, *squares))
        return shared_fit(fed, columns, fed.public(as_public, mean, std))


def count_and_means(columns: Matrix) -> LocalMeans:
    return LocalMeans(len(columns), columns.mean(axis=0))


def weighted_mean(*parts: LocalMeans) -> GlobalMeans:
    """Around the first mean, so that equal means give exactly that mean."""
    total, first = total_count(*parts), parts[0].mean
    return GlobalMeans(first + sum(((p.mean - first) * (p.count / total) for p in parts), np.zeros_like(first)))


def total_count(*parts: LocalMeans) -> int:
    return sum(p.count for p in parts)


def squared_deviations(columns: Matrix, told: GlobalMeans) -> LocalSquares:
    return LocalSquares(((columns - told.mean) ** 2).sum(axis=0))


def pooled_std(ddof: int, total: int, told: GlobalMeans, *parts: LocalSquares) -> GlobalDeviations:
    """0 where a column is constant but for rounding."""
    squares = np.sum([p.squares for p in parts], axis=0)
    return GlobalDeviations(beyond_rounding(np.sqrt(squares / max(total - ddof, 1)), told.mean))


def as_public(means: GlobalMeans, deviations: GlobalDeviations) -> PublicScaling:
    return PublicScaling(shift=means.mean, scale=nonzero(deviations.std))
