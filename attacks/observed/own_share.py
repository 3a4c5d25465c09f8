"""How many rows are behind the mean of a round, by the share that the observers' own rows have in it.

Under `uhe` no number means two things, so the 0/1 columns of the observers' values are 0 in everybody else's rows, and
so are those of the others' updates. Of other encoders that is known of values that no other participant holds, where a
set intersection says so. There the mean over all participants, which two models in a row tell, is that of the
observers' updates times their share of the rows:

    mean = (w / n) own,     w the rows behind the observers' updates, n those behind all

in FedSGD as after local training, whatever its steps are. With two participants n tells the other's rows. Exact: n is
a whole number, and is claimed where errors of the mean leave no other.
"""

from collections.abc import Callable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.observed.aggregates import by_rows, round_means
from leakledger.attacks.observed.columns import FIRST_LAYER, binary_columns, noise_on_updates, own_mean
from leakledger.attacks.observed.gradients import row_count
from leakledger.attacks.observed.sums import known_updates
from leakledger.preprocess.views import View

OWN_COLUMNS = "uhe"  # the encoder that gives no column to values of two parties
SURELY = 0.25  # of a row: how far errors may take the number of rows
Absent = tuple[NDArray[np.bool_], frozenset[int]]  # (d,) columns that no row of a client has, and the messages
Absences = Callable[[View], Mapping[str, Absent]]  # of each client outside


def rows_behind_means(view: View, absent: Absences) -> Iterator[tuple[int, tuple[str, ...], int, tuple[int, ...]]]:
    """Of each round that tells it: its number, who took part, how many rows they have together, and the messages.
    `absent` tells of each client outside which columns of the observers it has not, where other encoders than `uhe` say
    so; it is not asked where nothing could be read of them.

    None under noise, which the others' columns have as well, and of a mean in which every client counts alike.
    """
    width = view.public.layout.width if view.public.layout else 0
    inputs, own_only = binary_columns(view, width), view.public.encoder.name == OWN_COLUMNS
    if not inputs.any() or not by_rows(view) or noise_on_updates(view):
        return
    columns = {} if own_only else absent(view)
    for whole in round_means(view) if own_only or columns else ():
        known = known_updates(view, whole)
        others = {*whole.clients} - known.keys()
        mean = whole.mean[FIRST_LAYER]
        if not known or not others or mean.shape[1:] != (width,) or not (own_only or others <= columns.keys()):
            continue
        told = [] if own_only else [columns[c] for c in sorted(others)]
        alone = np.logical_and.reduce([inputs, *(zeros for zeros, _ in told)])
        try:
            own, zero = own_mean(view, whole, known)
            weight = sum(row_count(m) for m in known.values())
        except (KeyError, TypeError, ValueError, IndexError):
            continue
        rows = _rows(mean[:, alone], own[:, alone], weight, zero)
        if rows is not None:
            evidence = {*whole.evidence, *(m.sequence for m in known.values())}.union(*(e for _, e in told))
            yield whole.round, whole.clients, rows, tuple(sorted(evidence))


def _rows(mean: np.ndarray, own: np.ndarray, weight: int, zero: float) -> int | None:
    """The rows behind `mean`, of which the `own` columns (neurons, d) have `weight`; `zero`: the largest error of an
    entry. None where errors leave several numbers, and where columns of the observers are no multiple of theirs.
    """
    used = (np.abs(own) > zero).any(0)
    mean, own = mean[:, used], own[:, used]
    share = float((mean * own).sum() / max((own**2).sum(), 1e-300))
    if not 0 < share < 1 or (np.abs(mean - share * own) > zero).any():
        return None
    rows, error = weight / share, weight / share**2 * zero / float(np.linalg.norm(own))
    whole = round(rows)
    return whole if error < SURELY and abs(rows - whole) <= error and whole > weight else None
