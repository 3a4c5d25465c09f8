"""The differential privacy of settings in lines of text, for a terminal: before a run and after it."""

from collections.abc import Iterator, Mapping, Sequence

from leakledger.audit.records import PrivacyAccount, at_most

NOTHING = (
    "Differential privacy: no epsilon in any setting, since nothing that clients send is under noise with a bound; the "
    "report names the steps."
)
Accounts = Mapping[str, Sequence[PrivacyAccount]]


def privacy_lines(accounts: Accounts) -> Iterator[str]:
    """One line per setting and unit; of a unit of which nothing is under noise, only where it is the record. `accounts`
    are by the setting's name.
    """
    if not accounts:
        return
    if not any(a.parts for found in accounts.values() for a in found):
        yield NOTHING
        return
    yield "Differential privacy, over all that a client sends:"
    for name, found in accounts.items():
        for a in (a for a in found if a.unit == "record" or a.parts):
            yield f"  {name}: {a.text}"
            yield from (
                f"    {p.stage} alone: epsilon {at_most(p.epsilon, 4)} at delta {a.delta:g}: {p.text}" for p in a.parts
            )
    stated = (a for found in accounts.values() for a in found if a.epsilon is not None or a.parts)
    outside = dict.fromkeys(o for a in stated for o in a.outside)
    yield from (f"  not in the figures: {o}" for o in outside)


def worst(found: Sequence[Sequence[PrivacyAccount]]) -> tuple[PrivacyAccount, ...]:
    """Of the accounts of a setting's seeds, the ones with the largest epsilon, unit by unit: none is more than any."""
    return tuple(max(of_unit, key=_badness) for of_unit in zip(*found, strict=True))


def _badness(account: PrivacyAccount) -> float:
    return float("inf") if account.epsilon is None else account.epsilon
