"""Measurements in one cluster, and trials whose answer is known beforehand.

What is measured cell by cell (columns, entropy buckets, the surest cells) is the *detail* of the one trial that speaks
for an attack; of columns also of those that bound it beside that one, bits and the order of counts.
"""

from dataclasses import dataclass
from typing import Literal

from leakledger.audit.records.assets import Kind, Level, Status

SCORER = "scorer"
"""Under this name stand the controls of the scoring itself."""

POWER: Literal["power"] = "power"
"""The kind of control that asks whether an attack gets anywhere at the audited strength."""

UNTIMED = "planted messages with times of their own: they never travelled and have none"
"""What an attack that reads times would have to be shown before its silence about planted messages proves anything."""


@dataclass(frozen=True)
class FeatureShare:
    """One column in one cluster: the share of the batch's cells that are right, of a claimed column its correlation, of
    a party's statistic the share of its figures in that column that are known, or of their bits that are gained, of
    values held their overlap or the rank correlation of their counts; beside that of the prior alone.
    """

    feature: str
    kind: Kind
    value: float
    baseline: float


@dataclass(frozen=True)
class Bucket:
    """The claimed cells of one cluster with an entropy in (low, high], where None is an open end: how many there are,
    how many are right, and how many of the same cells the prior alone has right (expected, so a fraction).

    Entropy is normalised to [0, 1] for categorical cells; for numeric ones, in standard deviations, it is in nats.
    """

    kind: Kind
    low: float | None
    high: float | None
    cells: int
    correct: int
    prior: float


@dataclass(frozen=True)
class SurestShare:
    """The `share` of one cluster's claimed cells that the attack is surest of: the part of them that is right, the part
    of the same cells that the prior alone has right, and their mean entropy (None where the attack states none).

    `cells` may be a fraction: of cells tied in entropy at the cut, each counts for an equal part.
    """

    kind: Kind
    share: float
    cells: float
    value: float
    baseline: float
    entropy: float | None


@dataclass(frozen=True)
class CellDetail:
    """One cluster cell by cell. No buckets and no shares where nothing was claimed or the attack states no entropy."""

    features: tuple[FeatureShare, ...] = ()
    buckets: tuple[Bucket, ...] = ()
    surest: tuple[SurestShare, ...] = ()


@dataclass(frozen=True)
class Trial:
    """One metric of one attack against one cluster.

    `value` is the attack's, `baseline` that of an adversary with the prior only, measured alike; both in [0, 1] for the
    metrics that have an advantage, and None where the attack made no claim (`status` and `reason` say why).
    """

    attack: str
    observers: tuple[str, ...]
    asset: str
    metric: str
    victim: str
    round: int
    status: Status
    value: float | None = None
    baseline: float | None = None
    reason: str = ""
    knowledge: tuple[str, ...] = ()
    evidence: tuple[int, ...] = ()
    detail: CellDetail | None = None  # of what has columns, beside a metric that decides
    certain: int = 0  # claims that the attack vouches for as beyond doubt: proven rows, intervals of no width
    certain_wrong: int = 0  # those of them that are not so
    spread: float = 0.0  # how far other guesses may be from `baseline`: a standard deviation, of so many `draws`
    draws: int = 0
    level: Level = ""
    bound: float | None = None  # what no adversary can exceed, in the mean; None: nothing is known to bound it


@dataclass(frozen=True)
class Control:
    """A trial whose answer is known beforehand: `leaky` must be recovered, `null` must stay at the baseline, and so
    must `shuffled`, whose advantage has an interval from `low` to `high` over repetitions. `power` asks whether the
    attack gets anywhere at the audited strength: where it does not, its silence proves nothing, and its claims stand.

    `attack` may be `SCORER`: then it is the scoring itself that was tried.
    """

    attack: str
    kind: Literal["leaky", "null", "shuffled", "power"]
    value: float
    baseline: float
    advantage: float
    passed: bool
    expected: str
    low: float | None = None
    high: float | None = None
    kinds: tuple[str, ...] = ()  # topics of what the attack was shown in it
    summed: bool = False  # it was shown a sum over clients, or the models that one follows from; not what each sent
