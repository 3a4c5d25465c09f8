"""Entries that are known to lie in an interval: their exact likelihood, beside the normal one that chains move by.

Pruning and quantisation tell of an entry u = s + e, s the sum of all rows' gradients and e normal with deviation
`smear`, no more than that it is within `halves` h of the number that was sent. With r the residual of that number,

    P(sent | s) = Phi((r + h) / smear) - Phi((r - h) / smear)

(Tobin 1958). Stochastic rounding by steps of h sends a number with probability 1 - |u - sent| / h, so there it is the
mean of that triangle under the normal distribution, a second difference of an integral of Phi.

Neither is a quadratic form, so no conditional of a row is closed form. But a visit that is reversible for the normal
errors of the same mean square is a proposal for the exact posterior: it is accepted by the ratio of exact and normal
likelihoods (the surrogate transition method, Liu 2001, section 9.4.3). Wrong numbers break bounds somewhere among
thousands of entries long before they make a mean square larger.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

OUTSIDE = 4.0  # deviations: beyond, differences of probabilities cancel in single precision
SMALLEST = 1e-300
TINY = 1e-12
REACH = 5.0  # deviations, how far from its place an entry may be sent
LEAST = -1e12  # a log likelihood that is finite still
ROOT = math.sqrt(2)
LOG_ROOT_TAU = math.log(math.sqrt(2 * math.pi))


@dataclass(frozen=True, eq=False)
class Intervals:
    """Per layer `halves` (out, in + 1) of the intervals, 0 where an entry is known but for its `smear`; `triangular`
    where rounding is stochastic; `neighbours` where numbers beside the one that was sent might have been, too.
    """

    halves: list[Tensor] = field(repr=False)
    smear: float
    triangular: bool = False
    neighbours: bool = True

    def advantage(self, residual: Sequence[Tensor], weights: Sequence[Tensor], noise: float) -> Tensor:
        """(C,) how much likelier a residual (C, out, in + 1) per layer is than normal errors of deviation
        `noise` / sqrt(weight) have it, in logarithms and up to a constant.
        """
        total = self.log_likelihood(residual)
        for rest, half, weight in zip(residual, self.halves, weights, strict=True):
            bounded = half > 0
            total += (rest[:, bounded] ** 2 * weight[bounded]).sum(1, dtype=torch.float64) / (2 * noise**2)
        return total

    def log_likelihood(self, residual: Sequence[Tensor]) -> Tensor:
        """(C,) of the entries that are known by an interval, in double precision."""
        parts = zip(residual, self.halves, strict=True)
        return torch.stack([self._within(r[:, half > 0], half[half > 0]).sum(1) for r, half in parts]).sum(0)

    def surprise(self, residual: Sequence[Tensor]) -> Tensor:
        """(C,) by how many standard deviations the log likelihood is below what is to be expected of what was sent, if
        the residual's own sum were the truth: each entry is sent as it was or as a neighbouring number, or, where none
        neighbours it, not so.
        """
        below, variance = [], []
        for rest, half in zip(residual, self.halves, strict=True):
            left, width = rest[:, half > 0], half[half > 0]
            own = self._within(left, width)
            mean, square = torch.zeros_like(own), torch.zeros_like(own)
            for log_p in self._outcomes(own, left, width):
                mean += log_p.exp() * log_p
                square += log_p.exp() * log_p**2
            below.append((mean - own).sum(1))
            variance.append((square - mean**2).sum(1))
        return torch.stack(below).sum(0) / (torch.stack(variance).sum(0) + 1).sqrt()

    def _outcomes(self, own: Tensor, left: Tensor, width: Tensor) -> Iterator[Tensor]:
        """The log probability of each number that may have been sent in the place of entries (C, n)."""
        yield own
        if not self.neighbours:
            yield torch.log1p(-own.exp().clamp(max=1 - TINY))
            return
        apart = width if self.triangular else 2 * width
        for k in range(1, 2 + math.ceil(REACH * self.smear / float(apart.min()) if len(apart) else 0)):
            yield self._within(left + k * apart, width)
            yield self._within(left - k * apart, width)

    def _within(self, left: Tensor, width: Tensor) -> Tensor:
        """(C, n) the log likelihoods of entries with such a residual, in double precision."""
        own = log_within_triangle if self.triangular else log_within
        return own(left, width, self.smear).double().clamp_min(LEAST)

    @property
    def free(self) -> int:
        """How many entries have no interval."""
        return int(sum((half == 0).sum() for half in self.halves))


def log_within(residual: Tensor, half: Tensor, smear: float) -> Tensor:
    """log(Phi((r + h) / smear) - Phi((r - h) / smear)), as exact far outside as within."""
    away, wide = residual.abs(), half.expand_as(residual)
    found = torch.log(torch.special.ndtr((wide - away) / smear) - torch.special.ndtr((-wide - away) / smear))
    outside = (away - wide) / smear > OUTSIDE  # few entries of a likely batch; for all, their logarithm is slow
    upper = torch.special.log_ndtr((wide - away)[outside].double() / smear)
    lower = torch.special.log_ndtr((-wide - away)[outside].double() / smear)
    found[outside] = (upper + torch.log1p(-torch.exp(lower - upper))).to(found.dtype)
    return found


def log_within_triangle(residual: Tensor, half: Tensor, smear: float) -> Tensor:
    """The log of the mean of (1 - |x| / h)+ over x normal about r: a second difference, so in double precision."""
    away, wide = residual.double().abs(), half.double().expand_as(residual)
    parts = (_integral((wide - away) / smear), _integral(-away / smear), _integral((-wide - away) / smear))
    found = torch.log((parts[0] - 2 * parts[1] + parts[2]).clamp_min(SMALLEST))
    outside = (away - wide) / smear > OUTSIDE
    found[outside] = _log_tail((away - wide)[outside] / smear)
    return found + torch.log(smear / half.double())


def _integral(x: Tensor) -> Tensor:
    """x Phi(x) + phi(x), the integral of Phi up to x."""
    found: Tensor = x * torch.special.ndtr(x) + torch.exp(-(x**2) / 2 - LOG_ROOT_TAU)
    return found


def _log_tail(y: Tensor) -> Tensor:
    """The log of that integral at -y, of a y so large that both its terms nearly cancel."""
    mills = torch.special.erfcx(y / ROOT) * (math.pi / 2) ** 0.5  # Phi(-y) / phi(y)
    return torch.log((1 - y * mills).clamp_min(SMALLEST)) - y**2 / 2 - LOG_ROOT_TAU
