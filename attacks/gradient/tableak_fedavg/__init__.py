"""TabLeak against federated averaging: inverts the weights that a client sends after local training."""

from leakledger.attacks.gradient.tableak_fedavg.tableak_fedavg import TabLeakFedAvg

__all__ = ["TabLeakFedAvg"]
