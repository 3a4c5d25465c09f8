"""Which encoded columns are not zero at a party, and how often: what scalers and gradients tell of the rows behind.

* `zscore.mean` of a scaler over all columns (`columns="all"`) has a party's mean of every column: the local frequency
  of every number. `pooled.columns` has the rows.
* `minmax.local` over all columns has the extremes: the largest is 0 where no row has the number.
* A gradient of the first layer has, for an input that is 0 in all rows of the batch, a column of exact zeros; so has
  the change of the weights after local training without weight decay. What rows of other rounds hold it does not tell.
  Of the only other client the mean of a round has such columns, too, beside those of the observers' own updates.

The last source is used for blocks of unscaled 0/1 columns only. A round whose update has no zero column at all over
those is left out: noise on the update looks like that. Of an update under known noise, or taken out of masks or
ciphertexts, zero is what their errors explain (`_zero`), and it is left out where that is not far below its entries.

What is left out so still tells of columns by their energy, if only the deviation of the errors is known
(`columns_behind_errors`): of k entries of errors alone, over all rounds, the sum of squares Z in units of their
variance is chi-squared, and that of a column that rows have is larger. If variances are 1 + t times as large there, t
of every order of magnitude alike,

    P(held | Z) = r / (1 + r),    r = mean over t of (1 + t)^(-k/2) exp(Z t / (2 (1 + t))).

Errors alone make of r more than 1 / p with a chance of at most p, whatever gradients are like (Markov). Never certain.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from leakledger.attacks.observed.aggregates import RoundMean, by_rows, of_sums, round_means
from leakledger.attacks.observed.aggregation import error_of_mean
from leakledger.attacks.observed.gradients import row_count
from leakledger.attacks.observed.sums import known_updates
from leakledger.preprocess.messages import (
    ClientGradient,
    ClientWeights,
    GlobalModel,
    LocalExtremes,
    LocalMeans,
    PooledColumns,
)
from leakledger.preprocess.views import CategoricalBlock, Message, View

Floats = NDArray[np.float64]
FIRST_LAYER = "0.weight"
NOISE = "gaussian-noise"
SURE = 10.0  # deviations of an error that no entry of any network goes beyond
FAINT = 1e-4  # of the largest entry: where errors reach that, columns that rows do have pass for zero
# t of the energy of a column, of every order of magnitude; less than the least does not show in a million entries.
EXCESS = np.geomspace(1e-3, 1e12, 301)


@dataclass(frozen=True)
class Columns:
    """One party's columns: `active` (d,), False where it is not seen to be; `means` (d,) and `extremes` (2, d), lowest
    and highest, where they are told. `complete`: all of its rows are behind them. `rows`: how many, where known.
    `chances` (d,): how likely each is active, where errors leave no more than that. `untold` (d,): those that are not
    seen to be active, and of which that says nothing; None for none.
    """

    party: str
    active: NDArray[np.bool_] = field(repr=False)
    means: Floats | None = field(repr=False)
    extremes: Floats | None = field(default=None, repr=False)
    complete: bool = True
    rows: float | None = None
    evidence: frozenset[int] = frozenset()
    chances: Floats | None = field(default=None, repr=False)
    untold: NDArray[np.bool_] | None = field(default=None, repr=False)


def observed_columns(view: View) -> Iterator[Columns]:
    """What each message from outside tells of its sender's columns. Malformed payloads tell nothing."""
    width = view.public.layout.width if view.public.layout else 0
    for kind, read in ((LocalMeans, _means), (PooledColumns, _table), (LocalExtremes, _extremes)):
        for m in view.received(kind):
            try:
                found = read(m)
            except (KeyError, TypeError, ValueError, IndexError):
                continue
            if len(found.active) == width and width:
                yield found
    for source in (_first_layers(view, width), _left_of_means(view, width)):
        yield from _by_party(source)


def _means(m: Message) -> Columns:
    means = np.asarray(m.payload.mean, np.float64)
    rows = float(m.payload.count)
    return Columns(m.sender, means != 0, means, rows=rows, evidence=frozenset([m.sequence]))


def _table(m: Message) -> Columns:
    table = np.asarray(m.payload.rows, np.float64)
    extremes = np.array([table.min(0), table.max(0)])
    active = (table != 0).any(0)
    return Columns(m.sender, active, table.mean(0), extremes, rows=len(table), evidence=frozenset([m.sequence]))


def _extremes(m: Message) -> Columns:
    extremes = np.array([m.payload.minimum, m.payload.maximum], np.float64)
    return Columns(m.sender, (extremes != 0).any(0), None, extremes, evidence=frozenset([m.sequence]))


def _first_layers(view: View, width: int) -> Iterator[Columns]:
    """Of each update the columns that it depends on."""
    inputs = binary_columns(view, width)
    for m, rows, layer, told in _layers(view, width) if inputs.any() else ():
        zero = _zero(view, told, rows)
        active: NDArray[np.bool_] = np.asarray((np.abs(layer) > zero).any(0))
        if active[inputs].all() or not _far_below(zero, layer):
            continue
        yield Columns(m.sender, active & inputs, None, None, False, rows, frozenset([m.sequence]))


def _by_party(seen: Iterable[Columns]) -> Iterable[Columns]:
    """One per party: the columns that any of those is about."""
    found: dict[str, Columns] = {}
    for one in seen:
        found[one.party] = _either(found[one.party], one) if one.party in found else one
    return found.values()


def _left_of_means(view: View, width: int) -> Iterator[Columns]:
    """The columns that the updates of the only client depend on of which the observers have none, by the means of
    rounds: two models in a row tell it to every client, and all but its part of it are their own updates.

    How many rows it has, and so the share s of the observers in the mean, need not be known. Where its column is zero,
    that of the mean is s times that of the observers' own mean: a column that is no multiple of theirs is one that its
    rows have. Where all of the observers' own columns are multiples of one (a network of one neuron, a single row), the
    other's may be as well: then only the columns that are seen to be no multiples say anything.
    """
    inputs = binary_columns(view, width)
    if not inputs.any() or noise_on_updates(view) > 0:
        return
    for whole in round_means(view):
        known = known_updates(view, whole)
        others = [c for c in whole.clients if c not in known]
        mean = whole.mean[FIRST_LAYER]
        if len(others) != 1 or others[0] in view.observers or mean.shape[1:] != (width,):
            continue
        try:
            own, zero = own_mean(view, whole, known)
        except (KeyError, TypeError, ValueError, IndexError):
            continue
        active = _beside(mean, own, zero)
        if active[inputs].all() or not _far_below(np.array(zero), mean):
            continue
        alike = (np.abs(own) > zero).any(0) & ~active if _parallel(own[:, inputs], zero) else None
        evidence = frozenset(whole.evidence) | {m.sequence for m in known.values()}
        yield Columns(others[0], active & inputs, None, None, False, None, evidence, untold=alike)


def own_mean(view: View, whole: RoundMean, known: Mapping[str, Message]) -> tuple[Floats, float]:
    """(neurons, d): the mean of the known updates' first layers, weighed as the aggregation does, in the units of the
    mean of all; and what of that passes for zero.
    """
    training = view.public.training
    assert training is not None  # or there is no mean
    total, weights, unit = np.zeros_like(whole.mean[FIRST_LAYER]), 0.0, 1.0
    for m in known.values():
        weight = float(row_count(m)) if by_rows(view) else 1.0
        if m.kind is ClientGradient:
            layer = np.asarray(m.payload.gradient[FIRST_LAYER], np.float64)
        else:
            unit = training.learning_rate
            layer = (whole.weights[FIRST_LAYER] - np.asarray(m.payload.weights[FIRST_LAYER], np.float64)) / unit
        total, weights = total + weight * layer, weights + weight
    error = error_of_mean(view, len(whole.clients), max(weights, 1.0)) / unit  # of more rows it is less
    return np.asarray(total / max(weights, 1.0)), SURE * float(np.hypot(whole.noise, error))


def _parallel(columns: Floats, zero: float) -> bool:
    """Whether some of the columns (neurons, d) are more than `zero`, and all of them multiples of one."""
    largest = columns[:, [(columns**2).sum(0).argmax()]]
    return bool((np.abs(largest) > zero).any() and not _beside(columns, largest, zero).any())


def _beside(mean: Floats, own: Floats, zero: float) -> NDArray[np.bool_]:
    """(d,) which columns of `mean` (neurons, d) are no multiple of the `own` ones, up to `zero` in each entry."""
    size = (own**2).sum(0)
    share = (mean * own).sum(0) / np.where(size > 0, size, 1.0)
    return np.asarray((np.abs(mean - share * own) > zero).any(0))


def columns_behind_errors(view: View) -> Iterator[Columns]:
    """One per party: how likely each 0/1 column is one that its updates depend on, by those updates of which errors of
    a known deviation hide what is zero.
    """
    width = view.public.layout.width if view.public.layout else 0
    inputs = binary_columns(view, width)
    energy, entries, evidence = dict[str, Floats](), Counter[str](), dict[str, frozenset[int]]()
    for m, rows, layer, told in _layers(view, width) if inputs.any() else ():
        error = _error(view, rows)
        rounding = np.spacing(np.abs(told).astype(np.float32)).max(initial=0)
        if _far_below(_zero(view, told, rows), layer) or not rounding < error < np.inf:
            continue
        energy[m.sender] = energy.get(m.sender, np.zeros(width)) + ((layer / error) ** 2).sum(0)
        entries[m.sender] += len(layer)
        evidence[m.sender] = evidence.get(m.sender, frozenset()) | {m.sequence}
    for party, sums in energy.items():
        chances: Floats = np.where(inputs, more_than_errors(sums, entries[party]), 0.0)
        yield Columns(party, np.asarray(chances > 0.5), None, None, False, None, evidence[party], chances)


def more_than_errors(sums: Floats, entries: int) -> Floats:
    """(d,) the chance that something is behind errors, of whose `entries` in each column these are the sums of squares
    (d,) in units of their variance.
    """
    exponents = np.multiply.outer(sums, EXCESS / (1 + EXCESS)) / 2 - entries / 2 * np.log1p(EXCESS)
    chances: Floats = expit(np.logaddexp.reduce(exponents, axis=-1) - np.log(len(EXCESS)))
    return chances


def _layers(view: View, width: int) -> Iterator[tuple[Message, float, Floats, Floats]]:
    """Of each update from outside: its message, its rows, what it says of the first layer (neurons, d), and the numbers
    that travelled for that. Malformed payloads are left out.
    """
    models = {(m.round, m.recipient): m for m in view.readable(GlobalModel)}
    for kind, part in ((ClientGradient, "gradient"), (ClientWeights, "weights")):
        for m in view.received(kind):
            try:
                rows = float(row_count(m))
                told = np.asarray(getattr(m.payload, part)[FIRST_LAYER], np.float64)
                layer = told
                if kind is ClientWeights:
                    layer = told - np.asarray(models[m.round, m.sender].payload.weights[FIRST_LAYER], np.float64)
            except (KeyError, TypeError, ValueError, IndexError):
                continue
            if layer.ndim == 2 and layer.shape[1] == width and layer.shape == told.shape:
                yield m, rows, layer, told


def _far_below(zero: Floats, layer: Floats) -> bool:
    """Whether what passes for zero is next to nothing beside the entries."""
    return bool(zero.max(initial=0) <= FAINT * np.abs(layer).max(initial=0))


def summed_columns(view: View) -> Iterator[tuple[tuple[str, ...], NDArray[np.bool_], tuple[int, ...]]]:
    """Of each round's sum of updates that a server takes out of masks or ciphertexts: over whom, which columns (d,) any
    of them depends on, and the messages. None under noise, and none of a sum that has no zero column, as noise that is
    not known looks like.
    """
    width = view.public.layout.width if view.public.layout else 0
    inputs = binary_columns(view, width)
    if view.public.server not in view.observers or noise_on_updates(view) > 0 or not inputs.any():
        return
    for found in of_sums(view):
        layer, zero = np.abs(np.asarray(found.mean[FIRST_LAYER], np.float64)), SURE * found.noise
        if layer.ndim != 2 or layer.shape[1] != width or not zero <= FAINT * layer.max(initial=0):
            continue
        active: NDArray[np.bool_] = np.asarray((layer > zero).any(0))
        if not active[inputs].all():
            yield found.clients, active & inputs, found.evidence


def _zero(view: View, told: Floats, rows: float) -> Floats:
    """The largest size of what is left of a 0, for each of the numbers `told`: none where they travelled as they were.

    Of a sum times `rows` that protection left with an error, or a number under noise, within `SURE` deviations, rounded
    to float32 once more.
    """
    error = SURE * _error(view, rows)
    return np.asarray(error + np.spacing(np.abs(told).astype(np.float32)) * (error > 0), np.float64)


def _error(view: View, rows: float) -> float:
    """The standard deviation of what protection left in each entry of an update over so many rows."""
    return float(np.hypot(error_of_mean(view, 1, rows), noise_on_updates(view)))


def noise_on_updates(view: View) -> float:
    """The standard deviation of the noise on what clients send; infinite where another defense came after it."""
    kinds = [m.kind for m in view.public.mechanisms]
    if NOISE not in kinds:
        return 0.0
    if set(kinds[kinds.index(NOISE) :]) != {NOISE}:
        return float("inf")
    return float(np.linalg.norm([float(m.parameters["sigma"]) for m in view.public.mechanisms if m.kind == NOISE]))


def _either(one: Columns, other: Columns) -> Columns:
    rows, active = (one.rows or 0) + (other.rows or 0), one.active | other.active
    untold = None if one.untold is None or other.untold is None else one.untold & other.untold
    return replace(one, active=active, rows=rows, evidence=one.evidence | other.evidence, untold=untold)


def binary_columns(view: View, width: int) -> NDArray[np.bool_]:
    """(d,) the columns of unscaled blocks whose codes are 0 and 1."""
    found = np.zeros(width, bool)
    for block in view.public.layout.categorical if view.public.layout else ():
        found[block.start : block.start + block.width] = is_binary(block)
    return found


def is_binary(block: CategoricalBlock) -> bool:
    """Whether each candidate of an unscaled block sets one column of its own or of its bucket."""
    if block.shift is not None:
        return False
    return block.codes is None or (bool(np.isin(block.codes, (0, 1)).all()) and block.width > 1)


def overlapping(blocks: Sequence[CategoricalBlock]) -> dict[int, list[CategoricalBlock]]:
    """Start column -> the blocks there: more than one where features share columns."""
    found: dict[int, list[CategoricalBlock]] = {}
    for block in blocks:
        found.setdefault(block.start, []).append(block)
    return found
