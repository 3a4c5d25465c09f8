"""The exact stage of the portfolio: `linear_layer` and `span`, then `atoms` and `spear` from the rows that these found.

The first two cost milliseconds, and the others are tried only on gradients that they do not solve: `atoms` whatever the
activation, `spear` where it is ReLU and that is not enough. What `spear` then finds is held against all layers again.
Where the rows that one attack proves are not all, but some attack has rows for the whole batch whose residuals are
small, these fill it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from leakledger.attacks.base import AuxiliaryKnowledge, RecordsClaim
from leakledger.attacks.gradient.atoms import Atoms
from leakledger.attacks.gradient.linear_layer import LinearLayer
from leakledger.attacks.gradient.portfolio.claims import encoded, explains, joined, solves, some, strongest, verified
from leakledger.attacks.gradient.span import Span
from leakledger.attacks.gradient.spear import Spear
from leakledger.attacks.observed.row_space import RANK_TOLERANCE, RowSpace, row_space
from leakledger.attacks.observed.tabular import StructuralPrior
from leakledger.attacks.observed.update import ObservedUpdate

# A residual that rounding can leave of a row with a faint share of the gradient. Too small: such batches go to guesses;
# too large: wrong rows go before them.
NEARLY = 1e-3
# The precision of a row space beyond which `atoms` and `spear` are not tried. Too small: batches that they have whole
# go to guesses; too large: they search for minutes in vain.
BLURRED = 1e-3


@dataclass(frozen=True)
class ExactAttacks:
    """The members of the portfolio that are exact, each with its options."""

    linear_layer: LinearLayer
    span: Span
    atoms: Atoms
    spear: Spear


def exact_rows(
    update: ObservedUpdate, knowledge: AuxiliaryKnowledge, prior: StructuralPrior, attacks: ExactAttacks
) -> RecordsClaim | None:
    """A batch that explains the update, nearly at least, or the rows that one attack proved; None where none did."""
    shown = attacks.linear_layer.invert(update, knowledge)
    outcomes = shown, attacks.span.invert(update, knowledge)
    claims = [c for c in outcomes if isinstance(c, RecordsClaim)]
    if update.schedule is None and not blurred(update):
        claims += searched(update, knowledge, prior, attacks, claims)
    if isinstance(shown, RecordsClaim) and update.rows > 1:  # its residuals are those of each row, not of the batch
        claims[0] = some(shown, verified(shown))
    top, whole = strongest(claims, update), next((c for c in claims if explains(c, update, NEARLY)), None)
    if top is None or whole is None or solves(top, update):
        return top
    return joined(prior, update, top, whole)


def blurred(update: ObservedUpdate) -> bool:
    """Whether noise is known that turns the row space by more than searches through it bear: they take minutes then,
    and end in nothing.
    """
    space = row_space(update, RANK_TOLERANCE) if update.noise else ""
    return isinstance(space, RowSpace) and space.precision > BLURRED


def searched(
    update: ObservedUpdate,
    knowledge: AuxiliaryKnowledge,
    prior: StructuralPrior,
    attacks: ExactAttacks,
    claims: Sequence[RecordsClaim],
) -> list[RecordsClaim]:
    """What `atoms` and `spear` make of a gradient that `claims` do not solve, each from the rows of those before."""
    more = list[RecordsClaim]()
    last = replace(attacks.atoms, attempts=0)
    for attack in (attacks.atoms, attacks.spear, last):
        if any(solves(c, update) and verified(c).all() for c in (*claims, *more)) or (attack is last and not more):
            break
        known = np.concatenate([encoded(prior, None), *(encoded(prior, c) for c in (*claims, *more))])
        outcome = attack.invert(update, knowledge, np.unique(known, axis=0))
        more += [outcome] if isinstance(outcome, RecordsClaim) else []
    return more
