"""TabLeak: inverts the gradient of a training batch of tabular rows (Vero et al., ICML 2023)."""

from leakledger.attacks.gradient.tableak.tableak import TabLeak

__all__ = ["TabLeak"]
