"""Layouts named by candidates: public codes that follow from a value's text, back to the values that have them."""

from leakledger.attacks.candidates.restated import by_candidates, restated

__all__ = ["by_candidates", "restated"]
