"""Controls of attacks on preprocessing: played on made-up federations whose answers are known.

The known-leaky trial is a protocol that surely tells the observer what the attack claims. The null trial scores the
same claims against another party; for checks it is a protocol in which they must not fire. What these
two cannot see is left to `shuffled_controls`.
"""

from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np

from attacks.base import (
    Attack,
    FindingClaim,
    MembershipClaim,
    StatisticClaim,
    VocabularyClaim,
)
from audit.made_up import PARTIES, Values, column_names, encoded_by, held, secure_sums
from audit.scoring.membership import ranking_metrics
from audit.scoring.vocabulary import overlap
from audit.shuffled_controls import claims_of

Kind = Literal["leaky", "null"]
Trial = tuple[Kind, float, str]  # what was played, the share recovered, and what of


def transcript_trials(attack: Attack) -> Iterator[Trial]:
    """Both trials of an attack on preprocessing; none for an attack on something else."""
    for asset, play in PLAYS.items():
        if asset in attack.asset:
            yield from play(attack)
            return


def _statistics(attack: Attack) -> Iterator[Trial]:
    view, tables = secure_sums(sealed=False)
    told = [c for c in claims_of(attack, view) if isinstance(c, StatisticClaim) and c.statistic == "mean"]
    means = {
        (f"control {i}", name): t.mean(0)[k]
        for i, t in enumerate(tables)
        for k, name in enumerate(column_names(tables))
    }
    for kind, shift in _kinds():
        hits = [abs(c.estimate - means[_other(c.party, shift, 3), c.feature]) < 1e-6 for c in told]
        yield kind, sum(hits) / len(means), "means behind secure sums on an open relay"


def _findings(attack: Attack) -> Iterator[Trial]:
    for kind, sealed in (("leaky", False), ("null", True)):
        view, tables = secure_sums(sealed)
        parties = {
            c.party for c in claims_of(attack, view) if isinstance(c, FindingClaim) and c.check == "parts-not-hiding"
        }
        yield kind, len(parties) / len(tables), "parties whose shares do not hide"  # type: ignore[misc]


def _sizes(attack: Attack) -> Iterator[Trial]:
    told = [
        c for c in claims_of(attack, encoded_by("uhe", 0, relay=True)) if isinstance(c, StatisticClaim) and c.feature
    ]
    actual = held()
    for kind, shift in _kinds():
        hits = [c.estimate == len(actual[_other(c.party, shift, PARTIES)][c.feature]) for c in told]
        yield kind, sum(hits) / sum(map(len, actual.values())), "dictionary sizes on an open relay"


def _vocabulary(attack: Attack) -> Iterator[Trial]:
    claims = [c for c in claims_of(attack, encoded_by("dh-psi", PARTIES - 1)) if isinstance(c, VocabularyClaim)]
    for kind, actual in _holders():
        found = {(c.party, c.feature): frozenset(c.values) for c in claims}
        scores = [overlap(found.get((p, f), frozenset()), v)["f1"] for p, own in actual.items() for f, v in own.items()]
        yield kind, float(np.mean(scores)), "dictionaries shared in an alignment"


def _membership(attack: Attack) -> Iterator[Trial]:
    claims = [c for c in claims_of(attack, encoded_by("dh-psi", PARTIES - 1)) if isinstance(c, MembershipClaim)]
    for kind, actual in _holders():
        areas = []
        for party, own in actual.items():
            mine = [c for c in claims if c.party == party]
            member = np.array([v in own[c.feature] for c in mine for v in c.values], bool)
            scores = np.array([s for c in mine for s in c.scores])
            areas.append(2 * ranking_metrics(scores, member)["auc"] - 1 if len(mine) else 0.0)
        yield kind, float(np.mean(areas)), "who holds what in an alignment (2 AUC - 1)"


PLAYS: dict[str, Callable[[Attack], Iterator[Trial]]] = {
    "findings": _findings,
    "statistics": _statistics,
    "sizes": _sizes,
    "vocabulary": _vocabulary,
    "membership": _membership,
}


def _kinds() -> tuple[tuple[Kind, int], ...]:
    return ("leaky", 0), ("null", 1)


def _other(party: str, shift: int, parties: int) -> str:
    """The party `shift` places on."""
    return f"control {(int(party.removeprefix('control ')) + shift) % parties}"


def _holders() -> Iterator[tuple[Kind, Values]]:
    """What the parties hold but the observer; and the same, each with the values of the next."""
    names = [f"control {i}" for i in range(PARTIES - 1)]
    actual = held()
    for kind, shift in _kinds():
        yield kind, {name: actual[_other(name, shift, PARTIES - 1)] for name in names}
