"""The span attack: rows read exactly off the row space of a first-layer gradient."""

from leakledger.attacks.gradient.span.span import Span

__all__ = ["Span"]
