"""Of how many rows the gradient is that models tell of the last client.

The mean of a round weighs clients by rows. With M the mean, and W rows of the observers' own gradients u_c behind it,
the last client's gradient over r rows is

    g(r) = M + D / r,     D = W M - sum_c w_c u_c,

and r is not told: a client of fewer rows than a batch has all of its own. With another r some of the observers' own
gradients stay in it, and it spans their rows beside the client's. So that of the least rank is taken, of no more rows
than r; where several are alike, as where neurons are fewer than rows, the largest first.
"""

from dataclasses import replace

import numpy as np

from leakledger.attacks.base import AuxiliaryKnowledge
from leakledger.attacks.gradient.attribute_search.rowspace import seen_space
from leakledger.attacks.observed.aggregates import by_rows
from leakledger.attacks.observed.gradients import poisson
from leakledger.attacks.observed.sums import find_sums
from leakledger.attacks.observed.update import ObservedUpdate
from leakledger.preprocess.views import View


def likely_rows(view: View, knowledge: AuxiliaryKnowledge, update: ObservedUpdate) -> list[ObservedUpdate]:
    """The gradient over each number of rows that may be behind it, the likeliest first; as it is where that is known,
    where it makes no difference, and where none fits.
    """
    known = (update.victim, update.round) in knowledge.labels
    if known or update.rows < 2 or not by_rows(view) or poisson(view):
        return [update]
    single = _of_one_row(view, knowledge, update)
    if single is None:
        return [update]
    tried = [_of_rows(update, single, rows) for rows in range(update.rows, 0, -1)]
    ranks = np.array([_rank(u) for u in tried])
    fitting = [(rank, u) for rank, u in zip(ranks.tolist(), tried, strict=True) if 0 < rank <= u.rows]
    least = min((rank for rank, _ in fitting), default=0)
    return [u for rank, u in fitting if rank == least] or [update]


def _of_one_row(view: View, knowledge: AuxiliaryKnowledge, update: ObservedUpdate) -> ObservedUpdate | None:
    """The gradient as that of a single row."""
    key = update.victim, update.round
    single = replace(knowledge, labels={**knowledge.labels, key: np.zeros(1, np.int64)})
    sums = find_sums(view, single, rounds=(update.round,), victims=(update.victim,), any_loss=True)
    alone = [u for u in sums if u.victim == update.victim and u.rows == 1] if isinstance(sums, list) else []
    return alone[0] if alone else None


def _of_rows(update: ObservedUpdate, single: ObservedUpdate, rows: int) -> ObservedUpdate:
    """The gradient over so many rows, between that over those of a batch and that over a single one."""
    part = (1 / rows - 1 / update.rows) / (1 - 1 / update.rows)
    gradient = {name: g + part * (single.gradient[name] - g) for name, g in update.gradient.items()}
    noise = update.noise + part * (single.noise - update.noise)
    return replace(update, rows=rows, gradient=gradient, noise=noise)


def _rank(update: ObservedUpdate) -> int:
    """How many rows the gradient spans; 0 of one that does not stand out from its errors."""
    try:
        return seen_space(update.gradient, max(g.size for g in update.gradient.values()), update.noise).rank
    except ValueError:
        return 0
