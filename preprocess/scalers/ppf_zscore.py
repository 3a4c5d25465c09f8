"""`ppf-zscore`: z-score by the mean and variance of all rows, computed on ciphertexts; only these two are decrypted.

Source: "Bridging Local and Federated Data Normalization in Federated Learning", section V-A, algorithm 1. Clients
encrypt their sums and row counts; the server adds them up, inverts the count, and multiplies; mean and, after a second
round, variance are decrypted by all clients together and told to everyone.

The row count is in every slot once, as the pipeline has the same rows for every feature: it is inverted for all.
Line 16, which refreshes the inverse, is where the wide products need it (`crypto.threshold_ckks.wide`). Decryptions are
under smudging, of which the paper does not speak: the mean and the squared deviation are off by about
2^(hiding_bits - 67) of half the declared range at the ring of 2^14, ten clients, and rows up to 2^20.
A column counts as constant where its variance is within six such deviations.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import log2, sqrt
from typing import Literal

import numpy as np

from leakledger.preprocess.crypto.threshold_ckks import wide
from leakledger.preprocess.crypto.threshold_ckks.ciphertexts import Encrypted
from leakledger.preprocess.crypto.threshold_ckks.parameters import Parameters, parameters
from leakledger.preprocess.crypto.threshold_ckks.protocol import Collective
from leakledger.preprocess.crypto.threshold_ckks.wide import Wide
from leakledger.preprocess.federation import At, Federation
from leakledger.preprocess.messages import GlobalDeviations, GlobalMeans
from leakledger.preprocess.noise.columns import Ranges
from leakledger.preprocess.options import option
from leakledger.preprocess.scalers.base import Matrix, ScalerFit, Vector, shared_fit
from leakledger.preprocess.scalers.encrypted import EncryptedScaler, check_rows, joined, slices, taken
from leakledger.preprocess.scalers.federated_zscore import as_public

CERTAIN = 6  # standard deviations of smudging


@dataclass(frozen=True)
class PpfZScore(EncryptedScaler):
    inverse_range: Literal[20, 30] = option(20, help="binary logarithm of how many rows all clients may have together")

    name = "ppf-zscore"
    reference = "Bridging Local and Federated Data Normalization in Federated Learning, section V-A, algorithm 1"
    said_to_share = 'pooled mean and variance, with everyone ("reveals only the final outputs", section V-A)'

    @property
    def multiplying(self) -> tuple[float, float]:
        return 3.0, 1.8e8

    def faintest(self, clients: int) -> float:
        of = parameters(self.log_degree)
        bits = wide.quotient_smudging(of, clients, self.inverse_range, 0, self.hiding_bits)
        return sqrt(CERTAIN * smudged(of, clients, bits + 1))  # a scale is rounded up to a whole number of bits

    def fit(self, fed: Federation, columns: Mapping[str, At[Matrix]]) -> ScalerFit:
        """Raises ValueError, naming the party, for a value outside its declared range and for too many rows."""
        columns = self.checked(fed, columns)
        return self.fit_with(self.keys(fed), columns)

    def fit_with(self, run: Collective, columns: Mapping[str, At[Matrix]]) -> ScalerFit:
        """The protocol after its first line, with keys at hand; columns within their ranges."""
        fed, ranges = run.fed, self.declared()
        most, of = 2**self.inverse_range // len(columns), run.parameters
        columns = {c: fed.local(c, check_rows, x, most, c, self.name) for c, x in columns.items()}
        counts = {c: fed.local(c, row_counts, x, of.slots) for c, x in columns.items()}
        divisor = self._total(run, counts, wide.divisor_scale(of, self.inverse_range))
        inverse = wide.inverse(run, divisor, self.inverse_range)

        sums = {c: fed.local(c, unit_sums, x, ranges) for c, x in columns.items()}
        quotient, _ = self._quotient(run, sums, inverse)
        mean = fed.broadcast(fed.local(fed.server, as_means, ranges, quotient))
        squares = {c: fed.local(c, unit_squares, x, ranges, mean) for c, x in columns.items()}
        variance, noise = self._quotient(run, squares, inverse)
        std = fed.broadcast(fed.local(fed.server, as_deviations, ranges, noise, variance))
        return shared_fit(fed, columns, fed.public(as_public, mean, std))

    def _total(self, run: Collective, own: Mapping[str, At[Vector]], scale: float) -> Wide:
        """The sum of what clients encrypt, each up to its share of the range."""
        bound = 2.0**self.inverse_range
        parts = [run.encrypted(c, x, bound / len(own), scale) for c, x in own.items()]
        at = run.fed.local(run.fed.server, bounded, run.total(parts).at, bound)
        return Wide(at, run.parameters.top, log2(scale), bound)

    def _quotient(self, run: Collective, own: Mapping[str, At[Vector]], inverse: Wide) -> tuple[At[Vector], float]:
        """(F,) the sums over all rows by their count, decrypted at the server; and what smudging adds to each, one
        standard deviation.
        """
        fed, of, found, noise = run.fed, run.parameters, [], 0.0
        for part in slices(len(self.declared().features), of.slots):
            mine = {c: fed.local(c, taken, x, part) for c, x in own.items()}
            quotient = wide.product(run, self._total(run, mine, wide.dividend_scale(of)), inverse, 2.0)
            bits = wide.quotient_smudging(of, len(own), self.inverse_range, quotient.bits, self.hiding_bits)
            found.append(wide.decrypted(run, quotient, part.stop - part.start, bits))
            noise = smudged(of, len(own), bits - quotient.bits)
        return fed.local(fed.server, joined, *found), noise


def smudged(of: Parameters, clients: int, bits: float) -> float:
    """The standard deviation, in a slot, of what so many clients add to a decryption: uniform coefficients of up to
    2^bits, in units of the scale.
    """
    deviation: float = 2.0**bits * sqrt(clients * of.degree / 6)
    return deviation


def bounded(total: Encrypted, bound: float) -> Encrypted:
    """Clients checked their part of the bound."""
    assert total.bound <= bound * (1 + 2.0**-40)
    return total


def row_counts(columns: Matrix, slots: int) -> Vector:
    """In every slot, as any may be divided by."""
    return np.full(slots, float(len(columns)))


def unit_sums(columns: Matrix, ranges: Ranges) -> Vector:
    """Of the columns on [-1, 1]."""
    total: Vector = ranges.unit(columns).sum(axis=0)
    return total


def unit_squares(columns: Matrix, ranges: Ranges, told: GlobalMeans) -> Vector:
    """Squared deviations from the mean, on a scale on which none is above 1."""
    total: Vector = (((columns - told.mean) / (2 * ranges.half)) ** 2).sum(axis=0)
    return total


def as_means(ranges: Ranges, mean: Vector) -> GlobalMeans:
    return GlobalMeans(ranges.middle + ranges.half * np.clip(mean, -1, 1))


def as_deviations(ranges: Ranges, noise: float, variance: Vector) -> GlobalDeviations:
    std = 2 * ranges.half * np.sqrt(np.clip(variance, 0, 1))
    return GlobalDeviations(np.where(variance > CERTAIN * noise, std, 0.0))
