"""What one client's claims say that scores leave out: bounds on numbers, and values that it does not hold itself.

Requirements 3 and 4 of "Privacy-preserving tabular data transformation", section 3, are about these: a participant
shall learn of no value that it lacks, and no statistic of another's numbers. A score counts exact hits and all values
together.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from leakledger.attacks.base import Claim, MembershipClaim, StatisticClaim, claims_in
from leakledger.audit.benchmarks.base import Row
from leakledger.audit.benchmarks.gradients import figure
from leakledger.audit.case import Case
from leakledger.audit.config import Config
from leakledger.audit.federate import federate
from leakledger.audit.granted import granted_knowledge, make_attack
from leakledger.audit.play import view_of
from leakledger.audit.scoring.membership import ranking_metrics
from leakledger.audit.truth import Truth
from leakledger.preprocess.secret import PUBLIC_MASTER

FACTOR, HELD, SIGNS = "count bounds", "count bounds that hold", "signs of means"
LACKED = "who holds values that it lacks"


@dataclass(frozen=True)
class ClientClaims:
    """Claims of single clients beside the truth.

    Of counts within limits: upper over lower end (`ratios`), and whether the truth lies between (`held`). Of means that
    are not 0, whether both ends have the sign of the truth (`signs`). Both are 0 or 100. `lacked`: for each client and
    other party, the AUC of the claims about who holds what, over the values that the client does not hold.
    """

    ratios: list[float]
    held: list[float]
    signs: list[float]
    lacked: list[float]


def client_rows(dataset: str, where: Mapping[str, Any], told: Sequence[ClientClaims]) -> Iterator[Row]:
    """A row per figure that there are claims for, of what is `told` in each case; n are the claims, of `lacked` the
    pairs of parties.
    """
    parts = {FACTOR: "ratios", HELD: "held", SIGNS: "signs", LACKED: "lacked"}
    units = {FACTOR: "ratio", LACKED: "AUC"}
    who = {**where, "adversary": "one client", "observers": "each"}
    for metric, part in parts.items():
        if found := [v for t in told for v in getattr(t, part)]:
            yield figure("transcripts", dataset, who, metric, found, None, units.get(metric, "%"))


def told_to_clients(config: Config, case: Case) -> ClientClaims:
    """The claims of every single client."""
    truth, all_told = Truth(federate(config, case, PUBLIC_MASTER)), ClientClaims([], [], [], [])
    for client in truth.parties:
        numbers = [c for c in claims(config, case, truth, client, "statistics") if isinstance(c, StatisticClaim)]
        ranked = [c for c in claims(config, case, truth, client, "membership") if isinstance(c, MembershipClaim)]
        counts = [(c, truth.statistic(c.party, "", "count")) for c in numbers if c.statistic == "count"]
        means = [(c, truth.statistic(c.party, c.feature, "mean")) for c in numbers if c.statistic == "mean"]
        all_told.ratios.extend(c.high / c.low for c, _ in counts)
        all_told.held.extend(100.0 * (c.low <= real <= c.high) for c, real in counts)
        all_told.signs.extend(100.0 * (c.low * real > 0 < c.high * real) for c, real in means if real)
        all_told.lacked.extend(areas_of_lacked(ranked, truth, client))
    return all_told


def claims(config: Config, case: Case, truth: Truth, client: str, attack: str) -> list[Claim]:
    return claims_in(make_attack(attack, config, case).run(view_of((client,), truth), granted_knowledge(config, truth)))


def areas_of_lacked(ranked: Sequence[MembershipClaim], truth: Truth, client: str) -> list[float]:
    """For each party that holds some of the values that `client` lacks and not others: the AUC over them."""
    lacked: dict[str, list[tuple[float, bool]]] = defaultdict(list)
    for claim in ranked:
        own, theirs = (truth.vocabularies[p][claim.feature] for p in (client, claim.party))
        lacked[claim.party] += [
            (s, v in theirs) for v, s in zip(claim.values, claim.scores, strict=True) if v not in own
        ]
    areas = []
    for pairs in lacked.values():
        scores, member = np.array([s for s, _ in pairs]), np.array([m for _, m in pairs], bool)
        if 0 < member.sum() < len(member):
            areas.append(float(ranking_metrics(scores, member)["auc"]))
    return areas
