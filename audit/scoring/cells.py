"""Scores cell by cell: which columns leak, and whether the attack's own entropy tells right cells from wrong ones.

Source: TabLeak, section 3.3; tables 4 and 18 to 21 (accuracy by entropy bucket). An adversary sees the entropy without
the truth: if low entropy means right cells, the adversary knows which cells to use. So the cells of each batch are also
ranked by entropy, and the surest 10, 20 and 50 % are scored. Categorical and numeric cells are kept apart: their
entropies have no common unit. Every figure stands beside the prior's on the *same* true cells.

The buckets are the paper's, its lowest numeric one (below 0.72 nats) cut at -2, -1 and 0: small batches would fall into
it whole. A row that the attack has proven is surer than any other, whatever entropy it was given. A cell without an
entropy (NaN) is in no bucket and no ranking.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from leakledger.audit.records import Bucket, CellDetail, FeatureShare, Kind, SurestShare

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

EDGES: dict[Kind, tuple[float, ...]] = {  # between the buckets; (low, high]
    "categorical": (0.2, 0.4, 0.6, 0.8),
    "numeric": (-2.0, -1.0, 0.0, 0.72, 1.16, 1.6, 2.04),
}
ENDS: dict[Kind, tuple[float | None, float | None]] = {"categorical": (0.0, 1.0), "numeric": (None, None)}
SHARES = (0.1, 0.2, 0.5, 1.0)


def feature_shares(features: Sequence[str], kind: Kind, hits: Mask, prior: Floats) -> Iterator[FeatureShare]:
    """Each column's share of right cells in a batch of n rows: `hits` (m, F) of the claimed rows, the others are wrong.
    `prior` (n, F): how often the prior alone has each true cell right.
    """
    for k, feature in enumerate(features):
        yield FeatureShare(feature, kind, float(hits[:, k].sum()) / len(prior), float(prior[:, k].mean()))


def doubt_detail(kind: Kind, hits: Mask, prior: Floats, entropy: Floats, verified: Mask | None) -> CellDetail:
    """Buckets and surest shares of claimed cells, all (m, F) but `verified` (m,), with rows in the same order."""
    doubt = entropy if verified is None else np.where(verified[:, None], -np.inf, entropy)
    stated = ~np.isnan(doubt)
    hit, chance, sure, shown = hits[stated], prior[stated], doubt[stated], entropy[stated]
    buckets = tuple(_buckets(kind, hit, chance, sure))
    surest = tuple(_surest(kind, share, hit, chance, sure, shown) for share in SHARES) if len(hit) else ()
    return CellDetail((), buckets, surest)


def bucket_of(kind: Kind, entropy: Floats) -> NDArray[np.intp]:
    """The number of the bucket of each entropy."""
    return np.asarray(np.digitize(entropy, EDGES[kind], right=True), np.intp)


def bounds(kind: Kind) -> list[tuple[float | None, float | None]]:
    """The entropies that bound each bucket; None is an open end."""
    first, last = ENDS[kind]
    return list(pairwise((first, *EDGES[kind], last)))


def surest_weights(doubt: Floats, share: float) -> Floats:
    """(n,) how far each cell counts among the surest `share` of `doubt` (n,): 1 or 0, and of the cells tied at the cut
    each an equal part, so that no order of cells matters.
    """
    size = share * len(doubt)
    cut = np.sort(doubt)[int(np.ceil(size)) - 1]
    surer, tied = doubt < cut, doubt == cut
    weights: Floats = surer + tied * ((size - surer.sum()) / tied.sum())
    return weights


def _buckets(kind: Kind, hits: Mask, prior: Floats, doubt: Floats) -> Iterator[Bucket]:
    """Empty buckets are left out."""
    number = bucket_of(kind, doubt)
    for k, (low, high) in enumerate(bounds(kind)):
        inside = number == k
        if inside.any():
            yield Bucket(kind, low, high, int(inside.sum()), int(hits[inside].sum()), float(prior[inside].sum()))


def _surest(kind: Kind, share: float, hits: Mask, prior: Floats, doubt: Floats, entropy: Floats) -> SurestShare:
    weights = surest_weights(doubt, share)
    chosen = weights > 0
    mean = float(np.average(entropy[chosen], weights=weights[chosen])) if np.isfinite(entropy[chosen]).all() else None
    value, baseline = (float(np.average(x, weights=weights)) for x in (hits, prior))
    return SurestShare(kind, share, float(weights.sum()), value, baseline, mean)
