"""A population drawn anew by weights, where these are uneven: the better ones are copied, and the rest die out."""

import torch
from torch import Tensor

UNEVEN = 0.7  # effective share of the population under which it is drawn anew


def drawn_anew(log_weights: Tensor, coins: torch.Generator) -> Tensor | None:
    """(C,) which members, by number, follow those with `log_weights` (C,): systematic resampling, where each has as
    many followers as its weight says, but for less than one. None where the weights are even enough, or no numbers.
    """
    weights, count = torch.softmax(log_weights.double(), 0), len(log_weights)
    if not 1 / (weights**2).sum() < UNEVEN * count:
        return None
    first = torch.rand((), generator=coins, device=weights.device, dtype=torch.float64)
    points = (first + torch.arange(count, device=weights.device)) / count
    return torch.searchsorted(weights.cumsum(0), points).clamp(max=count - 1)
