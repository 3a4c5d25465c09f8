"""Claims about updates to which nothing was done: sure where the claimed rows explain them to their rounding.

So that chains move, errors are assumed of such an update (`assumed_errors`), and wrong rows may leave as little as
these. The truth leaves next to nothing once its numbers, which samples have roughly, are fitted to all layers
(`all_layers.whole`): then the rows come with these numbers, each proven or not. Otherwise some cell is wrong, or nobody
can tell, and all are claimed in doubt.
"""

from dataclasses import replace

import numpy as np

from leakledger.attacks.base import RecordsClaim
from leakledger.attacks.gradient.all_layers.whole import held
from leakledger.attacks.gradient.exact.rows import EncodedRows
from leakledger.attacks.gradient.posterior.claim import in_doubt
from leakledger.attacks.observed.single_logit import two_logits
from leakledger.attacks.observed.tabular import Rows, StructuralPrior
from leakledger.attacks.observed.update import ObservedUpdate


def judged(claim: RecordsClaim, prior: StructuralPrior, gradient: ObservedUpdate) -> RecordsClaim:
    """The claim about the batch behind an undefended `gradient`, with exact numbers or in doubt."""
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
    )
