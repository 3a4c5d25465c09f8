"""Training as protocols, by the name that configurations use."""

from leakledger.preprocess.training.base import Algorithm
from leakledger.preprocess.training.fedavg import FedAvg
from leakledger.preprocess.training.fedsgd import FedSGD

__all__ = ["ALGORITHMS", "Algorithm"]

ALGORITHMS: dict[str, Algorithm] = {"fedsgd": FedSGD(), "fedavg": FedAvg()}
