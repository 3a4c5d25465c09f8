"""Each party's counts, means, deviations, extremes and rates, from any mixture of messages, each with an interval.

Every message of a secure sum is a linear equation in the parties' numbers and parts (`system`). What a view's equations
determine is claimed exactly: on an open relay everything, of two parties the other one's (`exact`, `differences`,
`published`). Where parts in real numbers are seen, the rest is inferred from the distribution of the share that a part
is of its number (`proportions`, `posterior`): claims with nominal 90 % intervals. Plain summaries are read as they are,
noised ones with the interval of their noise (`observed.noised`), counts and moments of searches as points of a
distribution (`distribution`, `powers`). Updates, their sums and models tell how many rows are trained on
(`observed.trained_rows`). From mean, deviation and the shape of own rows follow `quartiles`.

Nominal is not exact. A prior says how far parties may be apart (`prior`): where they are as far, 90 to 95 % of the
intervals hold; where they are alike, nearly all; where they are further apart, nine of ten, but of counts and means
four of five where a single party is far away in all columns, by simulation (`test_statistics_coverage`). Intervals of
quartiles are too wide where shapes agree, where up to 98 % hold, and too narrow where they do not (`quartiles`).
Columns of two numbers have a model of their own (`binary`). No interval is without a width but where the equations
determine the number, or where its parts are 0, as parts in proportion are of 0 alone. `leakledger benchmark posteriors`
measures all this over a grid of federations.

Source of the leak: "Privacy-preserving tabular data transformation", sections 5.2 and 6. The adversary is honest but
curious: a party, the server, the relay or a coalition, with its own rows.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from leakledger.attacks.base import (
    Abstained,
    Attack,
    AuxiliaryKnowledge,
    ControlSpec,
    NotApplicable,
    Outcome,
    StatisticClaim,
)
from leakledger.attacks.observed.evaluated import HELD_OUT, evaluated
from leakledger.attacks.observed.noised import FAINT, NOISED, NOISED_TO, noised_claims
from leakledger.attacks.observed.secure_sums import CODE_SUMS, numeric_names, secure_sums
from leakledger.attacks.observed.stated import STATED_STATISTICS, stated
from leakledger.attacks.observed.trained_rows import TOLD_OF_ROUNDS, TRAINED, UPDATED, counted_rows
from leakledger.attacks.transcript.holdings.intersections import INTERSECTED
from leakledger.attacks.transcript.statistics.claims import known_claims
from leakledger.attacks.transcript.statistics.differences import party_facts, rounds
from leakledger.attacks.transcript.statistics.distribution import EXTREMES, RANKED, distribution_claims
from leakledger.attacks.transcript.statistics.exact import Means
from leakledger.attacks.transcript.statistics.histograms import histogram_claims
from leakledger.attacks.transcript.statistics.inference import inferred
from leakledger.attacks.transcript.statistics.no_room import room_claims
from leakledger.attacks.transcript.statistics.own import (
    NoTable,
    OwnTable,
    Unreadable,
    own_tables,
    the_one_outside,
)
from leakledger.attacks.transcript.statistics.powers import POWERED, power_claims
from leakledger.attacks.transcript.statistics.published import PUBLISHED, published_claims
from leakledger.attacks.transcript.statistics.quartiles import quartiles
from leakledger.attacks.transcript.statistics.single_row import single_row_claims
from leakledger.attacks.transcript.statistics.target import target_claims
from leakledger.attacks.transcript.statistics.unshared import absent_columns
from leakledger.preprocess.messages import (
    GlobalPowers,
    LocalPowerMoments,
    SecureSum,
    TargetTally,
    TargetTotals,
    TotalRows,
    ZScoreAnnounced,
)
from leakledger.preprocess.options import check_options, option
from leakledger.preprocess.views import View

NOTHING = "no message in this view is about a statistic"
# What numbers, names and shapes raise that do not fit; an array may have any shape, which is a TypeError for NumPy.
MISFITS = (KeyError, IndexError, TypeError, ValueError, ArithmeticError)
TOLD = {"ranks_to": "everyone"}
COMPARED = (
    SecureSum,
    *PUBLISHED,
    TargetTotals,
    TotalRows,
    GlobalPowers,
)  # say something beside the observers' own tables


@dataclass(frozen=True)
class Statistics(Attack):
    """`seed`: of the draws behind deviations and unknown counts."""

    level: float = option(0.9, above=0, below=1, help="nominal coverage of the intervals")
    seed: int = 0

    technique: ClassVar[str] = "statistics"
    reference: ClassVar[str] = (
        "Privacy-preserving tabular data transformation, section 6, eq. 5 and 6, and section 8.4 (what is revealed)"
    )
    asset: ClassVar[tuple[str, ...]] = ("statistics", "sizes")
    reads = (
        *STATED_STATISTICS,
        SecureSum,
        ZScoreAnnounced,
        *PUBLISHED,
        TargetTally,
        TargetTotals,
        *NOISED,
        *RANKED,
        *POWERED,
        *TRAINED,
        *HELD_OUT,
        *INTERSECTED,
    )
    # Under many powers moments are equations in how often each value occurs; of updates, models and sums of codes the
    # number of rows is read, and of intersections which columns are the observers' alone.
    reads_in_part = (LocalPowerMoments, *UPDATED, *TOLD_OF_ROUNDS, *CODE_SUMS, *INTERSECTED)
    controls = (
        ControlSpec("mean", scaler="zscore-sac"),
        ControlSpec("mean", scaler="zscore-sac", scaler_options={"sharing": "ring"}),
        ControlSpec("mean", scaler="zscore-sac", observers="all but first"),
        ControlSpec("mean", scaler="federated-zscore"),
        ControlSpec("minimum", scaler="federated-minmax"),
        ControlSpec("maximum", scaler="federated-minmax", observers="all but last"),
        ControlSpec("mean", scaler="pooled"),
        ControlSpec("quantile", scaler="federated-robust"),
        ControlSpec("count", scaler="federated-robust", observers="all but first"),
        ControlSpec("quantile", scaler="federated-robust", scaler_options=TOLD, observers="all but last"),
        ControlSpec("mean", scaler="federated-yeo-johnson"),
        ControlSpec("count", scaler="federated-yeo-johnson", observers="all but first"),
        ControlSpec("size", "local"),
        ControlSpec("size", "local", observers="all but last", shuffled=False),
        ControlSpec("size", "mod-norm"),
        ControlSpec("frequency", "target", {"exchange": "shared"}),
        ControlSpec("frequency", "target", {"exchange": "shared"}, observers="all but first"),
        *(
            ControlSpec("frequency", encoder, {**options, "encoder_epsilon": FAINT}, observers=who)
            for encoder, options in (("server-dictionary", {}), ("target", {"exchange": "shared"}))
            for who in NOISED_TO
        ),
        *(
            ControlSpec("mean", scaler="federated-zscore", scaler_options={"scaler_epsilon": FAINT}, observers=who)
            for who in NOISED_TO
        ),
        *(
            ControlSpec("minimum", scaler="federated-minmax", scaler_options={"scaler_epsilon": FAINT}, observers=who)
            for who in NOISED_TO
        ),
    )
    assumes: ClassVar[str] = (
        "honest but curious observers with their own tables; known rows say which values a column has"
    )

    def __post_init__(self) -> None:
        check_options(self)

    def run(self, view: View, knowledge: AuxiliaryKnowledge) -> Outcome:
        if not view.has(*self.reads):
            return Abstained(NOTHING)
        try:
            return self._claims(view, knowledge)
        except Unreadable as error:
            return NotApplicable(str(error))
        except MISFITS as error:
            return NotApplicable(  # without the text of an error, which may quote a value of somebody's
                "messages do not fit together as their protocols have them, or this attack takes them for something "
                f"else ({type(error).__name__})",
                contradicted=True,
            )

    def _claims(self, view: View, knowledge: AuxiliaryKnowledge) -> Outcome:
        told = [c for c in stated(view) if isinstance(c, StatisticClaim)]
        tables, missing = _tables(view)
        runs, problems = secure_sums(view)
        found = rounds(runs, tables, _announced(view))
        known, more = party_facts(found)
        open_, two = inferred(found, known, tables, self.level, self.seed)
        sure = [*told, *known_claims(known), *target_claims(view, tables, knowledge)]
        rows, kept = counted_rows(view, sure, absent_columns), list(evaluated(view))
        sure = [*(c for c in rows if c not in kept), *sure]  # what evaluations say alone is no claim of this attack
        ranked, bent = list(distribution_claims(view, tables)), list(power_claims(view, tables, self.level))
        noised = list(noised_claims(view, self.level, rows))
        claims = _first_of(
            [
                *(c for c in noised if c.statistic == "count"),  # within what is stated of it
                *sure,
                *(c for c in ranked if c.statistic not in EXTREMES),
                *bent,
                *histogram_claims(view, knowledge, tables),
                *published_claims(view, tables, self.level, _counted(view, sure)),
                *(c for c in ranked if c.statistic in EXTREMES),  # published ones are exact, or as near
                *room_claims(found, tables),
                *open_,
                *noised,
            ]
        )
        claims = [c for c in claims if c.party not in view.observers]  # without a table an observer is as unknown
        if claims:
            claims = _first_of([*single_row_claims(claims, _counts_of([*rows, *ranked, *bent])), *claims])
            return _first_of([*claims, *quartiles(claims, tables, self.level, two)])
        if missing:
            return NotApplicable(missing)
        if problems := [*problems, *more]:
            return NotApplicable("; ".join(dict.fromkeys(problems)))
        if not view.has(*(kind for kind in self.reads if kind not in (*TRAINED, *HELD_OUT, *INTERSECTED))):
            return Abstained(NOTHING)
        return Abstained("the messages say no more than what all outside have together")


def _counts_of(claims: Iterable[StatisticClaim]) -> list[StatisticClaim]:
    """The first claim about each number of rows."""
    return _first_of(c for c in claims if c.statistic == "count")


def _tables(view: View) -> tuple[dict[str, OwnTable], str]:
    """The observers' own tables where any message is read beside them, and ""; where one is missing none, and what is.
    What single messages and sums say does not need them.
    """
    try:
        return own_tables(view) if view.has(*COMPARED) else {}, ""
    except NoTable as error:
        return {}, str(error)


def _counted(view: View, claims: Iterable[StatisticClaim]) -> StatisticClaim | None:
    """The exact number of rows of the only client outside, where there is a claim of it."""
    outside = the_one_outside(view)
    counts = (c for c in claims if c.party == outside and c.statistic == "count" and c.low == c.high >= 1)
    return next(counts, None)


def _announced(view: View) -> Means:
    """The published means by (feature, value)."""
    names = numeric_names(view.public)
    for m in view.readable(ZScoreAnnounced):
        return {(n, ""): float(x) for n, x in zip(names, m.payload.mean, strict=False)}
    return {}


def _first_of(claims: Iterable[StatisticClaim]) -> list[StatisticClaim]:
    """One claim per statistic: the first, since claims come in the order of how sure they are."""
    kept: dict[tuple[str, str, str, str], StatisticClaim] = {}
    for c in claims:
        kept.setdefault((c.party, c.feature, c.statistic, c.value), c)
    return list(kept.values())
