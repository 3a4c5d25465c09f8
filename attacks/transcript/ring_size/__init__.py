"""How many values each party holds: see `attack`."""

from leakledger.attacks.transcript.ring_size.ring_size import RingSize

__all__ = ["RingSize"]
