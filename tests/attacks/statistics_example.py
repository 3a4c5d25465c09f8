"""Small federations for tests of statistics: real protocols over made-up tables, and the views of chosen parties."""

import numpy as np

from leakledger.preprocess.scalers.zscore_sac import ZScoreSac
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.transport.simulated import Simulated
from leakledger.preprocess.views import FeatureLayout, NumericBlock, PublicFacts


def tables(sizes=(30, 50, 20, 44), features=3, seed=1, **varied):
    """One matrix (rows, features) per party."""
    rng = np.random.default_rng(seed)
    return [rng.normal(5, 2, (n, features)) for n in sizes]


def names(parts):
    return [f"f{i}" for i in range(parts[0].shape[1])]


def inputs(parts):
    """The parties' tables as views hold them."""
    return {
        f"P{i + 1}": {"columns": {name: x[:, k] for k, name in enumerate(names(parts))}} for i, x in enumerate(parts)
    }


def public(parts, integer=False):
    layout = FeatureLayout(tuple(NumericBlock(n, i, integer=integer) for i, n in enumerate(names(parts))))
    clients = tuple(f"P{i + 1}" for i in range(len(parts)))
    return PublicFacts(clients, "server", layout=layout, schema={"numeric": names(parts), "categorical": []})


def federation(parts, *scalers, seed=0):
    """The ledger of the scalers' protocols, one after the other."""
    fed = Simulated([f"P{i + 1}" for i in range(len(parts))], secret=pinned(seed))
    for scaler in scalers or (ZScoreSac(),):
        scaler.fit(fed, {c: fed.at(c, x) for c, x in zip(fed.clients, parts, strict=True)})
    return fed


def view_of(parts, observers, *scalers, seed=0, integer=False):
    fed = federation(parts, *scalers, seed=seed)
    return fed.ledger.view(observers, public(parts, integer), inputs=inputs(parts))


def real(parts, claim):
    """What a claim is about, from the tables."""
    x = parts[int(claim.party[1:]) - 1]
    if claim.statistic == "count":
        return len(x)
    column = x[:, int(claim.feature[1:])]
    if claim.statistic == "quantile":
        return np.quantile(column, float(claim.value))
    return {"mean": column.mean, "std": column.std, "minimum": column.min, "maximum": column.max}[claim.statistic]()
