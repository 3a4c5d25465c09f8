"""Peeling: rows that neurons show, taken out of the batch one after another.

A row that `linear_layer` reads off a neuron need not be one: others give mixtures. In the last hidden layer its share
of the gradient is known up to a label, and of a mixture no label fits (`exact.deflation`). A row with one is taken out,
and neurons that it shared with another row show that one alone. So rows are found whose numbers no certificate vouches
for, and what one enormous number hid: the rest is a batch of usual size, which TabLeak and the posterior are made for.
"""

from dataclasses import replace

import numpy as np

from leakledger.attacks.base import AuxiliaryKnowledge, RecordsClaim
from leakledger.attacks.gradient.linear_layer import LinearLayer
from leakledger.attacks.gradient.portfolio.claims import encoded, explains, joined, some
from leakledger.attacks.gradient.portfolio.exact import NEARLY
from leakledger.attacks.gradient.portfolio.remainder import fit_of, less, remainder
from leakledger.attacks.observed.affine import Array
from leakledger.attacks.observed.tabular import StructuralPrior
from leakledger.attacks.observed.update import ObservedUpdate

# How far columns of one encoded row may lie apart that two attacks have found. Too small: a row is claimed twice; too
# large: one of two rows is lost.
RELATIVELY, ABSOLUTELY = 1e-4, 1e-3


def peeled(
    update: ObservedUpdate,
    knowledge: AuxiliaryKnowledge,
    prior: StructuralPrior,
    proven: RecordsClaim | None,
    attack: LinearLayer,
) -> tuple[RecordsClaim | None, ObservedUpdate | None]:
    """Proven rows with those that are peeled, which are claimed and not verified; and the update of the rows that are
    left, None where none is. Proven rows whose shares cannot be told from the others' are among these.
    """
    found, pending, rest = proven, encoded(prior, proven), update
    if (left := remainder(update, pending)) is not None:
        pending, rest = pending[:0], left
    if update.model.norm != "none" or update.model.dropout or not update.model.hidden:
        return found, rest
    while rest.rows > 1:
        shown = attack.invert(rest, knowledge)
        rows = np.concatenate([pending, encoded(prior, shown if isinstance(shown, RecordsClaim) else None)])
        if (taken := _taken_out(rest, rows)) is None:
            return found, rest
        i, rest = taken
        alike = np.isclose(pending, rows[i], RELATIVELY, ABSOLUTELY).all(1)
        pending = pending[~alike]
        if not alike.any() and isinstance(shown, RecordsClaim):
            found = _with(prior, update, found, some(shown, np.array([i - len(pending)])))
    last = attack.invert(rest, knowledge)
    if not isinstance(last, RecordsClaim) or not explains(last, rest, NEARLY):
        return found, rest
    return found if len(pending) else _with(prior, update, found, last), None


def _taken_out(update: ObservedUpdate, rows: Array) -> tuple[int, ObservedUpdate] | None:
    """The number of the first of the encoded `rows` (n, d) whose share is that of one row with one label, with the
    update of the others; None where there is no such row.
    """
    if not len(rows) or (fits := fit_of(update, rows)) is None:
        return None
    for i in np.flatnonzero(fits.single).tolist():
        if (rest := less(update, rows[i : i + 1], fits.error[i : i + 1])) is not None:
            return i, rest
    return None


def _with(
    prior: StructuralPrior, update: ObservedUpdate, found: RecordsClaim | None, row: RecordsClaim
) -> RecordsClaim:
    row = replace(row, verified=np.zeros(1, bool))
    return row if found is None else joined(prior, update, found, row)
