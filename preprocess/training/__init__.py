"""Training as protocols, by the name that configurations use."""

from preprocess.training.base import Algorithm
from preprocess.training.fedavg import FedAvg
from preprocess.training.fedsgd import FedSGD

__all__ = ["ALGORITHMS", "Algorithm"]

ALGORITHMS: dict[str, Algorithm] = {"fedsgd": FedSGD(), "fedavg": FedAvg()}
