"""A small audit for tests: real protocols, real data, few iterations."""

from leakledger.audit.case import cases
from leakledger.audit.config import Config
from leakledger.audit.federate import federate
from leakledger.audit.truth import Truth
from leakledger.preprocess.secret import PUBLIC_MASTER

SMALL = {
    "data": {"source": "fair", "rows": 400},
    "partition": {"kind": "divergent", "parties": 3},
    "preprocessing": [{"encoder": "server-dictionary", "scaler": "federated-minmax"}],
    "model": {"hidden": [20, 20]},
    "training": {"rounds": 3, "batch_size": 4},
    "attacks": {"tableak": {"restarts": 3, "iterations": 60}, "posterior": {"chains": 4, "sweeps": 4, "repairs": 1}},
    "audit": {"seeds": [0], "jobs": 1, "baseline_draws": 3},
}


def config(**sections):
    """SMALL with whole sections replaced, or their keys updated where both are tables."""
    merged = dict(SMALL)
    for name, value in sections.items():
        old = merged.get(name)
        merged[name] = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value
    return Config.model_validate(merged)


def truth(**sections):
    """The truth of the first case of such a configuration."""
    settings = config(**sections)
    return Truth(federate(settings, cases(settings)[0], PUBLIC_MASTER))
