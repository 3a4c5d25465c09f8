"""Defenses: a message or an update in, a protected one out."""

from leakledger.defenses.base import Defense, chain
from leakledger.defenses.gaussian_noise import GaussianNoise

__all__ = ["DEFENSES", "Defense", "chain"]

DEFENSES: dict[str, type[Defense]] = {d.name: d for d in (GaussianNoise,)}
