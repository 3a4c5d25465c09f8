"""Upper bounds in digits: a text promises no more than what was found, so they are rounded up, not to the nearest."""

from decimal import ROUND_CEILING, Decimal

EXACT = 12  # significant digits: what is beyond them is rounding of floats (0.1 + 0.2 is 0.300, and not 0.301)
WHOLE = 2.0**53  # from here on floats have no decimals


def at_most(bound: float, places: int) -> str:
    """`bound` in so many decimals, rounded up."""
    if not abs(bound) < WHOLE:
        return f"{bound:.{places}f}"
    return f"{Decimal(f'{bound:.{EXACT}g}').quantize(Decimal(1).scaleb(-places), ROUND_CEILING) + 0}"
