"""What a defended update is evidence of: the sum of all rows' gradients, with errors of a known size.

A defense is public, so its likelihood is known. Chains of defenses that are taken apart here:

* `gaussian-noise`: the mean gradient with normal errors;
* `example-clipping` first (with noise: DP-SGD, Abadi et al. 2016): each row's gradient is cut to the norm;
* `client-clipping`: the mean is shrunk by one factor, 1 where its norm is under the bound, as where what was sent is
  surely smaller than that. Else it is taken for unknown, which gives away one number of all that the update has;
* `pruning`: entries that were kept are exact, and each of those that were not is at most as large as the least that
  was kept of its tensor;
* `quantisation`: each entry is within half a step of its tensor's levels, or within a step where rounding is
  stochastic.

What the last two change of an entry is taken for a normal error of the same mean square, of each entry by itself: so
kept entries count in full beside pruned ones. Where one of them is the last defense, and no factor is unknown, samples
are of the exact likelihood (`intervals`); else that changes are bounded is not used, and the likelihood is
`approximate`: wrong rows may pass for such errors, so nothing that is claimed of it is sure. An entry that was rounded
to the highest level is at most that; it is taken for one within half a step on either side, less than is known.

Where nothing of this leaves an error, one is assumed that is small beside the update (`assumed_errors`): the rows found
then explain the update to that much.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leakledger.attacks.gradient.posterior.assumed_errors import by_column, even
from leakledger.attacks.gradient.posterior.cells import Cell
from leakledger.attacks.gradient.posterior.intervals import Intervals
from leakledger.attacks.observed.update import Arrays, ObservedUpdate
from leakledger.preprocess.views import Mechanism

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Evidence:
    """What was sent: per layer `total` (out, in + 1), the sum of all rows' gradients, times an unknown factor where it
    was `shrunk`, with errors of standard deviation `noise` in each entry, or of `noise` / sqrt(w) where entries have
    `weights` w (out, in + 1). `labels` (B,) of the rows; where they are not known, `label_prior` (classes,) in
    logarithms. `clip_norm`: each row's gradient was cut to it. `intervals`: what is known of entries exactly;
    `approximate`: normal errors stand for what is known in that way.

    Of a sample whose size is not known, `rows` are places for them, and `choices` (B + 1,) the log prior of one choice
    of k places (`sample_size`).
    """

    total: list[Tensor] = field(repr=False)
    noise: float
    rows: int
    labels: Tensor | None = field(repr=False)
    label_prior: Tensor = field(repr=False)
    clip_norm: float | None = None
    shrunk: bool = False
    choices: Tensor | None = field(default=None, repr=False)
    weights: list[Tensor] | None = field(default=None, repr=False)
    intervals: Intervals | None = field(default=None, repr=False)
    approximate: bool = False

    @property
    def usable(self) -> bool:
        """Whether single precision holds the squares that chains work with."""
        sizes = np.array([self.noise**2, self.loudest**2])
        limits = np.finfo(np.float32)
        return bool(((sizes > limits.tiny) & (sizes < limits.max)).all())  # so not where one is not a number

    @property
    def size(self) -> int:
        """The number of rows that is to be expected before the update is seen."""
        if self.choices is None:
            return self.rows
        k = torch.arange(self.rows + 1, device=self.choices.device)
        chances = torch.softmax(self.choices + log_ways(self.rows).to(self.choices.device), 0)
        return round(float((chances * k).sum()))

    @property
    def entries(self) -> int:
        return sum(t.numel() for t in self.total)

    @property
    def square(self) -> float:
        """|total|², each entry by its weight."""
        return float(sum((w * t.double() ** 2).sum() for t, w in zip(self.total, self._each_weight(), strict=True)))

    @property
    def loudest(self) -> float:
        """Noise above which the update says next to nothing: three times what its entries are in the mean."""
        return max(3 * math.sqrt(self.square / float(sum(w.sum() for w in self._each_weight()))), self.noise)

    @property
    def equalising(self) -> Tensor:
        """(in + 1,) what makes errors in the columns of the first layer alike, of deviation `noise`."""
        first = self.total[0]
        return first.new_ones(first.shape[1]) if self.weights is None else (1 / self.weights[0]).mean(0).rsqrt()

    def _each_weight(self) -> list[Tensor]:
        return [torch.ones_like(t) for t in self.total] if self.weights is None else self.weights

    def clipped(self, square: Tensor) -> Tensor:
        """What clipping leaves of gradients with these squared norms: the factor that each is scaled by."""
        if self.clip_norm is None:
            return torch.ones_like(square)
        return (self.clip_norm / square.clamp_min(1e-30).sqrt()).clamp(max=1)

    def of_rows(self, chosen: Tensor, total: list[Tensor], others: int) -> "Evidence":
        """The evidence of some places, given what the rows in all others leave of the sum, and how many these are."""
        labels = None if self.labels is None else self.labels[chosen]
        choices = None if self.choices is None else self.choices[others : others + len(chosen) + 1]
        return replace(self, total=total, rows=len(chosen), labels=labels, choices=choices)

    def unshrunk(self, total: list[Tensor], scale: float) -> "Evidence":
        """The same of a sum that was shrunk by `scale`, made as large as it was."""
        return replace(self, total=total, noise=self.noise / scale, shrunk=False)


def log_ways(rows: int) -> Tensor:
    """(rows + 1,) the logarithm of how many choices there are of k of so many places, for each k."""
    k = torch.arange(rows + 1)
    return torch.lgamma(k[-1] + 1.0) - torch.lgamma(k + 1.0) - torch.lgamma(k[-1] - k + 1.0)


STEPS = 1001  # of an interval, over which a mean is a sum
NARROW = 0.5  # of the error's deviation: an interval not wider is a normal error like that
FAR = 30.0  # scales, beyond which a distribution has nothing


@dataclass(frozen=True, eq=False)
class Change:
    """Entries that are at most `halves` from what was sent; `triangular`: less likely the further away; `neighbours`:
    numbers beside it might have been sent, too.
    """

    halves: Arrays
    triangular: bool = False
    neighbours: bool = False

    def mean_squares(self, sent: Arrays) -> Arrays:
        """Of what each entry of `sent` was changed by.

        An entry is anywhere in its interval, but for those that were sent as zero: there are most of these because most
        entries are small, so they are spread as those of a Laplace distribution are that is as seldom as far from zero.
        Stochastic rounding has the variance h² p (1 - p) where an entry is rounded up with probability p: that, in the
        mean over entries of such a distribution.
        """
        return {
            name: self._at_random(h, sent[name]) if self.triangular else _bounded(h, sent[name])
            for name, h in self.halves.items()
        }

    def _at_random(self, halves: Array, sent: Array) -> Array:
        step, scale, largest = float(halves.max(initial=0.0)), float(np.abs(sent).mean()), np.abs(sent).max(initial=0.0)
        if not step:
            return np.zeros_like(halves)
        place = np.linspace(0, min(FAR * scale, largest), STEPS)
        up = np.modf(place / step)[0]
        return np.full_like(halves, step**2 * _mean(up * (1 - up), place / scale))


def _bounded(halves: Array, sent: Array) -> Array:
    even, zero = halves**2 / 3, np.abs(sent) < halves / 2  # but for rounding, 0
    if not zero.any() or zero.all():
        return even
    half = float(halves[zero].max())
    scale = half / -math.log((~zero).mean())
    place = np.linspace(0, half, STEPS)
    return np.where(zero, _mean(place**2, place / scale), even)


def _mean(values: Array, rates: Array) -> float:
    """Of values at places in even steps, where density falls off as exp(-rate)."""
    weight = np.exp(-rates)
    return float((weight * values).sum() / weight.sum())


@dataclass(frozen=True)
class Channel:
    """What defenses do to a mean gradient: `noise` is the deviation of the errors in its entries; `stated`: it is said
    to be normal noise of just that, neither `assumed` nor worked out of the update. `changes`: what else changed
    entries, `bounded` if nothing was done after the only one.
    """

    noise: float
    clip_norm: float | None = None
    shrunk: bool = False
    stated: bool = False
    assumed: bool = False
    changes: tuple[Change, ...] = ()
    bounded: bool = False


NEAR = 6.0  # deviations, by which an entry that was sent as zero may look like another
MOST_BITS = 24
SINGLE = 1e-5  # by how much a norm in single precision may be off: clipped updates are that much larger or smaller
QUIET = 5.0  # deviations of half a chi-square: an energy lower than that by more was not left by such noise


def too_quiet(energy: float, evidence: Evidence, cells: Sequence[Cell]) -> bool:
    """Whether chains of this mean energy fit better than the noise lets them. Rows that are chosen to fit take off half
    a chi-square's worth for each cell, and at most what there is to choose from in nats.
    """
    chosen = evidence.rows * sum(math.log(cell.size) for cell in cells)
    return energy < evidence.entries / 2 - QUIET * math.sqrt(evidence.entries / 2) - chosen


def channel(mechanisms: Sequence[Mechanism], gradient: Arrays, rounding: float = 0.0) -> Channel | str:
    """What a chain of defenses did to a `gradient` that was sent, or why there is no likelihood for it. Its entries are
    known within a deviation of `rounding`, as where it was worked out of models.
    """
    variance, clip_norm, shrunk = 0.0, None, False
    changes: list[Change] = []
    for place, mechanism in enumerate(mechanisms, start=1):
        given = mechanism.parameters
        if wrong := _unusable(mechanism):
            return f"the public facts do not tell what {mechanism.kind} does as defense number {place}: {wrong}"
        if mechanism.kind == "gaussian-noise":
            variance += float(given["sigma"]) ** 2
        elif mechanism.kind == "example-clipping" and place == 1:
            clip_norm = float(given["clip_norm"])
        elif mechanism.kind == "client-clipping" and not variance:
            shrunk = shrunk or not _idle(mechanism, mechanisms[place:], gradient, rounding)
        elif mechanism.kind in CHANGES:
            halves = {name: CHANGES[mechanism.kind](g, given, rounding) for name, g in gradient.items()}
            rounded = mechanism.kind == "quantisation"
            changes.append(Change(halves, rounded and given["rounding"] == "stochastic", rounded))
        else:
            return f"there is no likelihood for {mechanism.kind} as defense number {place}"
    if not math.isfinite(variance):
        return f"defenses with errors of variance {variance} tell nothing"
    entries = np.concatenate([g.ravel() for g in gradient.values()])
    least = even(entries)
    stated = not changes and variance > least**2
    assumed = not changes and not variance
    bounded = len(changes) == 1 and mechanisms[-1].kind in CHANGES
    return Channel(max(math.sqrt(variance), least), clip_norm, shrunk, stated, assumed, tuple(changes), bounded)


def _idle(clipping: Mechanism, after: Sequence[Mechanism], sent: Arrays, rounding: float) -> bool:
    """Whether what clipping left was surely smaller than the norm, so that it is what came in: by the norm of what was
    `sent`, and the most that the defenses `after` it added.
    """
    norm, entries = clipping.parameters.get("clip_norm"), sum(g.size for g in sent.values())
    if not isinstance(norm, int | float) or isinstance(norm, bool) or any(_unusable(m) for m in after):
        return False
    if any(m.kind in CHANGES for m in after[:-1]):  # what follows hides which entries were changed, and by how much
        return False
    reach = math.sqrt(sum(float((g**2).sum()) for g in sent.values())) + rounding * math.sqrt(entries)
    for mechanism in after:
        if mechanism.kind in CHANGES:
            halves = [CHANGES[mechanism.kind](g, mechanism.parameters, rounding) for g in sent.values()]
            reach += math.sqrt(sum(float((h**2).sum()) for h in halves))
        elif mechanism.kind == "gaussian-noise":
            reach += float(mechanism.parameters["sigma"]) * math.sqrt(entries + NEAR * math.sqrt(2 * entries))
        else:
            return False
    return reach < norm * (1 - SINGLE)


def _unusable(mechanism: Mechanism) -> str:
    """Why the parameters of a mechanism tell nothing; "" where they do."""
    for name, least in NEEDED.get(mechanism.kind, {}).items():
        value = mechanism.parameters.get(name)
        if not isinstance(value, int | float) or isinstance(value, bool) or not value >= least or value == math.inf:
            return f"{name} is {value!r}, where a finite number from {least} is needed"
    if mechanism.kind == "quantisation":
        bits, way = mechanism.parameters["bits"], mechanism.parameters.get("rounding")
        if bits > MOST_BITS:
            return f"bits is {bits!r}, where at most {MOST_BITS} make levels that differ in single precision"
        if way not in ("nearest", "stochastic"):
            return f'rounding is {way!r}, where "nearest" or "stochastic" is needed'
    return ""


def _pruned(tensor: Array, given: Mapping[str, Any], rounding: float) -> Array:
    """How far each entry may be from what was sent: those set to zero, as far as the least is that was kept."""
    zero = np.abs(tensor) <= NEAR * rounding
    return np.where(zero, np.abs(tensor[~zero]).min() if not zero.all() else 0.0, 0.0)


def _rounded(tensor: Array, given: Mapping[str, Any], rounding: float) -> Array:
    """How far each entry may be from what was sent: half a step, or a whole one where rounding is stochastic."""
    step = np.abs(tensor).max(initial=0.0) / (2 ** (int(given["bits"]) - 1) - 1)
    return np.full_like(tensor, step if given["rounding"] == "stochastic" else step / 2)


CHANGES = {"pruning": _pruned, "quantisation": _rounded}
NEEDED: Mapping[str, Mapping[str, float]] = {
    "gaussian-noise": {"sigma": 0},
    "example-clipping": {"clip_norm": 0},
    "quantisation": {"bits": 2},
}
"""Which parameters a likelihood follows from, and the least that each may be."""


def evidence_of(update: ObservedUpdate, through: Channel, device: str) -> Evidence:
    """The evidence in a gradient, which `channel` reads as it was sent."""

    def tensor(array: NDArray[Any]) -> Tensor:
        return torch.tensor(array, device=device)

    layers = range(len(update.gradient) // 2)

    def stacked(arrays: Arrays) -> list[Array]:
        return [np.column_stack([arrays[f"{i}.weight"], arrays[f"{i}.bias"]]) for i in layers]

    smear = noise = math.hypot(update.stretched * through.noise, update.noise)
    squares, weights, intervals = None, None, None
    exact = through.bounded and not through.shrunk
    if through.changes:
        sent = {name: g / update.stretched for name, g in update.gradient.items()}
        changed = [stacked(c.mean_squares(sent)) for c in through.changes]
        squares = [smear**2 + update.stretched**2 * np.sum(c, axis=0) for c in zip(*changed, strict=True)]
    elif through.assumed and (told_apart := by_column(stacked(update.gradient))):
        squares = [update.noise**2 + deviations**2 for deviations in told_apart]
    if squares is not None:
        noise = math.sqrt(min(float(s.min()) for s in squares))
        weights = [tensor((noise**2 / s).astype(np.float32)) for s in squares]
    if exact:
        (change,) = through.changes
        halves = [update.stretched * h for h in stacked(change.halves)]
        known = [tensor(np.where(h > NARROW * smear, update.rows * h, 0.0).astype(np.float32)) for h in halves]
        if any(bool(h.any()) for h in known):
            intervals = Intervals(known, update.rows * smear, change.triangular, change.neighbours)
    widest = max((float(h.max(initial=0.0)) for c in through.changes for h in c.halves.values()), default=0.0)
    classes = update.model.classes
    return Evidence(
        [tensor((update.rows * p).astype(np.float32)) for p in stacked(update.gradient)],
        update.rows * noise,
        update.rows,
        tensor(update.labels) if len(update.labels) else None,
        tensor(np.full(classes, -math.log(classes), np.float32)),
        through.clip_norm,
        through.shrunk,
        weights=weights,
        intervals=intervals,
        approximate=not exact and update.stretched * widest > NARROW * smear,
    )
