"""The exact stage of the portfolio: `linear_layer` and `span`, then `spear` from the rows that these found.

The first two cost milliseconds, and `spear` is tried only on gradients that they do not solve. Where the rows that one
attack proves are not all, but some attack has rows for the whole batch whose residuals are small, these fill it.
"""

from dataclasses import dataclass

import numpy as np

from leakledger.attacks.base import AuxiliaryKnowledge, RecordsClaim
from leakledger.attacks.gradient.linear_layer import LinearLayer
from leakledger.attacks.gradient.portfolio.claims import encoded, explains, joined, solves, some, strongest, verified
from leakledger.attacks.gradient.span import Span
from leakledger.attacks.gradient.spear import Spear
from leakledger.attacks.observed.tabular import StructuralPrior
from leakledger.attacks.observed.update import ObservedUpdate

# A residual that rounding can leave of a row with a faint share of the gradient. Too small: such batches go to guesses;
# too large: wrong rows go before them.
NEARLY = 1e-3


@dataclass(frozen=True)
class ExactAttacks:
    """The members of the portfolio that are exact, each with its options."""

    linear_layer: LinearLayer
    span: Span
    spear: Spear


def exact_rows(
    update: ObservedUpdate, knowledge: AuxiliaryKnowledge, prior: StructuralPrior, attacks: ExactAttacks
) -> RecordsClaim | None:
    """A batch that explains the update, nearly at least, or the rows that one attack proved; None where none did."""
    shown = attacks.linear_layer.invert(update, knowledge)
    outcomes = shown, attacks.span.invert(update, knowledge)
    claims = [c for c in outcomes if isinstance(c, RecordsClaim)]
    if update.schedule is None and not any(solves(c, update) and verified(c).all() for c in claims):
        known = np.concatenate([encoded(prior, None), *(encoded(prior, c) for c in claims)])
        searched = attacks.spear.invert(update, knowledge, known)
        claims += [searched] if isinstance(searched, RecordsClaim) else []
    if isinstance(shown, RecordsClaim) and update.rows > 1:  # its residuals are those of each row, not of the batch
        claims[0] = some(shown, verified(shown))
    top, whole = strongest(claims, update), next((c for c in claims if explains(c, update, NEARLY)), None)
    if top is None or whole is None or solves(top, update):
        return top
    return joined(prior, update, top, whole)
