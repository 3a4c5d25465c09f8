"""Who is played as the adversary: single parties, the server, and named coalitions."""

from collections.abc import Sequence

from preprocess.views import PublicFacts

Observers = tuple[str, ...]


def observer_sets(names: Sequence[str], public: PublicFacts) -> list[Observers]:
    """The observer sets that a configuration names: a party, "clients" (each alone), or a coalition "server+P2".

    Raises ValueError for a party that took no part.
    """
    sets: list[Observers] = []
    for name in names:
        chosen = [(c,) for c in public.clients] if name == "clients" else [tuple(sorted(name.split("+")))]
        sets += [s for s in chosen if s not in sets]
    everyone = {*public.clients, public.server}
    for observers in sets:
        if unknown := set(observers) - everyone:
            raise ValueError(
                f"audit.observers: {', '.join(sorted(unknown))} took no part; the parties are {sorted(everyone)}"
            )
    return sets


def not_played(sets: Sequence[Observers], public: PublicFacts) -> list[str]:
    """In words, the adversaries of the same parties that were not played."""
    missing = []
    if (public.server,) not in sets:
        missing.append("the server alone")
    if left := [c for c in public.clients if (c,) not in sets]:
        missing.append(f"single clients: {', '.join(left)}")
    coalitions = [s for s in sets if len(s) > 1]
    total = 2 ** (len(public.clients) + 1) - len(public.clients) - 2
    missing.append(f"coalitions: {total - len(coalitions)} of {total}")
    missing.append("active adversaries (parties that deviate from the protocol)")
    return missing
