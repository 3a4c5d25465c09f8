"""A checked claim in words, for a terminal."""

from collections.abc import Iterator

from leakledger.audit.dp_claims.check import PRIOR, Checked

NO_EPSILON = "no epsilon"


def in_words(checked: Checked) -> str:
    """The whole answer, most important line first."""
    return "\n".join(_lines(checked))


def _lines(c: Checked) -> Iterator[str]:
    yield f"{c.verdict.upper()}: {_verdict(c)}"
    yield f"  claimed     {_amount(c.claimed)} at delta {c.delta:g} ({c.source})"
    yield f"  found       {_found(c)}"
    if c.gap:
        yield f"  gap         epsilon is {_number(c.gap)} above the claim, at least"
    if c.mechanism:
        yield f"  mechanism   {c.mechanism}"
    yield f"  method      {c.method}"
    if c.mu_per_round is not None:
        yield f"  mu          {_number(c.mu_per_round)} in a round in which the unit takes part"
    if c.noise_needed is not None:
        needed = f"{c.noise_needed:.6g} times the clip norm; there are {c.noise_multiplier:.6g}"
        yield f"  needed      the claim takes noise of {needed}"
    if c.other_relation is not None:
        other = "add-remove" if "(replace)" in c.mechanism else "replace"
        yield f"  otherwise   {_amount(c.other_relation)} under the other neighbouring relation ({other})"
    if c.success is not None:
        guess = f"a guess that is right in {PRIOR:.0%} of cases from the prior alone"
        yield f"  success     {guess} is right in {c.success:.2%} at most"
    yield from (f"  read as     {sentence}" for sentence in c.explained)
    yield from (f"  not known   {question}" for question in c.unknown)


def _verdict(c: Checked) -> str:
    if c.verdict == "holds":
        return f"the settings give {_amount(c.epsilon)}, not more than the claim, if they are what runs"
    if c.verdict == "no claim":
        return f"the settings give {_found(c)}; no epsilon is claimed"
    if c.verdict == "undecided":
        return f"the claim is between the bounds that are known; {_found(c)}"
    if c.at_least is None:
        return "these settings have no epsilon, so none can be claimed"
    return f"the settings give {_found(c)}, more than the claim"


def _found(c: Checked) -> str:
    if c.at_least is None:
        return NO_EPSILON
    if c.epsilon is None:
        return f"{_amount(c.at_least)} or more; no upper bound"
    if c.verdict == "holds" and c.epsilon != c.at_least:
        return f"{_amount(c.epsilon)} at most"
    if c.epsilon == c.at_least:
        return _amount(c.epsilon)
    return f"epsilon between {_number(c.at_least)} and {_number(c.epsilon)}"


def _amount(epsilon: float | None) -> str:
    return NO_EPSILON if epsilon is None else f"epsilon {_number(epsilon)}"


def _number(value: float) -> str:
    """Six digits where they matter, whole numbers with separators up to a trillion, powers of ten beyond."""
    return (
        f"{value:,.0f}" if 1e5 <= value < 1e12 else f"{value:.6g}" if value < 1e4 or value >= 1e12 else f"{value:,.1f}"
    )
