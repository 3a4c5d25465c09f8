"""The observed update: all that is seen of what one client sent of its training in one round, and of its network.

A FedSGD gradient is a sum of one. Weights after local training (FedAvg) tell the sum of the gradients of all local
steps: their difference to the weights before, over the learning rate. Exact attacks need no more than such a sum, nor
that all gradients count alike in it (under a proximal term they do not); what weights add is the `schedule` of the
steps behind it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.base import Abstained, NotApplicable, RecordsClaim, whose
from leakledger.attacks.observed.row_facts import NOTHING, RowFacts
from leakledger.preprocess.views import FeatureLayout, Mechanism, ModelSpec

Arrays = dict[str, NDArray[np.float64]]
Steps = tuple[tuple[int, int], ...]
Inverted = RecordsClaim | NotApplicable | Abstained
"""What an attack makes of one update."""


@dataclass(frozen=True)
class Schedule:
    """How a client trains: `epochs` times over `rows` rows, in batches of `batch`, at learning rate `rate`.

    A `proximal` term mu / 2 |w - w_0|^2 draws every step back to the weights that training began from. What the weights
    moved by, over the rate, is then `kept` times what it was before the step, plus the step's gradient: a sum in which
    earlier gradients count for less.
    """

    rows: int
    epochs: int
    batch: int
    rate: float
    proximal: float = 0.0

    @property
    def kept(self) -> float:
        """What a step leaves of the sum of the gradients before it; 1 without a proximal term."""
        return 1.0 - self.rate * self.proximal

    @property
    def total(self) -> int:
        """Rows in all local batches of all epochs."""
        return self.rows * self.epochs

    @property
    def steps(self) -> Steps:
        """First and past-the-last of each local batch, counted over all epochs."""
        starts = [(e * self.rows, i) for e in range(self.epochs) for i in range(0, self.rows, self.batch)]
        return tuple((at + i, at + min(i + self.batch, self.rows)) for at, i in starts)


@dataclass(frozen=True, eq=False)
class Member:
    """One of the clients behind a sum of updates: its `rows` there, and their `labels` (rows,), after local training
    those of all local batches in order; none where they are not known.
    """

    client: str
    rows: int
    labels: NDArray[np.int64] = field(repr=False)


@dataclass(frozen=True, eq=False)
class BatchSums:
    """`mean` and unbiased `variance` (H,) of the sums of each unit of a layer over a batch; `evidence`: number of the
    message that tells them.
    """

    mean: NDArray[np.float64] = field(repr=False)
    variance: NDArray[np.float64] = field(repr=False)
    evidence: int


@dataclass(frozen=True, eq=False)
class ObservedUpdate:
    """A sum of gradients over `rows` rows of `victim` in `round`, on a network of kind `model` for rows of `layout`.

    The victim may be several clients (`base.joint`) of whose updates only the sum is known: then `members` has them.

    `labels`: those of the rows (rows,), after local training those of all local batches in order (epochs * rows,);
    none where they are not known. `weights` at which the gradient was taken, or that training began from, and
    `gradient`, both by name in float64. `precision` is the unit roundoff of the numbers that travelled. `schedule`:
    the local steps behind the sum; None where it is a single gradient. `noise` is the standard deviation of errors
    in the entries beyond their own rounding. `evidence`: numbers of the messages it was read from. `mechanisms`:
    what is known to have been done to it before it was sent, when it was 1 / `stretched` as large. `guessed_size`:
    `rows` is only how many were to be expected; `assumed_size`: at most how many, and of fewer others are mixed
    with it, or at least how many. `single`: its two logits were made of one (`single_logit`). `facts`: what was known
    of its rows before. `sums`: what batch norm's running statistics tell of the first layer, where they do.
    `repeats`: updates of several rounds whose batch has the very same rows, maybe this one among them (`repeats`).
    """

    victim: str
    round: int
    rows: int
    layout: FeatureLayout = field(repr=False)
    model: ModelSpec
    labels: NDArray[np.int64] = field(repr=False)
    weights: Arrays = field(repr=False)
    gradient: Arrays = field(repr=False)
    precision: float
    evidence: tuple[int, ...] = ()
    schedule: Schedule | None = None
    noise: float = 0.0
    mechanisms: tuple[Mechanism, ...] = ()
    stretched: float = 1.0
    guessed_size: bool = False
    assumed_size: bool = False
    single: bool = False
    members: tuple[Member, ...] = ()
    facts: RowFacts = field(default=NOTHING, repr=False)
    sums: BatchSums | None = field(default=None, repr=False)
    repeats: tuple["ObservedUpdate", ...] = field(default=(), repr=False)

    @property
    def whose(self) -> str:
        """The victim in a sentence."""
        return whose(self.victim)

    @property
    def open_size(self) -> bool:
        """Whether nothing bears the number of rows out, so that none of them is proven."""
        return self.guessed_size or self.assumed_size

    @property
    def size(self) -> str:
        """How many rows, in words."""
        return f"{self.rows} row{'' if self.rows == 1 else 's'}"

    @property
    def rate(self) -> float:
        """The weights moved by -rate * gradient while it was summed up; 0 where they stood still."""
        return 0.0 if self.schedule is None else self.schedule.rate

    @property
    def training(self) -> Schedule:
        """The schedule of the local training. Raises ValueError for a gradient, which has none."""
        if self.schedule is None:
            raise ValueError(f"the gradient of {self.victim} in round {self.round} is of no local training")
        return self.schedule

    @property
    def roundoff(self) -> float:
        """The unit roundoff of the gradient's entries: of what travelled, or of their computation from weights.

        What the rounding of the weights leaves in a difference of them is `noise`.
        """
        return self.precision if self.schedule is None else unit_roundoff([np.dtype(np.float64)])

    @property
    def relu(self) -> bool:
        """Whether hidden layers are followed by ReLU, with no norm between: inactive units then have no gradient."""
        return followed_by_relu(self.model)


def followed_by_relu(spec: ModelSpec) -> bool:
    """Whether hidden layers of such a network are followed by ReLU, with no norm between."""
    return spec.activation == "relu" and spec.norm == "none"


def behind(spec: ModelSpec) -> str:
    """What follows a hidden layer of such a network, in words."""
    return spec.activation if spec.norm == "none" else f"{spec.norm} norm and {spec.activation}"


UNIFORM = 12**-0.5  # the standard deviation of a rounding error, in units of the last place: even between -1/2 and 1/2


def last_places(weights: Arrays, moved: Arrays, precision: float) -> float:
    """The standard deviation of what one rounding leaves in those first-layer `weights` that `moved`, not by 0.

    `precision` is the unit roundoff of the weights; a place of theirs is that of the power of two below each.
    """
    rounded = np.abs(np.concatenate([weights[n][moved[n] != 0] for n in ("0.weight", "0.bias")]))
    places = np.ldexp(precision, np.frexp(rounded)[1] - 1) * (rounded > 0)
    return float(UNIFORM * np.sqrt((places**2).sum() / max(1, len(places))))


def unit_roundoff(kinds: Iterable[np.dtype[np.floating]]) -> float:
    """The relative rounding error of numbers of these floating-point types: that of the coarsest."""
    return max(float(np.finfo(kind).eps) for kind in kinds)
