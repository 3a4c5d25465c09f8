"""Which values each party holds: see `attack`."""

from attacks.vocabulary.attack import Vocabulary

__all__ = ["Vocabulary"]
