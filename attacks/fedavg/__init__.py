"""TabLeak against federated averaging: inverts the weights that a client sends after local training."""

from attacks.fedavg.attack import TabLeakFedAvg

__all__ = ["TabLeakFedAvg"]
