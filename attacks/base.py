"""What an attack is: it reads one view with declared auxiliary knowledge, and returns claims or says why it makes none.

A claim is a statement about another party's data that the audit can check: whole records, statistics, vocabularies. An
attack that cannot apply returns `NotApplicable` with the missing precondition; one that could run but has nothing it
would stand by returns `Abstained`. Neither is a wrong claim.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from leakledger.attacks.texts import TextRecords
from leakledger.preprocess.messages import Payload
from leakledger.preprocess.views import FeatureLayout, PublicFacts, View

Statistic = Literal[
    "count",
    "mean",
    "std",
    "minimum",
    "maximum",
    "size",
    "quantile",
    "frequency",
    "target_rate",
    "held_out_count",
    "held_out_rate",
    "held_out_mean",
    "held_out_std",
]


MOST_NAMED = 4  # clients that a reason names
SEVERAL = "+"  # between the names of parties, which have none: a victim of which only a sum over clients is known


def joint(clients: Sequence[str]) -> str:
    """Several clients as one victim."""
    return SEVERAL.join(clients)


def clients_of(victim: str) -> tuple[str, ...]:
    """The clients that a victim is: one, or several."""
    return tuple(victim.split(SEVERAL))


def whose(victim: str) -> str:
    """The victim in a sentence: of many clients how many, since their names would fill the page."""
    clients = clients_of(victim)
    return victim if len(clients) <= MOST_NAMED else f"{len(clients)} clients together"


@dataclass(frozen=True)
class RecordsClaim:
    """The rows of one victim's batch in one round, in any order; it may hold fewer rows than the batch, and more where
    nothing tells how many that has: those for which no row is left count as nothing.

    Where the victim is several clients (`joint`) the rows are those of all their batches; `owners` (B,) then names the
    client that each is most probably of, "" where none is more so than others.

    `categories` (B, K): number of the candidate value in each categorical block of the layout. `numbers` (B, L):
    numeric features in raw units where the layout publishes the scale, else in the encoded columns' own units.
    `category_entropy` (B, K) in [0, 1] and `number_entropy` (B, L) in nats: how unsure the attack is of each cell
    (lower is surer). `evidence`: numbers of the messages it rests on. Where the attack checks its rows on the observed
    gradient, `residual` (B,) is the relative error behind each row, and `verified` (B,) says whether that proves it.
    Where it samples rows, `probability` (B, K + L) is how probable it finds each cell of the claim to be right.

    `layout` is set where the claim is about other features than the public layout has: values that the adversary can
    name where that has only columns. Its blocks then stand for K and L; of them, features, values and units count. A
    category of -1 is no claim about that cell.
    """

    victim: str
    round: int
    categories: NDArray[np.int64]
    numbers: NDArray[np.float64]
    category_entropy: NDArray[np.float64]
    number_entropy: NDArray[np.float64]
    evidence: tuple[int, ...] = ()
    residual: NDArray[np.float64] | None = None
    verified: NDArray[np.bool_] | None = None
    probability: NDArray[np.float64] | None = None
    owners: NDArray[np.str_] | None = None
    layout: FeatureLayout | None = field(default=None, repr=False)


@dataclass(frozen=True)
class StatisticClaim:
    """One statistic of one party's feature: an estimate and the interval that the attack vouches for.

    `value` is set where it is about the rows with one category: their share ("frequency"), or how often the target is
    the positive class among them ("target_rate"; over all rows where `feature` is ""); and for a "quantile": its level.

    Those called held out are about the rows that the party keeps for evaluation, which are none of its others: how many
    there are, the share of them in the class `value`, mean and deviation of a numeric target.
    """

    party: str
    feature: str
    statistic: Statistic
    estimate: float
    low: float
    high: float
    evidence: tuple[int, ...] = ()
    value: str = ""


@dataclass(frozen=True)
class VocabularyClaim:
    """The values that one party holds of one categorical feature.

    `counts` (as many as `values`): in how many of the party's rows each occurs, or the share of them; empty where the
    attack does not say. `certain`: the party itself says so in the clear, and nothing was inferred. `proven`: those of
    the values that messages prove, whatever else is claimed: nobody without the value could have sent them.
    """

    party: str
    feature: str
    values: tuple[str, ...]
    evidence: tuple[int, ...] = ()
    counts: tuple[float, ...] = ()
    certain: bool = False
    proven: frozenset[str] = frozenset()

    @property
    def vouched(self) -> frozenset[str]:
        """The values that the attack vouches for as beyond doubt."""
        return frozenset(self.values) if self.certain else self.proven


@dataclass(frozen=True)
class MembershipClaim:
    """How likely each of some candidate values of a feature is held by a party: `scores` (k,), higher is likelier.

    `proven`: those of the values that messages prove to be held, whatever their scores.
    """

    party: str
    feature: str
    values: tuple[str, ...]
    scores: tuple[float, ...]
    evidence: tuple[int, ...] = ()
    proven: frozenset[str] = frozenset()


@dataclass(frozen=True)
class ColumnClaim:
    """The column of one party's feature, record by record: `values` (n,) in the order that all parties share.

    `relation` says how they stand to the column: they are its values ("exact") or their magnitudes ("magnitude"), they
    are near these ("estimate", "magnitude-estimate"), or follow the column but for place and scale ("scaled"). NaN is
    no claim about that record.
    """

    party: str
    feature: str
    values: NDArray[np.float64]
    evidence: tuple[int, ...] = ()
    relation: Literal["exact", "magnitude", "estimate", "magnitude-estimate", "scaled"] = "exact"


@dataclass(frozen=True)
class FindingClaim:
    """A property of the protocol, shown by the transcript, that lets somebody learn about `party`: check and text.

    `text` names no value of a table. `evidence` may be empty where public facts alone show it.
    """

    party: str
    check: str
    text: str
    evidence: tuple[int, ...] = ()


@dataclass(frozen=True)
class NotApplicable:
    """The attack has a precondition that this view does not meet.

    `contradicted`: what it reads is there, and contradicts itself or what can be. In a transcript that others wrote it
    is then not known what the attack would have found.
    """

    reason: str
    contradicted: bool = False


@dataclass(frozen=True)
class Abstained:
    """The attack ran and makes no claim."""

    reason: str


Claim = RecordsClaim | StatisticClaim | VocabularyClaim | MembershipClaim | ColumnClaim | FindingClaim
Outcome = Sequence[Claim] | NotApplicable | Abstained
Dependencies = Mapping[tuple[str, str], Mapping[str, str | float]]


@dataclass(frozen=True, eq=False)
class KnownRows:
    """Whole rows of the population that are under no attack: `columns` maps features to their (n,) texts, empty where
    missing, or numbers in raw units. `labels` (n,): their class numbers; None where these are not known. `clients`
    (n,): which rows are of one client, numbered, and not of which.
    """

    columns: Mapping[str, NDArray[np.float64] | NDArray[np.str_]] = field(default_factory=dict, repr=False)
    labels: NDArray[np.int64] | None = field(default=None, repr=False)
    clients: NDArray[np.int64] | None = field(default=None, repr=False)

    def __bool__(self) -> bool:
        return bool(self.columns)


@dataclass(frozen=True)
class AuxiliaryKnowledge:
    """What the adversary is granted beside the view. Everything in it is listed beside every result.

    `labels` maps (client, round) to the labels (B,) of that batch. `bounds` maps a numeric feature to its (low, high)
    in the units of a `RecordsClaim`. `marginals` maps a feature to what is known of its distribution: (values,
    probabilities). `dictionaries` maps a categorical feature to plausible values. `dependencies` maps a categorical
    feature and another that it determines to which value of the first goes with which value, or number in raw units, of
    the second; it says nothing of values that are not in the map. `codes` maps a feature to the codes (k, width) of the
    k values in its dictionary, where they come from a public model that the adversary runs by itself (`fasttext`).
    `rows`: whole rows of the population that are under no attack.
    `texts` maps a party to a public encoder of whole records written as text, with plausible names and values of its
    features (`alignment`).
    """

    labels: Mapping[tuple[str, int], NDArray[Any]] = field(default_factory=dict)
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    marginals: Mapping[str, tuple[Sequence[Any], NDArray[np.float64]]] = field(default_factory=dict)
    dictionaries: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    dependencies: Dependencies = field(default_factory=dict)
    codes: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    rows: KnownRows = field(default_factory=KnownRows, repr=False)
    texts: Mapping[str, TextRecords] = field(default_factory=dict, repr=False)

    def granted(self) -> tuple[str, ...]:
        """The kinds of knowledge granted, for the result."""
        return tuple(name for name in self.__dataclass_fields__ if getattr(self, name))


Expected = Literal[
    "records",
    "fields",
    "vocabulary",
    "membership",
    "mean",
    "minimum",
    "maximum",
    "quantile",
    "count",
    "size",
    "frequency",
    "held_out_rate",
    "held_out_mean",
    "columns",
    "check",
]
ObserversOf = Literal["server", "first", "last", "all but first", "all but last"]


@dataclass(frozen=True)
class ControlSpec:
    """A trial whose answer is known beforehand, as plain data: an attack states where it must succeed, the audit builds
    that and plays it.

    The audit makes up a small federation that preprocesses with `encoder` and `scaler` under their options. The attack
    gets what `observers` hold and must recover what it `expects` of every party outside; scored against another party,
    or against another federation (`shuffled`), the same claims must be worth nothing. Of the quartiles of a column,
    one is enough. "check" expects a finding named
    `check` about each party, and none in the federation of `quiet`. With `evaluation`, a model for that task is trained
    for a round, with validation, and evaluated on rows that are held out. With `features`, parties hold other columns
    of the same records instead, and engineer features under these options. Two expectations need no such federation:
    "records" plays rows through the model and updates of the audited view, "fields" shows one made-up
    message of each kind in it. Raises ValueError for an unknown expectation or observers.
    """

    expects: Expected
    encoder: str = "target"  # each client by itself: no messages
    encoder_options: Mapping[str, Any] = field(default_factory=dict)
    scaler: str = "local"  # likewise
    scaler_options: Mapping[str, Any] = field(default_factory=dict)
    observers: ObserversOf = "server"
    evaluation: Literal["", "binary", "regression"] = ""
    features: Mapping[str, Any] | None = None
    check: str = ""
    quiet: "ControlSpec | None" = None
    shuffled: bool = True

    def __post_init__(self) -> None:
        for name, known in {"expects": get_args(Expected), "observers": get_args(ObserversOf)}.items():
            if (stated := getattr(self, name)) not in known:
                raise ValueError(f"`{name}` of a control is {stated!r}; known are {', '.join(known)}")


class Attack(ABC):
    """One technique. Options are set when it is made; `run` uses nothing but its arguments.

    `reads`: the kinds of message that it is handed, and no others; of a family, all that are derived from it.
    `reads_in_part`: those of them of which fields that tell of rows stay behind no claim, so that reading them is no
    evidence that nothing is told. `reads_times`: whether it is handed the times of these messages too, where a run
    notes them. `asset`: what its claims are about. `assumes`: who can run it. `controls`: where it must succeed, of
    which the audit plays those that have kinds of message in common with the view. `checks`: the names of its findings,
    which a policy can allow.
    """

    technique: ClassVar[str]
    reference: ClassVar[str]
    asset: ClassVar[tuple[str, ...]]
    reads: ClassVar[tuple[type[Payload], ...]]
    reads_in_part: ClassVar[tuple[type[Payload], ...]] = ()
    reads_times: ClassVar[bool] = False
    controls: ClassVar[tuple[ControlSpec, ...]]
    assumes: ClassVar[str]
    checks: ClassVar[tuple[str, ...]] = ()
    composed_of: ClassVar[tuple[str, ...]] = ()  # attacks that it plays; a field of each name has their options
    calibrator: ClassVar[bool] = False  # guesses on purpose: no control expects it to recover anything

    @classmethod
    def accepts(cls, kind: type[Payload]) -> bool:
        """Whether the attack reads messages of this kind."""
        return issubclass(kind, cls.reads)

    def unfit(self, public: PublicFacts) -> str:
        """Why `run` answers `NotApplicable` wherever these facts are public, whatever is sent; "" where they do not
        decide that.
        """
        return ""

    @abstractmethod
    def run(self, view: View, knowledge: AuxiliaryKnowledge) -> Outcome:
        """Claims about parties outside `view.observers`; the same view, knowledge and options give the same claims."""


def concluded(outcomes: Sequence[Claim | NotApplicable | Abstained]) -> Outcome:
    """The claims about several batches; where there is none about any, why there is none about the first."""
    claims = [o for o in outcomes if not isinstance(o, NotApplicable | Abstained)]
    refusals = [o for o in outcomes if isinstance(o, NotApplicable | Abstained)]
    return claims or refusals[0]


def claims_in(outcome: Outcome) -> list[Claim]:
    """The claims of an outcome; none where it says why there are none."""
    return [] if isinstance(outcome, NotApplicable | Abstained) else list(outcome)


def counter(progress: Callable[[int, int], None] | None, total: int) -> Callable[[int], None]:
    """Adds up steps and tells `progress(done, total)`."""
    done = 0

    def advance(steps: int) -> None:
        nonlocal done
        done += steps
        if progress is not None:
            progress(done, total)

    return advance


def check_seed(seed: int) -> None:
    """Raises ValueError for a seed that no generator takes."""
    if seed < 0:
        raise ValueError(f"seed is {seed}; it must be at least 0")


def check_device(device: str) -> None:
    """Raises ValueError unless torch knows a device of that name."""
    try:
        torch.device(device)
    except RuntimeError:
        raise ValueError(f"device {device!r} is unknown; write cpu, cuda, or one of its numbers, as cuda:0") from None
