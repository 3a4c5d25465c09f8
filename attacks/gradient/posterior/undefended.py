"""Claims about updates to which nothing was done: sure where the claimed rows explain them to their rounding.

So that chains move, errors are assumed of such an update (`assumed_errors`), and wrong rows may leave as little as
these. The truth leaves next to nothing once its numbers, which samples have roughly, are fitted to all layers
(`all_layers.whole`): then the rows come with these numbers, each proven or not. Where the fit takes a number of a row
that it does not prove elsewhere than most samples have it, what they say of theirs is no word for it. Otherwise some
cell is wrong, or nobody can tell, and all are claimed in doubt.
"""

from dataclasses import replace

import numpy as np

from leakledger.attacks.base import RecordsClaim
from leakledger.attacks.gradient.all_layers.whole import held
from leakledger.attacks.gradient.exact.rows import EncodedRows
from leakledger.attacks.gradient.posterior.claim import in_doubt
from leakledger.attacks.observed.affine import Array
from leakledger.attacks.observed.single_logit import two_logits
from leakledger.attacks.observed.tabular import Rows, StructuralPrior
from leakledger.attacks.observed.update import ObservedUpdate


def judged(claim: RecordsClaim, prior: StructuralPrior, gradient: ObservedUpdate, within: Array) -> RecordsClaim:
    """The claim about the batch behind an undefended `gradient`, with exact numbers or in doubt. Numbers count as right
    `within` (L,) of the true ones.
    """
    rows = EncodedRows(claim.categories, prior.encode(Rows(claim.categories, claim.numbers)))
    exact = held(two_logits(gradient), rows)
    if exact is None or exact.verified is None:
        return in_doubt(claim, prior)
    proven = exact.verified[:, None]
    return replace(
        claim,
        numbers=exact.numbers,
        category_entropy=np.where(proven, 0.0, claim.category_entropy),
        number_entropy=np.where(proven, 0.0, claim.number_entropy),
        residual=exact.residual,
        verified=exact.verified,
        probability=None if claim.probability is None else _as_fitted(claim.probability, claim, exact, within),
    )


def _as_fitted(probability: Array, claim: RecordsClaim, exact: RecordsClaim, within: Array) -> Array:
    """(B, K + L) how probable each cell is: of a number that was moved, no more than that the one before was wrong."""
    assert exact.verified is not None
    moved = (np.abs(exact.numbers - claim.numbers) > within) & ~exact.verified[:, None]
    of_cells = np.concatenate([np.zeros_like(claim.categories, bool), moved], axis=1)
    return np.where(of_cells, np.minimum(probability, 1 - probability), probability)
