"""What the portfolio asks of claims: which solve a batch, which of their rows are certain, and how two are joined."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from leakledger.attacks.base import RecordsClaim
from leakledger.attacks.gradient.exact.certificate import RESIDUAL, granted
from leakledger.attacks.gradient.matching.ensemble import differing_share
from leakledger.attacks.observed.affine import Array, affine
from leakledger.attacks.observed.tabular import Rows, StructuralPrior
from leakledger.attacks.observed.update import ObservedUpdate


def strongest(claims: Sequence[RecordsClaim], update: ObservedUpdate) -> RecordsClaim | None:
    """The claim that solves the batch, else the certain rows of the one with the most."""
    if not claims:
        return None
    top = max(claims, key=lambda c: (solves(c, update), certain(c, update).sum()))
    return top if solves(top, update) else some(top, certain(top, update))


def solves(claim: RecordsClaim, update: ObservedUpdate) -> bool:
    """Whether the claim's rows are the whole batch and together explain the gradient, each proven or not."""
    return explains(claim, update, granted(affine(update.gradient, 0), update.noise, RESIDUAL))


def explains(claim: RecordsClaim, update: ObservedUpdate, limit: float) -> bool:
    """Whether the claim has as many rows as the batch, each with a residual up to `limit`."""
    return len(claim.numbers) == update.rows and bool((residual_of(claim) <= limit).all())


def verified(claim: RecordsClaim) -> NDArray[np.bool_]:
    return np.zeros(len(claim.numbers), bool) if claim.verified is None else claim.verified


def certain(claim: RecordsClaim, update: ObservedUpdate) -> NDArray[np.bool_]:
    """The rows that are verified, and those of which only the numbers are unsure: all of sure categories behind noise,
    else those of which the claim says so.
    """
    proven: NDArray[np.bool_] = (claim.category_entropy == 0).all(1) & (claim.category_entropy.shape[1] > 0)
    return verified(claim) | (proven if update.noise else proven & (claim.number_entropy == 1).any(1))


def residual_of(claim: RecordsClaim) -> Array:
    return np.full(len(claim.numbers), np.inf) if claim.residual is None else claim.residual


def some(claim: RecordsClaim, chosen: NDArray[Any]) -> RecordsClaim:
    """The rows of `claim` that are `chosen`, by mask or number."""
    names = ("categories", "numbers", "category_entropy", "number_entropy", "residual", "verified", "probability")
    return replace(claim, **{n: a[chosen] for n in names if (a := getattr(claim, n)) is not None})


def encoded(prior: StructuralPrior, claim: RecordsClaim | None) -> Array:
    """The encoded rows (n, d) of a claim; none of no claim."""
    if claim is None:
        return np.zeros((0, prior.width))
    return prior.encode(Rows(claim.categories, claim.numbers))


def joined(prior: StructuralPrior, update: ObservedUpdate, proven: RecordsClaim, guessed: RecordsClaim) -> RecordsClaim:
    """Proven rows and guessed ones; where these are too many, those most like proven rows give way."""
    excess = len(proven.numbers) + len(guessed.numbers) - update.rows
    if excess > 0:
        known, rows = (Rows(c.categories, c.numbers) for c in (proven, guessed))
        unlike = differing_share(known, rows, prior.deviation)
        mine, double = linear_sum_assignment(unlike)
        double = double[np.argsort(unlike[mine, double], kind="stable")[:excess]]
        guessed = some(guessed, np.delete(np.arange(len(guessed.numbers)), double))
    return replace(
        proven,
        categories=np.concatenate([proven.categories, guessed.categories]),
        numbers=np.concatenate([proven.numbers, guessed.numbers]),
        category_entropy=np.concatenate([proven.category_entropy, guessed.category_entropy]),
        number_entropy=np.concatenate([proven.number_entropy, guessed.number_entropy]),
        residual=np.concatenate([residual_of(proven), residual_of(guessed)]),
        verified=np.concatenate([verified(proven), verified(guessed)]),
    )
