"""Who learns what of four parties' statistics on Adult. `-s` prints the table: median relative errors, in parentheses
the share of intervals that hold; the last row is what guessing the federation's own figure gives.
"""

import numpy as np
import pytest

from leakledger.attacks.base import AuxiliaryKnowledge
from leakledger.attacks.transcript.statistics import Statistics
from leakledger.audit.case import cases
from leakledger.audit.config import Config
from leakledger.audit.federate import federate
from leakledger.audit.scoring.statistics import IntervalQuality, interval_quality
from leakledger.audit.truth import Truth
from leakledger.preprocess.secret import PUBLIC_MASTER

SEEDS = (0,)
INTERVALS = (0, 1, 2, 3)  # seeds for the share of intervals that hold: one of three counts missed is no news
ADVERSARIES = (["server"], ["P1"], ["P1", "P2"])
SETTINGS = {
    "zscore-sac proportional, open relay": {"scaler": "zscore-sac"},
    "zscore-sac proportional, sealed": {"scaler": "zscore-sac", "route": "sealed"},
    "zscore-sac ring, open relay": {"scaler": "zscore-sac", "sharing": "ring"},
    "zscore-sac ring, sealed": {"scaler": "zscore-sac", "sharing": "ring", "route": "sealed"},
    "federated-zscore": {"scaler": "federated-zscore"},
    "federated-minmax": {"scaler": "federated-minmax"},
}


def quality(path, partition, seeds, **preprocessing):
    """{adversary: {statistic: (median error, coverage)}} over victims, features and seeds; empty without claims."""
    config = Config.model_validate(
        {
            "data": {"source": str(path)},
            "partition": {"kind": partition, "parties": 4},
            "preprocessing": preprocessing,
            "training": {"rounds": 1, "batch_size": 4},
            "audit": {"seeds": list(seeds)},
        }
    )
    found = {"guess": []}
    for case in cases(config):
        truth = Truth(federate(config, case, PUBLIC_MASTER))
        federated = truth.federated
        inputs = {p: t.to_plain() for p, t in federated.tables.items()}
        found["guess"].append({s: guess(truth, s) for s in ("count", "mean", "std", "minimum", "maximum")})
        for who in ADVERSARIES:
            view = federated.ledger.view(who, federated.public, inputs=inputs)
            outcome = Statistics().run(view, AuxiliaryKnowledge())
            claims = outcome if isinstance(outcome, list) else []
            found.setdefault("+".join(who), []).append(interval_quality(claims, truth))
    return {who: _mean(many) for who, many in found.items()}


def _mean(many):
    """Per statistic, over seeds: the mean of the median errors and of the coverage."""
    kinds = {s for q in many for s in q}
    return {
        s: (
            sum(q[s].relative_error for q in many) / len(many),
            sum(q[s].coverage for q in many) / len(many),
        )
        for s in sorted(kinds)
    }


def guess(truth, statistic):
    """The quality of the federation's own figure as an estimate of every party's."""
    features = [""] if statistic == "count" else truth.federated.schema.numeric
    pairs = [
        (truth.statistic(p, f, statistic), truth.pooled_statistic(f, statistic))
        for p in truth.parties
        for f in features
    ]
    errors = [abs(pooled - real) / (abs(real) or 1.0) for real, pooled in pairs]
    return IntervalQuality(len(pairs), float(np.median(errors)), float("nan"))


def shown(setting, found):
    for who, kinds in found.items():
        cells = ", ".join(
            f"{s} {error:.2g}" + ("" if np.isnan(held) else f" ({held:.0%})") for s, (error, held) in kinds.items()
        )
        print(f"{setting:38} {who:8} {cells or 'nothing'}")


@pytest.mark.slow
@pytest.mark.parametrize("partition", ["iid", "dirichlet-quantity", "divergent"])
def test_on_adult_the_open_relay_knows_all_a_party_estimates_and_a_sealed_ring_tells_nothing(datasets, partition):
    found = {}
    for name, options in SETTINGS.items():
        seeds = INTERVALS if name == "zscore-sac proportional, sealed" else SEEDS
        found[name] = quality(datasets / "adult.csv.gz", partition, seeds, **options)
        shown(name, {k: v for k, v in found[name].items() if k != "guess" or name == "federated-minmax"})
    for name in ("zscore-sac proportional, open relay", "zscore-sac ring, open relay", "federated-zscore"):
        assert all(error < 1e-6 and held == 1 for error, held in found[name]["server"].values())
    assert set(found["federated-minmax"]["server"]) == {"minimum", "maximum"}
    for name in ("zscore-sac ring, sealed", "federated-zscore", "federated-minmax"):
        assert not found[name]["P1"]
        assert not found[name]["P1+P2"]
    assert not found["zscore-sac proportional, sealed"]["server"]
    for who in ("P1", "P1+P2"):
        kinds = found["zscore-sac proportional, sealed"][who]
        assert set(kinds) == {"count", "mean", "std", "quantile"}
        assert kinds["count"][0] < 0.4  # one part of the count alone leaves 0.40
        assert all(held > 0.7 for _, held in kinds.values())
