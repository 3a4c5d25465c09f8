"""How many values each party holds: see `attack`."""

from attacks.ring_size.attack import RingSize

__all__ = ["RingSize"]
