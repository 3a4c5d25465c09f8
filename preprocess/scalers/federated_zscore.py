"""`federated-zscore`: the server pools the clients' counts, means and squared deviations, received in the clear.

Source: "Privacy-preserving tabular data transformation", eq. 4 and 5, with the server as in section 5.2. Two rounds:
each client sends its count and means and learns the global mean; then it sends the sum of squared deviations from that
global mean (the sigma_if^2 of eq. 5, which the paper divides by the total count only after summing) and learns the
global deviation.

With `scaler_epsilon` one round does, of numbers with noise (`noise.columns`): each client sends its count, and of every
column the sum and the sum of squares within the declared range; the server tells everyone the totals, from which mean
and deviation follow. Noise is discrete Laplace, or with `scaler_delta` discrete Gaussian.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.federation import At, Federation
from leakledger.preprocess.messages import (
    GlobalDeviations,
    GlobalMeans,
    LocalMeans,
    LocalSquares,
    NoisedMoments,
    NoisedMomentTotals,
)
from leakledger.preprocess.noise.calibration import Noise
from leakledger.preprocess.noise.columns import (
    Ranges,
    describe_moments,
    mean_and_std,
    moments_noise,
    noised_moments,
    total_moments,
)
from leakledger.preprocess.options import option
from leakledger.preprocess.scalers.base import (
    Matrix,
    NoisedScaler,
    PublicScaling,
    ScalerFit,
    beyond_rounding,
    nonzero,
    shared_fit,
)
from leakledger.preprocess.views import Mechanism


@dataclass(frozen=True)
class FederatedZScore(NoisedScaler):
    """`ddof` 0 divides by the total count (eq. 5), 1 by one less."""

    ddof: Literal[0, 1] = option(0, help="a variance divides by the count less this")
    scaler_delta: float = option(
        0.0, at_least=0, below=1, help="0: Laplace noise; above: Gaussian noise of this (epsilon, delta)"
    )

    name = "federated-zscore"
    reference = "Privacy-preserving tabular data transformation, sections 5.2 and 6, eq. 4 and 5"
    said_to_share = "each client's count, means and deviations, with the server; pooled ones, with all (section 5.2)"

    def fit(self, fed: Federation, columns: Mapping[str, At[Matrix]]) -> ScalerFit:
        if self.scaler_epsilon is not None:
            return self._fit_noised(fed, columns, self.declared())
        means = {c: fed.local(c, count_and_means, x) for c, x in columns.items()}
        received = fed.gather(means, to=fed.server)
        mean = fed.broadcast(fed.local(fed.server, weighted_mean, *received))

        deviations = {c: fed.local(c, squared_deviations, x, mean) for c, x in columns.items()}
        squares = fed.gather(deviations, to=fed.server)
        total = fed.local(fed.server, total_count, *received)
        std = fed.broadcast(fed.local(fed.server, pooled_std, self.ddof, total, mean, *squares))
        return shared_fit(fed, columns, fed.public(as_public, mean, std))

    def _fit_noised(self, fed: Federation, columns: Mapping[str, At[Matrix]], ranges: Ranges) -> ScalerFit:
        noise = self.noise(ranges)
        told = {c: fed.local(c, noised_moments, x, ranges, noise, fed.key_stream(c)) for c, x in columns.items()}
        received = fed.gather(told, to=fed.server, kind=NoisedMoments)
        totals = fed.broadcast(fed.local(fed.server, total_moments, *received))
        return shared_fit(fed, columns, fed.public(partial(from_totals, ranges, noise, self.ddof), totals))

    def noise(self, ranges: Ranges) -> Noise:
        """The noise on each number. Raises ValueError where the budget asks for more than there is."""
        assert self.scaler_epsilon is not None
        return moments_noise(ranges, self.scaler_epsilon, self.scaler_delta)

    def mechanisms(self, schema: Schema) -> tuple[Mechanism, ...]:
        if self.scaler_epsilon is None:
            return ()
        ranges = self.under(schema).declared()
        return describe_moments(ranges, self.noise(ranges), NoisedMoments.topic)


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


def from_totals(ranges: Ranges, noise: Noise, ddof: int, told: NoisedMomentTotals) -> PublicScaling:
    mean, std = mean_and_std(told, ranges, noise, ddof)
    return PublicScaling(shift=mean, scale=std, unit="noised deviation")


def as_public(means: GlobalMeans, deviations: GlobalDeviations) -> PublicScaling:
    return PublicScaling(shift=means.mean, scale=nonzero(deviations.std), unit="deviation")
