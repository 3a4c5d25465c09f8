"""Exact gradient inversion from the sparsity that ReLU leaves in the gradients of a batch."""

from leakledger.attacks.gradient.spear.spear import Spear

__all__ = ["Spear"]
