"""Scoring: an attack's claims against the truth, beside an adversary who has only the prior."""

from collections.abc import Collection, Sequence

import numpy as np

from leakledger.attacks.base import (
    Abstained,
    Attack,
    AuxiliaryKnowledge,
    ColumnClaim,
    MembershipClaim,
    NotApplicable,
    Outcome,
    RecordsClaim,
    StatisticClaim,
    VocabularyClaim,
    clients_of,
)
from leakledger.audit.records import Trial
from leakledger.audit.scoring.best_prior import BestPrior
from leakledger.audit.scoring.bounds import Bounds
from leakledger.audit.scoring.columns import score_columns
from leakledger.audit.scoring.membership import score_membership
from leakledger.audit.scoring.records import score_records
from leakledger.audit.scoring.sizes import score_sizes
from leakledger.audit.scoring.statistics import score_statistics
from leakledger.audit.scoring.vocabulary import score_vocabularies
from leakledger.audit.truth import Truth

UNRANKED = "of each party it ranks candidates that are all held, or none of them, so that no order is better"


def baseline(truth: Truth, knowledge: AuxiliaryKnowledge, coins: np.random.Generator, draws: int) -> BestPrior:
    """What an adversary with the prior only gets of the batches of a case; the same coins give the same one, and what
    it found is not searched for again.
    """
    return BestPrior(truth, knowledge, int(coins.integers(2**63)), draws)


def score(
    attack: Attack,
    observers: Sequence[str],
    outcome: Outcome,
    knowledge: AuxiliaryKnowledge,
    truth: Truth,
    attempted: Collection[tuple[str, int]],
    coins: np.random.Generator,
    draws: int,
) -> list[Trial]:
    """One trial per metric and cluster; an attack without claims leaves one trial per asset that says why. Findings are
    facts of the protocol and have no score.

    `attempted` are the batches (client, round) under attack: one of others than the observers that is in no claim,
    beside others that are, is an abstention. So are rankings in which of no party some candidates are held alone.
    """
    who, granted = tuple(observers), knowledge.granted()
    if isinstance(outcome, NotApplicable | Abstained):
        status = "abstained" if isinstance(outcome, Abstained) else "not_applicable"
        return [
            Trial(attack.technique, who, asset, "", "", 0, status, reason=outcome.reason, knowledge=granted)  # type: ignore[arg-type]
            for asset in attack.asset
        ]
    records = [c for c in outcome if isinstance(c, RecordsClaim)]
    statistics = [c for c in outcome if isinstance(c, StatisticClaim)]
    prior = baseline(truth, knowledge, coins, draws)
    measured = [
        *score_records(records, truth, prior.of, Bounds(truth, knowledge).of),
        *score_vocabularies([c for c in outcome if isinstance(c, VocabularyClaim)], truth),
        *score_statistics(statistics, truth),
        *score_sizes(statistics, truth),
        *score_membership([c for c in outcome if isinstance(c, MembershipClaim)], truth),
        *score_columns([c for c in outcome if isinstance(c, ColumnClaim)], truth),
    ]
    claimed = {(client, c.round) for c in records for client in clients_of(c.victim)}
    left_out = sorted(key for key in set(attempted) - claimed if key[0] not in who) if records else []
    silent = "no claim about this batch, beside claims about others"
    ranks = any(isinstance(c, MembershipClaim) for c in outcome)
    unranked = ranks and not any(m.asset == "membership" for m in measured)
    no_order = Trial(attack.technique, who, "membership", "", "", 0, "abstained", reason=UNRANKED, knowledge=granted)
    return [
        *(
            Trial(
                attack.technique,
                who,
                m.asset,
                m.metric,
                m.victim,
                m.round,
                "scored",
                m.value,
                m.baseline,
                "",
                granted,
                m.evidence,
                m.detail,
                m.certain,
                m.certain_wrong,
                m.spread,
                m.draws,
                m.level,
                m.bound,
            )
            for m in measured
        ),
        *(
            Trial(attack.technique, who, "records", "", victim, round, "abstained", reason=silent, knowledge=granted)
            for victim, round in left_out
        ),
        *([no_order] if unranked else []),
    ]
