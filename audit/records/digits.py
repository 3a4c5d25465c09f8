"""Bounds in digits: a text promises no more than what was found, so they are rounded outwards, not to the nearest."""

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

EXACT = 12  # significant digits: what is beyond them is rounding of floats (0.1 + 0.2 is 0.300, and not 0.301)
WHOLE = 2.0**53  # from here on floats have no decimals


def at_most(bound: float, places: int) -> str:
    """An upper bound in so many decimals, rounded up."""
    return _rounded(bound, places, ROUND_CEILING)


def at_least(bound: float, places: int) -> str:
    """A lower bound in so many decimals, rounded down."""
    return _rounded(bound, places, ROUND_FLOOR)


def within(low: float, high: float, places: int) -> str:
    """An interval in words, rounded outwards."""
    return f"{at_least(low, places)} to {at_most(high, places)}"


def beside(low: float | None, high: float | None, places: int) -> str:
    """An interval to stand behind its estimate, rounded outwards; nothing where either end is missing."""
    return "" if low is None or high is None else f" [{at_least(low, places)}, {at_most(high, places)}]"


def confidence(alpha: float) -> str:
    """What a statement at level `alpha` is made with, in per cent."""
    return f"{100 * (1 - alpha):.{EXACT}g} %"


def _rounded(bound: float, places: int, way: str) -> str:
    if not abs(bound) < WHOLE:
        return f"{bound:.{places}f}"
    return f"{Decimal(f'{bound:.{EXACT}g}').quantize(Decimal(1).scaleb(-places), way) + 0}"
