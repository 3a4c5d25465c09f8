"""A checked claim in words, for a terminal. What holds at most is rounded up and what holds at least down, so that no
figure says more than what was found.
"""

from collections.abc import Iterator
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal

from leakledger.audit.dp_claims.check import PRIOR, Checked
from leakledger.audit.records import at_most
from leakledger.defenses.accounting.guarantee import LARGE_DELTA, digits

NO_EPSILON = "no epsilon"


def in_words(checked: Checked) -> str:
    """The whole answer, most important line first."""
    return "\n".join(_lines(checked))


def _lines(c: Checked) -> Iterator[str]:
    yield f"{c.verdict.upper()}: {_verdict(c)}"
    yield f"  claimed     {_amount(c.claimed)} at delta {c.delta:g} ({c.source})"
    yield f"  found       {_found(c)}"
    if c.gap:
        yield f"  gap         epsilon is {_number(c.gap, ROUND_FLOOR)} above the claim, at least"
    if c.mechanism:
        yield f"  mechanism   {c.mechanism}"
    yield f"  method      {c.method}"
    if c.mu_per_round is not None:
        yield f"  mu          {_number(c.mu_per_round, ROUND_CEILING)} in a round in which the unit takes part"
    if c.noise_needed is not None:
        needed = f"{_number(c.noise_needed, ROUND_CEILING)} times the clip norm; there are {c.noise_multiplier:.6g}"
        yield f"  needed      the claim takes noise of {needed}"
    if c.other_relation is not None:
        other = "add-remove" if "(replace)" in c.mechanism else "replace"
        yield f"  otherwise   {_at_most(c.other_relation)} under the other neighbouring relation ({other})"
    if c.success is not None:
        guess = f"a guess that is right in {PRIOR:.0%} of cases from the prior alone"
        yield f"  success     {guess} is right in {at_most(100 * c.success, 2)}% at most"
    yield from (f"  read as     {sentence}" for sentence in c.explained)
    yield from (f"  not known   {question}" for question in c.unknown)


def _verdict(c: Checked) -> str:
    if c.verdict == "holds":
        little = ", which says little at so large a delta" if c.delta >= LARGE_DELTA else ""
        return f"the settings give {_at_most(c.epsilon)}, not more than the claim, if they are what runs{little}"
    if c.verdict == "no claim":
        return f"the settings give {_found(c)}; no epsilon is claimed"
    if c.verdict == "undecided" and _within(c):
        return f"{_at_most(c.epsilon)} is not more than the claim, but the settings say too little for it to hold"
    if c.verdict == "undecided":
        return f"the claim is between the bounds that are known; {_found(c)}"
    if c.at_least is None:
        return "these settings have no epsilon, so none can be claimed"
    return f"the settings give {_found(c)}, more than the claim"


def _within(c: Checked) -> bool:
    """Whether the upper bound is not above a claim."""
    return c.claimed is not None and c.epsilon is not None and c.epsilon <= c.claimed


def _found(c: Checked) -> str:
    if c.at_least is None:
        return NO_EPSILON
    if c.epsilon is None:
        return f"epsilon {_number(c.at_least, ROUND_FLOOR)} or more; no upper bound"
    if _within(c) and c.epsilon != c.at_least:
        return f"{_at_most(c.epsilon)} at most"
    if c.epsilon == c.at_least:
        return _at_most(c.epsilon)
    return f"epsilon between {_number(c.at_least, ROUND_FLOOR)} and {_number(c.epsilon, ROUND_CEILING)}"


def _amount(epsilon: float | None) -> str:
    return NO_EPSILON if epsilon is None else f"epsilon {_number(epsilon)}"


def _at_most(epsilon: float | None) -> str:
    return NO_EPSILON if epsilon is None else f"epsilon {_number(epsilon, ROUND_CEILING)}"


def _number(value: float, rounding: str = ROUND_HALF_EVEN) -> str:
    """Six digits where they matter, whole numbers with separators up to a trillion, powers of ten beyond."""
    if 1e4 <= value < 1e12:
        return f"{Decimal(repr(float(value))).quantize(Decimal('0.1') if value < 1e5 else Decimal(1), rounding):,}"
    return digits(value, 6, rounding)
