"""The atoms attack: rows as known atoms of a linear system over all layers, for any activation."""

from leakledger.attacks.gradient.atoms.atoms import Atoms

__all__ = ["Atoms"]
