"""How many rows a Poisson sample has: what the posterior takes for likely, where only the client knows.

A batch is given more places than rows are expected, and each place has a row or none. Before the update is seen the
number K of rows is Poisson: a client of n rows draws each with probability b / n, and n is not known. Which places
they have does not matter, so every choice of K places is as likely as any other,

    log P(choice) = log Poisson(K; b) - log (places over K).
"""

import math
from dataclasses import replace

import torch
from torch import Tensor

from leakledger.attacks.gradient.posterior.evidence import Evidence, log_ways

DEVIATIONS = 3.0  # places beyond the rows that are expected, in standard deviations of their number


def of_unknown_size(evidence: Evidence, expected: int) -> Evidence:
    """The same evidence, of a sample in which so many rows were to be expected; their labels are not known either."""
    return replace(
        evidence,
        rows=places(expected),
        labels=None,
        choices=log_choices(expected, str(evidence.label_prior.device)),
        intervals=None,  # whether rows are there is drawn by normal errors
        approximate=evidence.approximate or evidence.intervals is not None,
    )


def places(expected: int) -> int:
    """Room for all but the largest of samples: one in a thousand has more rows."""
    return expected + math.ceil(DEVIATIONS * math.sqrt(expected)) + 2


def log_choices(expected: int, device: str) -> Tensor:
    """(places + 1,) the log probability of one choice of k places, for each k."""
    k = torch.arange(places(expected) + 1)
    chances = torch.log_softmax(k * math.log(expected) - torch.lgamma(k + 1.0), 0)
    return (chances - log_ways(places(expected))).to(device)
