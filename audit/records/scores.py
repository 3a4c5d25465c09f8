"""What the cases of a setting come to, over its clusters."""

from dataclasses import dataclass

from leakledger.audit.records.assets import Kind, Level, Observers, Status
from leakledger.audit.records.case import Relation, Unit


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Means over clusters, 95 % intervals and advantage as in `Score`."""

    value: float
    low: float | None
    high: float | None
    baseline: float
    advantage: float | None
    advantage_low: float | None
    advantage_high: float | None
    clusters: int


@dataclass(frozen=True, kw_only=True)
class FeatureScore(Estimate):
    """One column under one attack."""

    feature: str
    kind: Kind


@dataclass(frozen=True)
class BucketScore:
    """One bucket over all clusters: the share of claimed cells of this kind that fall into it, and the accuracy of
    these cells with its 95 % interval over the clusters that have any.
    """

    kind: Kind
    low_entropy: float | None
    high_entropy: float | None
    cells: int
    share: float
    value: float
    low: float | None
    high: float | None
    baseline: float
    clusters: int


@dataclass(frozen=True, kw_only=True)
class SurestScore(Estimate):
    """The `share` of each cluster's cells that the attack is surest of, `cells` of them per cluster."""

    kind: Kind
    share: float
    cells: float
    entropy: float | None


@dataclass(frozen=True)
class CellScores:
    """What one attack by one adversary does to the cells of one setting: columns by falling advantage, buckets and
    shares from the surest on.
    """

    features: tuple[FeatureScore, ...] = ()
    buckets: tuple[BucketScore, ...] = ()
    surest: tuple[SurestScore, ...] = ()


@dataclass(frozen=True)
class Score:
    """One attack by one adversary against one asset in one setting: the mean over clusters with its 95 % interval.

    `advantage` = (value - baseline) / (1 - baseline): 0 is nothing beyond the prior, 1 everything. `low` and `high`
    bound `value`; `advantage_low` and `advantage_high` the advantage. All are None unless `status` is `scored`.
    `bound`: what no adversary can exceed under the setting's defense, whatever it is granted, where anything bounds
    this metric (`audit.scoring.bounds`).
    """

    setting: str
    method: str
    encoder: str
    scaler: str
    defense: str
    training: str
    attack: str
    observers: tuple[str, ...]
    asset: str
    metric: str
    value: float | None
    low: float | None
    high: float | None
    baseline: float | None
    advantage: float | None
    advantage_low: float | None
    advantage_high: float | None
    clusters: int
    status: Status
    reason: str = ""
    knowledge: tuple[str, ...] = ()
    detail: CellScores | None = None  # beside the headline metric of records and of columns only
    level: Level = ""
    bound: float | None = None


@dataclass(frozen=True)
class BoundCheck:
    """One score beside what no adversary can exceed (`audit.bounds`): it holds unless the score's interval, `low` to
    `high`, lies above the `bound`. Where it does not, the audit is wrong somewhere: in what it takes the defense for,
    in the defense itself, or in the truth.
    """

    setting: str
    attack: str
    observers: Observers
    metric: str
    value: float
    low: float | None
    high: float | None
    baseline: float
    bound: float
    clusters: int
    passed: bool


@dataclass(frozen=True)
class Leakage:
    """What the adversaries of one kind learn of one asset (of `ASSETS`) in one setting: the best score of the one of
    them that learns most (`audit.leakage`), None where no attack made a claim.

    `adversary` is in words: "server", "one client", "2 clients". `possible`: the clusters that there are; the score has
    fewer where claims are about some parties only. `low` and `high` bound the advantage at 95 % with the choice of the
    best of `among` scores allowed for (Bonferroni): they are wider than the interval of the score itself.
    """

    setting: str
    adversary: str
    asset: str
    possible: int
    score: Score | None
    among: int = 0
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True)
class FrontierPoint:
    """One setting on the frontier of one asset (`audit.frontier`): how much of it leaks at which utility.

    `family`: the defenses by name; `parameter` and `strength`: what differs within the family, None where there is none
    or more than one. `leakage` is the highest advantage, `bound` the advantage that no adversary exceeds. `front`: no
    other defense of the same method and training beats it. `open`: the verdict on it is inconclusive. `epsilon`: of
    what training sends, by itself and whatever else is sent, at `delta` for one `unit`, of which neighbours differ by
    `relation` (`PrivacyAccount`); all None where it has none.
    """

    setting: str
    method: str
    training: str
    partition: str
    defense: str
    family: str
    parameter: str
    strength: float | None
    asset: str
    metric: str
    attack: str
    observers: Observers
    leakage: float
    leakage_low: float | None
    leakage_high: float | None
    clusters: int
    bound: float | None
    utility_metric: str
    utility: float
    utility_low: float | None
    utility_high: float | None
    seeds: int
    open: bool
    front: bool = False
    epsilon: float | None = None
    delta: float | None = None
    unit: Unit | None = None
    relation: Relation | None = None


@dataclass(frozen=True)
class UtilityScore:
    """One utility metric of one setting: mean over seeds, and its 95 % interval where there are at least two."""

    setting: str
    method: str
    encoder: str
    scaler: str
    defense: str
    training: str
    metric: str
    value: float
    low: float | None
    high: float | None
    seeds: int
