"""Exact gradient inversion from the sparsity that ReLU leaves in the gradients of a batch."""

from attacks.spear.attack import Spear
from attacks.spear.search import Budget, Problem, solve

__all__ = ["Budget", "Problem", "Spear", "solve"]
