"""The posterior of a batch given a defended gradient, the defense being known: see `posterior`."""

from leakledger.attacks.gradient.posterior.posterior import Posterior

__all__ = ["Posterior"]
