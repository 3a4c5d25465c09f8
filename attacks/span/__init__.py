"""The span attack: rows read exactly off the row space of a first-layer gradient."""

from attacks.span.attack import Span

__all__ = ["Span"]
