"""Numbers, sizes and names as a reader sees them: one rounding for all reports, and no invisible characters."""

import math
import unicodedata
from collections.abc import Callable, Iterable

from leakledger.audit.records import at_least, at_most, invisible
from leakledger.audit.records import plural as plural

BLANK = "–"
# Controls, invisible formats (of no width, or turning the text after them), halves of surrogates, characters that are
# not assigned, separators of lines: by any of them a name could disguise itself, or its neighbours. So it could by what
# is drawn as nothing, of whatever category.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Cn", "Zl", "Zp"})


def visible(text: str) -> str:
    """`text` with every character that is not seen, or changes how others are, spelled out: ⟨U+200B⟩, ⟨U+202E⟩. Tab and
    newline stay.
    """
    return "".join(f"⟨U+{ord(c):04X}⟩" if _hidden(c) else c for c in text)


def _hidden(char: str) -> bool:
    return char not in "\t\n" and (unicodedata.category(char) in _HIDDEN or invisible(char))


def shortened(text: str, length: int) -> str:
    """`text` cut to `length` characters, the last of them an ellipsis where anything is missing."""
    return text if len(text) <= length else text[: length - 1] + "…"


def number(value: float | None) -> str:
    """Three decimals below a thousand, none above, two significant digits close to zero; a dash for None."""
    if value is None or math.isnan(value):
        return BLANK
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if abs(value) >= 1000:
        text = f"{value:,.0f}"
    elif 0 < abs(value) < 0.0005:
        text = f"{value:.1e}"
    else:
        text = f"{value:.3f}"
    return text.replace("-", "−")


def bound(value: float | None) -> str:
    """An upper bound in three decimals, rounded up; a dash for None."""
    return number(value) if value is None or not math.isfinite(value) else at_most(value, 3).replace("-", "−")


def count(value: float | None) -> str:
    """A whole number with thousands separators; fractions (a mean over seeds) keep one decimal."""
    if value is None or not math.isfinite(value):
        return number(value)
    return (f"{value:,.0f}" if value == round(value) else f"{value:,.1f}").replace("-", "−")


def seconds(value: float | None) -> str:
    """A duration in seconds with one decimal."""
    return number(value) if value is None or not math.isfinite(value) else f"{value:,.1f}"


def interval(low: float | None, high: float | None) -> str:
    """[low, high] rounded outwards, or a dash where either end is missing."""
    return BLANK if low is None or high is None else f"[{lower(low)}, {upper(high)}]"


def lower(value: float | None) -> str:
    """A lower end in the digits of `number`, rounded down."""
    return _outwards(value, at_least)


def upper(value: float | None) -> str:
    """An upper end in the digits of `number`, rounded up."""
    return _outwards(value, at_most)


def _outwards(value: float | None, rounded: Callable[[float, int], str]) -> str:
    if value is None or not math.isfinite(value):
        return number(value)
    if abs(value) >= 1000:
        text = f"{int(rounded(value, 0)):,}"
    elif 0 < abs(value) < 0.0005:
        text = f"{float(rounded(value, 1 - math.floor(math.log10(abs(value))))):.1e}"
    else:
        text = rounded(value, 3)
    return text.replace("-", "−")


def size(octets: float | None) -> str:
    """Bytes in decimal units, three significant digits: 999 B, 1.02 kB, 12.3 MB."""
    if octets is None or not math.isfinite(octets):
        return number(octets)
    units = ("B", "kB", "MB", "GB", "TB")
    power = 0
    while abs(octets) >= 999.5 and power < len(units) - 1:
        octets, power = octets / 1000, power + 1
    digits = 0 if power == 0 else 2 if abs(octets) < 9.995 else 1 if abs(octets) < 99.95 else 0
    return f"{octets:,.{digits}f} {units[power]}".replace("-", "−")


def rounds(first: int, last: int) -> str:
    """The rounds from `first` to `last` in words."""
    return f"round {first}" if first == last else f"rounds {first}–{last}"


def span(low: float | None, high: float | None) -> str:
    """The bounds (low, high] of a bucket in words; an end that is None or infinite is open."""
    bottom, top = -math.inf if low is None else low, math.inf if high is None else high
    if math.isinf(bottom) and math.isinf(top):
        return "any"
    if math.isinf(bottom):
        return f"up to {_short(top)}"
    if math.isinf(top):
        return f"above {_short(bottom)}"
    return f"{_short(bottom)} to {_short(top)}"


def percent(value: float | None) -> str:
    """A share in per cent with one decimal, none for whole numbers; it does not break before its sign."""
    if value is None or not math.isfinite(value):
        return number(value)
    return f"{f'{100 * value:.1f}'.removesuffix('.0')}\u00a0%".replace("-", "−")


def _short(value: float) -> str:
    return f"{value:.3g}".replace("-", "−")


def together(names: Iterable[str]) -> str:
    """A set of observers as one adversary: server + client_1."""
    return " + ".join(names)
