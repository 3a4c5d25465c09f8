"""`target`: a value becomes a smoothed rate that ties it to the target; each client by itself, or over all clients.

Source: "Privacy-preserving tabular data transformation", section 7.3, eq. 7:

    x_t = (frequency(x) p(f = x | c = 1) + a mean(c)) / (frequency(x) + a)

Readings. frequency(x) is a count of rows. Eq. 7 has p(f = x | c = 1), how often the target class has the value; the
text around it ("the mean of their corresponding target variable") and the method's source (Micci-Barreca 2001) have
p(c = 1 | f = x). The default is the equation as printed (`likelihood="value-given-class"`), "class-given-value" is the
text. Neither `smoothing` a nor folds are given; a = 10 and 5 folds are choices made here. A multiclass target gives one
column per class; for regression c is the number itself, which only "class-given-value" defines.

Out of fold: a table with the rows that the encoding was learned from is encoded fold by fold, each fold with the
frequencies, rates and mean of the others, so that a row's own target is not in its code. `folds=1` turns that off: the
published variant, of which the paper says that it is prone to target leakage. A value that was never seen has
frequency 0, so its code is mean(c) (`unseen="error"`: ValueError, with the feature, without the value).

Exchange: "local" sends nothing, and the same value has different codes at different clients. "shared" is the paper's
second strategy ("sharing probability values to unify encodings, compromising privacy, as probabilities and clear text
values are revealed"): each client tells the server its row count, its target sums, and per value the count and the
target sums; the server publishes the totals. What a fold needs follows from the totals less the fold's own rows.

With `encoder_epsilon` the shared exchange is of noised tables (`noise.categories`): each client tells the server, for
every *declared* value and class, a noised count of its rows. Row count and target sums are the means of what the tables
of the features say. Codes are then those of all folds alike: taking a row's own target out of its code would put what
the noise hides back into the codes of other rows.

The server knows of local codes their bounds, and of shared ones every value and code.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.encoders.base import EncoderFit, Style, Unseen, distinct, positions
from leakledger.preprocess.encoders.codebook import named_block, numeric_blocks
from leakledger.preprocess.encoders.noised import NoisedEncoder
from leakledger.preprocess.federation import At, Federation
from leakledger.preprocess.messages import NoisedTallies, NoisedTallyTotals, TargetTally, TargetTotals, ValueTally
from leakledger.preprocess.noise.calibration import Noise
from leakledger.preprocess.noise.categories import noised_table
from leakledger.preprocess.noise.integers import ByteStream, from_stream
from leakledger.preprocess.nouns import plural
from leakledger.preprocess.options import check_options, option
from leakledger.preprocess.views import CategoricalBlock, Mechanism, NumericBlock

Floats = NDArray[np.float64]
Likelihood = Literal["value-given-class", "class-given-value"]
Exchange = Literal["local", "shared"]


@dataclass(frozen=True)
class Target(NoisedEncoder):
    style: Style = "one-hot"
    unseen: Unseen = "ignore"
    smoothing: float = option(10.0, at_least=0, help="rows of the prior that a value's own rows are mixed with")
    folds: int = option(5, at_least=1, help="1: a row's own target is in its code, as published")
    likelihood: Likelihood = option("value-given-class", help='eq. 7 as printed, or "class-given-value"')
    exchange: Exchange = option("local", help='"shared": counts and target sums are pooled by the server')

    name = "target"
    reference = "Privacy-preserving tabular data transformation, section 7.3, eq. 7; Micci-Barreca (2001)"
    said_to_share = "nothing (table 5); shared: counts and target sums, with the server, their totals, with all (ours)"

    def __post_init__(self) -> None:
        if self.style != "one-hot":
            raise ValueError(f"target has codes of its own; style {self.style!r} does not apply, leave it out")
        check_options(self)
        if self.encoder_epsilon is not None and self.exchange == "local":
            raise ValueError(
                'encoder_epsilon is for what clients send, and exchange = "local" sends nothing; set exchange = '
                '"shared", or leave encoder_epsilon out'
            )

    def fit(self, fed: Federation, schema: Schema, tables: Mapping[str, At[Table]]) -> EncoderFit:
        """Topics of the shared exchange: `target.local`, `target.global`. Raises ValueError for a regression target
        under "value-given-class".
        """
        if schema.task == "regression" and self.likelihood == "value-given-class":
            raise ValueError(
                f"the target {schema.target!r} is a quantity, which has no classes; set likelihood class-given-value"
            )
        if self.encoder_epsilon is not None:
            return self._fit_noised(fed, schema, tables)
        own = {c: fed.local(c, tally, t) for c, t in tables.items()}
        if self.exchange == "local":
            encodings = {
                c: fed.local(c, TargetEncoding.learn, self, t, own[c], fed.coins(c)) for c, t in tables.items()
            }
            return EncoderFit(encodings, fed.public(self.unnamed_blocks, schema))
        received = fed.gather({c: fed.local(c, told_of, o) for c, o in own.items()}, fed.server)
        totals = fed.broadcast(fed.local(fed.server, pooled, *received))
        tallies = fed.public(tallies_of, totals)
        encodings = {c: fed.local(c, TargetEncoding.learn, self, t, tallies, fed.coins(c)) for c, t in tables.items()}
        return EncoderFit(encodings, fed.public(self.named_blocks, tallies))

    def _fit_noised(self, fed: Federation, schema: Schema, tables: Mapping[str, At[Table]]) -> EncoderFit:
        domains, alike = self.domains(schema), replace(self, folds=1)
        noise = self.noise(domains)
        local = {c: fed.local(c, noised_tallies, t, domains, noise, fed.key_stream(c)) for c, t in tables.items()}
        received = fed.gather(local, to=fed.server, kind=NoisedTallies)
        totals = fed.broadcast(fed.local(fed.server, total_tallies, *received))
        tallies = fed.public(partial(tallies_from_noise, schema, domains, noise), totals)
        encodings = {c: fed.local(c, TargetEncoding.learn, alike, t, tallies, fed.coins(c)) for c, t in tables.items()}
        return EncoderFit(encodings, fed.public(self.named_blocks, tallies))

    def domains(self, schema: Schema) -> dict[str, tuple[str, ...]]:
        if schema.task == "regression":
            raise ValueError(
                f"target: encoder_epsilon needs a target with classes, and {schema.target!r} is a quantity; leave "
                "encoder_epsilon out"
            )
        return super().domains(schema)

    def mechanisms(self, schema: Schema) -> tuple[Mechanism, ...]:
        return self.described(schema, NoisedTallies.topic)

    @property
    def unprotected(self) -> str:
        if self.exchange == "local":
            return "target (local) puts a client's own target rates into its rows, so one record changes the others"
        return super().unprotected

    @property
    def by_own_rows(self) -> bool:
        return self.exchange == "local" or (self.folds > 1 and self.encoder_epsilon is None)

    def code(self, counts: NDArray[Any], sums: Floats, rows: float, totals: Floats) -> Floats:
        """Eq. 7 for values in so many rows (k,) with these target sums (k, T), of all `rows` and their `totals` (T,):
        (k, T), between 0 and 1 for classes.
        """
        frequency = np.asarray(counts, np.float64)[:, None]
        mean = totals / max(rows, 1)
        whole = totals if self.likelihood == "value-given-class" else frequency
        rate = sums / np.where(whole > 0, whole, 1.0)
        weight = frequency + self.smoothing
        code: Floats = (frequency * rate + self.smoothing * mean) / np.where(weight > 0, weight, 1.0)
        return np.where(frequency > 0, code, mean)

    def unnamed_blocks(self, schema: Schema) -> tuple[NumericBlock, ...]:
        width, bounds = columns_per_feature(schema), (0.0, 1.0) if schema.classes else (None, None)
        return tuple(b for i, f in enumerate(schema.categorical) for b in numeric_blocks(f, i * width, width, *bounds))

    def named_blocks(self, tallies: "Tallies") -> tuple[CategoricalBlock, ...]:
        blocks: list[CategoricalBlock] = []
        for feature, of in tallies.features.items():
            codes = self.code(of.counts, of.sums, tallies.rows, tallies.sums)
            blocks.append(named_block(feature, len(blocks) * codes.shape[1], of.values, list(codes), codes.shape[1]))
        return tuple(blocks)


@dataclass(frozen=True)
class Tally:
    """Of one feature: its values in order, in how many rows each occurs (k,), and their target sums (k, T)."""

    values: Sequence[str] = field(repr=False)
    counts: NDArray[np.int64] = field(repr=False)
    sums: Floats = field(repr=False)


@dataclass(frozen=True)
class Tallies:
    """Of all rows: how many, their target sums (T,), and a tally per feature."""

    rows: int
    sums: Floats = field(repr=False)
    features: Mapping[str, Tally] = field(repr=False)


@dataclass(frozen=True)
class TargetEncoding:
    """One party's encoding: codes of all values, and those of each fold of the rows that it was learned from."""

    encoder_: Target
    tallies_: Tallies = field(repr=False)
    train_: Table = field(repr=False)
    fold_of_row_: NDArray[np.int64] = field(repr=False)

    @classmethod
    def learn(cls, encoder: Target, table: Table, tallies: Tallies, coins: np.random.Generator) -> "TargetEncoding":
        folds = min(encoder.folds, max(len(table), 1))
        return cls(encoder, tallies, table, coins.permutation(len(table)) % folds)

    def transform(self, table: Table) -> Floats:
        """(rows, features x T). Out of fold where the table holds the rows that the encoding was learned from."""
        learned = table is self.train_ or table.frame.equals(self.train_.frame)
        inside = learned and self.encoder_.folds > 1
        fold = self.fold_of_row_ if inside else np.zeros(len(table), np.int64)
        target = targets(table) if inside else np.zeros((len(table), len(self.tallies_.sums)))
        parts = [self._columns(table, f, fold, target, inside) for f in self.tallies_.features]
        columns: Floats = np.hstack([np.empty((len(table), 0)), *parts])
        return columns

    def candidates(self, table: Table, block: CategoricalBlock) -> NDArray[np.int64]:
        """The place of each row's value among the public ones of the shared exchange."""
        return positions(table, block.feature, block.values or ())

    def _columns(
        self, table: Table, feature: str, fold: NDArray[np.int64], target: Floats, inside: bool
    ) -> NDArray[np.float64]:
        """(rows, T) each row's code from the tallies, less those of its own fold if they are inside."""
        numbers, counts, sums = self._known(table, feature)
        folds = int(fold.max(initial=0)) + 1
        mine, rows, of_all = np.zeros((folds, len(counts))), np.zeros(folds), np.zeros((folds, target.shape[1]))
        my_sums = np.zeros((folds, len(counts), target.shape[1]))
        if inside:
            np.add.at(mine, (fold, numbers), 1)
            np.add.at(my_sums, (fold, numbers), target)
            np.add.at(rows, fold, 1)
            np.add.at(of_all, fold, target)
        total, everything = self.tallies_.rows, self.tallies_.sums
        codes = [
            self.encoder_.code(counts - mine[k], sums - my_sums[k], total - rows[k], everything - of_all[k])
            for k in range(folds)
        ]
        found: Floats = np.array(codes)[fold, numbers]
        return found

    def _known(self, table: Table, feature: str) -> tuple[NDArray[np.intp], NDArray[np.int64], Floats]:
        """(rows,) number of each row's value among the table's k values, their counts (k,) and target sums (k, T)."""
        of = self.tallies_.features[feature]
        numbers, values = distinct(table, feature)
        place = {v: k for k, v in enumerate(of.values)}
        order = np.array([place.get(v, len(place)) for v in values], np.int64)
        if self.encoder_.unseen == "error" and (unseen := order[numbers] == len(place)).any():
            hold = plural(int(unseen.sum()), "row holds", "rows hold")
            raise ValueError(f"{feature}: {hold} a value that was not seen when the encoding was learned")
        none = np.zeros((1, len(self.tallies_.sums)))
        return numbers, np.append(of.counts, 0)[order], np.vstack([of.sums, none])[order]


def columns_per_feature(schema: Schema) -> int:
    """T: one for a binary target (the positive class) and for a quantity, else one per class."""
    return len(schema.classes) if schema.task == "multiclass" else 1


def targets(table: Table) -> Floats:
    """(rows, T) what eq. 7 averages: membership of the positive class, of each class, or the quantity."""
    labels = table.labels()
    if table.schema.task == "regression":
        if not np.isfinite(labels).all():
            raise ValueError(f"the target {table.schema.target!r} holds numbers that are not finite; remove such rows")
        return np.asarray(labels, np.float64)[:, None]
    classes = [1] if table.schema.task == "binary" else range(len(table.schema.classes))
    hot: Floats = (labels[:, None] == np.array(classes)).astype(np.float64)
    return hot


def tally(table: Table) -> Tallies:
    """The counts and target sums of one party's rows."""
    target = targets(table)
    features = {}
    for feature in table.schema.categorical:
        numbers, values = distinct(table, feature)
        counts = np.bincount(numbers, minlength=len(values)).astype(np.int64)
        sums = [np.bincount(numbers, weights=t, minlength=len(values)) for t in target.T]
        features[feature] = Tally(values, counts, np.array(sums, np.float64).T.reshape(len(values), target.shape[1]))
    return Tallies(len(table), target.sum(0), features)


def told_of(tallies: Tallies) -> TargetTally:
    """What a client tells in the shared exchange."""
    features = {f: ValueTally(list(t.values), t.counts, t.sums) for f, t in tallies.features.items()}
    return TargetTally(tallies.rows, tallies.sums, features)


def tallies_of(told: TargetTotals) -> Tallies:
    return Tallies(told.rows, told.sums, {f: Tally(t.values, t.counts, t.sums) for f, t in told.features.items()})


def pooled(*parts: TargetTally) -> TargetTotals:
    """The totals of what all clients told, values in sorted order."""
    features = {}
    for feature in parts[0].features:
        own = [p.features[feature] for p in parts]
        values = sorted(set().union(*(o.values for o in own)))
        counts, sums = np.zeros(len(values), np.int64), np.zeros((len(values), len(parts[0].sums)))
        place = {v: k for k, v in enumerate(values)}
        for o in own:
            at = np.array([place[v] for v in o.values], np.int64)
            counts[at] += o.counts
            sums[at] += o.sums
        features[feature] = ValueTally(values, counts, sums)
    return TargetTotals(sum(p.rows for p in parts), np.sum([p.sums for p in parts], axis=0), features)


def noised_tallies(
    table: Table, domains: Mapping[str, Sequence[str]], noise: Noise, stream: ByteStream
) -> NoisedTallies:
    """Noised counts (k, classes) of each feature: one row is in one cell of each table."""
    below, classes, labels = from_stream(stream), len(table.schema.classes), table.labels().astype(np.int64)
    counts = {}
    for f, values in domains.items():
        place = positions(table, f, values)
        cells = np.where(place >= 0, place * classes + labels, -1)
        counts[f] = noised_table(cells, len(values) * classes, noise, below).reshape(len(values), classes)
    return NoisedTallies(counts)


def total_tallies(*parts: NoisedTallies) -> NoisedTallyTotals:
    first = parts[0].counts
    return NoisedTallyTotals({f: np.sum([p.counts[f] for p in parts], axis=0, dtype=np.int64) for f in first})


def tallies_from_noise(
    schema: Schema, domains: Mapping[str, Sequence[str]], noise: Noise, told: NoisedTallyTotals
) -> Tallies:
    """Rows and target sums that the totals stand for, none below 0; of all rows, the mean over the features."""
    positive = slice(None) if schema.task == "multiclass" else slice(1, 2)
    features, rows, sums = {}, list[float](), list[Floats]()
    for f, values in domains.items():
        cells = np.maximum(told.counts[f] / noise.sensitivity, 0.0)  # (k, classes)
        counts = np.rint(cells.sum(axis=1)).astype(np.int64)
        features[f] = Tally(list(values), counts, cells[:, positive])
        rows, sums = [*rows, float(cells.sum())], [*sums, cells[:, positive].sum(axis=0)]
    return Tallies(max(round(float(np.mean(rows))), 1), np.mean(sums, axis=0), features)
