"""Layouts named by candidates: public codes that follow from a value's text, back to the values that have them."""

from attacks.candidates.problem import by_candidates, posed

__all__ = ["by_candidates", "posed"]
