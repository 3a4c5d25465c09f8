"""The truth of one case: the parties' real cells, statistics and vocabularies, in the terms that claims use.

Only the audit has this. Attacks get views; nothing here is ever handed to them except the labels that a configuration
grants.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.base import Dependencies, KnownRows, clients_of
from leakledger.attacks.texts import TextRecords
from leakledger.audit.cells import Cells, cells, joined, unscaled
from leakledger.audit.dependencies import known_dependencies
from leakledger.audit.federate import Federated
from leakledger.preprocess.encoders.fasttext import FastText
from leakledger.preprocess.encoders.target import Target
from leakledger.preprocess.views import CategoricalBlock, FeatureLayout

# Of the largest number of a column: deviations below this are rounding, and the column is one number.
ONE_NUMBER = 16 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Truth:
    """What is true in one case, computed from what its parties hold."""

    federated: Federated

    @property
    def layout(self) -> FeatureLayout:
        assert self.federated.public.layout is not None
        return self.federated.public.layout

    @property
    def parties(self) -> tuple[str, ...]:
        return self.federated.public.clients

    @property
    def holders(self) -> tuple[str, ...]:
        """Who put something into the protocols."""
        return tuple(self.federated.tables)

    @property
    def own_columns(self) -> Mapping[tuple[str, str], NDArray[np.float64]]:
        """(party, feature) -> the column that it alone holds of the records of all, labels too; none where parties hold
        rows.
        """
        return {}

    @property
    def texts(self) -> Mapping[str, TextRecords]:
        """Party -> what is granted of its records as texts; none where records are not written as text."""
        return {}

    def numeric_of(self, party: str) -> tuple[str, ...]:
        """The numeric features that a party has."""
        return self.federated.schema.numeric

    def batch(self, victim: str, round: int) -> Cells:
        """The rows that `victim` trained on in `round`, in the order of its batch; of several epochs, of the first. Of
        several clients (`base.joint`) those of all.
        """
        each = [self._cells[c].take(self._one_pass(c, round)) for c in clients_of(victim)]
        return each[0] if len(each) == 1 else joined(each)

    def owners(self, victim: str, round: int) -> NDArray[np.str_]:
        """(B,) the client behind each row of `batch`."""
        clients = clients_of(victim)
        return np.repeat(np.array(clients), [len(self._one_pass(c, round)) for c in clients])

    def encoded(self, victim: str, round: int) -> NDArray[np.float32]:
        """(B, width) the rows of `batch` as its clients encoded them."""
        train = self.federated.train
        return np.concatenate([train[c].rows[self._one_pass(c, round)] for c in clients_of(victim)])

    @property
    def out_of_fold(self) -> bool:
        """Whether the values of training rows have other codes than the public ones, which do not tell them apart."""
        encoder = self.federated.encoder
        return isinstance(encoder, Target) and encoder.folds > 1 and encoder.encoder_epsilon is None

    def held(self, party: str) -> Cells:
        """All training rows of a party, in its own order."""
        return self._cells[party]

    def labels(self, victim: str, round: int) -> NDArray[np.int64] | NDArray[np.float64]:
        """The labels of all local batches, in order: those of `batch` first, then those of further epochs."""
        passes = [self._labels_by_pass(client, round) for client in clients_of(victim)]
        labels: NDArray[np.int64] | NDArray[np.float64] = np.concatenate(
            [p for p in passes if p.size] or passes[:1], axis=1
        ).ravel()
        return labels

    def _labels_by_pass(self, client: str, round: int) -> NDArray[np.int64] | NDArray[np.float64]:
        """(passes, rows) the labels of one client's rows, as often as it went through them."""
        rows, once = np.concatenate(self.federated.batches[client, round]), len(self._one_pass(client, round))
        labels: NDArray[np.int64] | NDArray[np.float64] = self.federated.train[client].labels[rows]
        return labels.reshape(-1, max(once, 1))

    def _one_pass(self, client: str, round: int) -> NDArray[np.int64]:
        """The numbers of the client's rows in a round, of several epochs as in the first."""
        rows = np.concatenate(self.federated.batches[client, round])
        return rows[: len(np.unique(rows))]

    @cached_property
    def population(self) -> Cells:
        """All parties' training rows: the marginals that the prior-only baseline draws from."""
        parts = self._cells.values()
        categories, numbers = (np.vstack([getattr(p, name) for p in parts]) for name in ("categories", "numbers"))
        return Cells(categories, numbers, self._sources)

    @cached_property
    def kept_baselines(self) -> dict[Any, Any]:
        """The baselines of claims about its batches, kept once found: they cost more than a score."""
        return {}

    @cached_property
    def _sources(self) -> tuple[int, ...]:
        """(L,) the columns "feature[k]" of one encoded feature have one source."""
        features = {f: i for i, f in enumerate(self.federated.schema.categorical)}
        names = [b.feature.rpartition("[")[0] for b in self.layout.numeric]
        return tuple(features.get(name, len(features) + k) for k, name in enumerate(names))

    def in_terms_of(self, layout: FeatureLayout | None) -> "Truth":
        """The same truth in the terms of a claim that has a layout of its own."""
        return self if layout is None else RestatedTruth(self.federated, layout, self)

    def terms_of(self, victim: str) -> "Truth":
        """The truth in the terms in which the rows of a victim are held against guesses: where the public layout has
        features, these.
        """
        return self

    @cached_property
    def _cells(self) -> Mapping[str, Cells]:
        return {p: cells(self.layout, d) for p, d in self.federated.train.items()}

    @cached_property
    def deviations(self) -> NDArray[np.float64]:
        """(L,) standard deviation of each numeric feature over all rows, held-out ones too; in the units of claims."""
        numbers = self._unscaled
        std: NDArray[np.float64] = numbers.std(0, ddof=1)
        return np.where(std > ONE_NUMBER * np.abs(numbers).max(0), std, 0.0)

    @cached_property
    def bounds(self) -> Mapping[str, tuple[float, float]]:
        """Global (low, high) of each numeric feature in the units of claims."""
        low, high = self._unscaled.min(0), self._unscaled.max(0)
        return {b.feature: (float(low[k]), float(high[k])) for k, b in enumerate(self.layout.numeric)}

    @cached_property
    def _unscaled(self) -> NDArray[np.float64]:
        """(N, L) the numbers of all rows, held-out ones too, in the units of claims."""
        parts = (*self.federated.train.values(), *self.federated.test.values())
        return np.vstack([unscaled(self.layout, d.rows) for d in parts])

    @cached_property
    def dictionaries(self) -> Mapping[str, tuple[str, ...]]:
        """Categorical feature -> the values that any party holds."""
        features = self.federated.schema.categorical
        return {f: tuple(sorted(frozenset().union(*(v[f] for v in self.vocabularies.values())))) for f in features}

    @cached_property
    def marginals(self) -> Mapping[str, tuple[tuple[str, ...], NDArray[np.float64]]]:
        """Categorical feature -> values and their shares of all parties' training rows."""
        return {
            f: (values, np.array([self.pooled_statistic(f, "frequency", v) for v in values]))
            for f, values in self.dictionaries.items()
        }

    def rows_but(self, batches: Sequence[tuple[str, int]]) -> KnownRows:
        """All parties' training rows but those of some `batches`; none where these are all there are."""
        kept = {p: np.ones(len(t), np.bool_) for p, t in self.federated.tables.items()}
        for client, round in batches:
            kept[client][np.concatenate(self.federated.batches[client, round])] = False
        if not any(k.any() for k in kept.values()):
            return KnownRows()
        schema, tables = self.federated.schema, self.federated.tables.items()
        numbers = np.concatenate([t.numbers()[kept[p]] for p, t in tables])
        columns: dict[str, NDArray[np.float64] | NDArray[np.str_]] = {
            f: numbers[:, k] for k, f in enumerate(schema.numeric)
        }
        for f in schema.categorical:
            texts = (v if isinstance(v, str) else "" for p, t in tables for v in t.values(f)[kept[p]])
            columns[f] = np.array(list(texts), np.str_)
        clients = np.repeat(np.arange(len(kept)), [int(k.sum()) for k in kept.values()])
        labels = np.concatenate([self.federated.train[p].labels[k] for p, k in kept.items()])
        return KnownRows(columns, labels if labels.dtype.kind == "i" else None, clients)

    def dependencies(self, determined: Mapping[str, str]) -> Dependencies:
        """What `known_dependencies` finds in all parties' training rows. Raises ValueError where they contradict it."""
        return known_dependencies(tuple(self.federated.tables.values()), determined)

    @cached_property
    def public_codes(self) -> Mapping[str, NDArray[np.float64]]:
        """Categorical feature -> the codes (k, width) that a public model gives to the values of its dictionary; only
        where the encoder has such a model.
        """
        encoder = self.federated.encoder
        if not isinstance(encoder, FastText) or encoder.dictionary:
            return {}
        return {f: encoder.codes(values) for f, values in self.dictionaries.items()}

    @property
    def vocabularies(self) -> Mapping[str, Mapping[str, frozenset[str]]]:
        """Party -> categorical feature that it sees -> the values in its training rows."""
        return self.occurring

    @cached_property
    def occurring(self) -> Mapping[str, Mapping[str, frozenset[str]]]:
        """Party -> categorical feature, whether it sees it or not -> the values in its training rows."""
        features = self.federated.schema.categorical
        return {p: {f: frozenset(t.values(f)) for f in features} for p, t in self.federated.tables.items()}

    def statistic(self, party: str, feature: str, statistic: str, value: str = "") -> float:
        """One statistic of a party's training rows, in raw units. Raises KeyError for one that is not defined.

        `value`: a category, for the statistics of `StatisticClaim` that are about the rows with it.
        """
        return self._of([party], feature, statistic, value)

    def pooled_statistic(self, feature: str, statistic: str, value: str = "") -> float:
        """The same statistic as the whole federation would publish it: the prior's best guess for any party."""
        mean_rows = statistic in ("count", "held_out_count")
        return self._of(self.parties, feature, statistic, value) / (len(self.parties) if mean_rows else 1)

    def _of(self, parties: Sequence[str], feature: str, statistic: str, value: str) -> float:
        """Kept once computed: every set of observers is scored against the same."""
        key = *parties, feature, statistic, value
        if key not in self._kept:
            self._kept[key] = self._computed(parties, feature, statistic, value)
        return self._kept[key]

    @cached_property
    def _kept(self) -> dict[tuple[str, ...], float]:
        return {}

    def _computed(self, parties: Sequence[str], feature: str, statistic: str, value: str) -> float:
        if statistic.startswith("held_out"):
            return _of_target(statistic, np.concatenate([self._held_out(p, value) for p in parties]))
        if statistic == "count":
            return float(sum(len(self.federated.tables[p]) for p in parties))
        if statistic == "size":
            features = [feature] if feature else self.federated.schema.categorical  # "": of all features together
            return float(sum(len(frozenset().union(*(self.occurring[p][f] for p in parties))) for f in features))
        if statistic in ("frequency", "target_rate"):
            member = np.concatenate([self._members(p, feature, value) for p in parties])
            if statistic == "frequency":
                return float(member.mean())
            hits = np.concatenate([self.federated.tables[p].labels() == 1 for p in parties])
            return float(hits[member].mean()) if member.any() else float("nan")
        column = self.federated.schema.numeric.index(feature)
        numbers = np.concatenate([self._columns(p)[:, column] for p in parties])
        return of_column(statistic, numbers, value)

    def spread(self, feature: str, value: str = "") -> float:
        """The yardstick of errors: the standard deviation over the federation of a numeric feature, in raw units, of
        the membership of a category, or (feature "") of the positive class.
        """
        if feature not in self.federated.schema.numeric:
            share = self.pooled_statistic(feature, "frequency" if feature else "target_rate", value)
            return float(np.sqrt(share * (1 - share))) or 1.0
        return self.pooled_statistic(feature, "std") or 1.0

    def held_out_spread(self, value: str = "") -> float:
        """The yardstick of errors about held-out rows: the standard deviation over the federation of their target, or
        of being in one class.
        """
        if not value:
            return self.pooled_statistic("", "held_out_std") or 1.0
        share = self.pooled_statistic("", "held_out_rate", value)
        return float(np.sqrt(share * (1 - share))) or 1.0

    def _held_out(self, party: str, value: str) -> NDArray[np.float64]:
        """The targets of the party's held-out rows, or for a class which of them are in it."""
        target = np.asarray(self.federated.test[party].labels, np.float64)
        return np.asarray(target == self.federated.schema.classes.index(value), np.float64) if value else target

    def _members(self, party: str, feature: str, value: str) -> NDArray[np.bool_]:
        table = self.federated.tables[party]
        member: NDArray[np.bool_] = (
            np.asarray(table.values(feature) == value, np.bool_) if feature else np.ones(len(table), np.bool_)
        )
        return member

    def column(self, party: str, feature: str) -> NDArray[np.float64]:
        """The column (n,) of a party's numeric feature or, under its name, of the target's class numbers. Raises
        KeyError for any other.
        """
        schema = self.federated.schema
        if feature == schema.target:
            return np.asarray(self.federated.tables[party].labels(), np.float64)
        if feature not in schema.numeric:
            raise KeyError(f"{feature!r} is no numeric feature")
        return self._columns(party)[:, schema.numeric.index(feature)]

    def input_of(self, party: str) -> Mapping[str, Any]:
        """What a party put into the protocols, as its own view holds it; made once for all views."""
        if party not in self._inputs:
            table, rows = self.federated.tables[party], self.federated.train[party].rows
            self._inputs[party] = {**table.to_plain(), "encoded": rows}
        return self._inputs[party]

    @cached_property
    def _inputs(self) -> dict[str, Mapping[str, Any]]:
        return {}

    @cached_property
    def _numbers(self) -> Mapping[str, NDArray[np.float64]]:
        return {p: t.numbers() for p, t in self.federated.tables.items()}

    def _columns(self, party: str) -> NDArray[np.float64]:
        return self._numbers[party]


@dataclass(frozen=True)
class RestatedTruth(Truth):
    """The truth of rows in the terms of another layout, `terms`, than the public one.

    A candidate with a name is the row's value itself; one without is what the public layout has of the same feature,
    or, where that has none, the set of columns of `rolling-hash` that all features of a row set together. What is no
    candidate of `terms` has a number beyond them.
    """

    terms: FeatureLayout
    public: Truth

    @property
    def layout(self) -> FeatureLayout:
        return self.terms

    @cached_property
    def _cells(self) -> Mapping[str, Cells]:
        parts = [self._categories(b) for b in self.terms.categorical]
        return {
            p: Cells(np.stack([part[p] for part in parts], -1) if parts else np.zeros((len(own), 0), np.int64), own)
            for p, own in self._numbers_in_terms.items()
        }

    @property
    def _numbers_in_terms(self) -> Mapping[str, NDArray[np.float64]]:
        """Party -> (n, L) the numbers of each training row."""
        return {p: unscaled(self.terms, d.rows) for p, d in self.federated.train.items()}

    def _categories(self, block: CategoricalBlock) -> Mapping[str, NDArray[np.int64]]:
        """Party -> (n,) the candidate of each training row."""
        if block.values is not None:
            held = {p: np.asarray(t.values(block.feature), str) for p, t in self.federated.tables.items()}
            return _numbered(held, {v: k for k, v in enumerate(block.values)})
        known, public = [b.feature for b in self.public.layout.categorical], self.public._cells
        if block.feature in known:
            return {p: c.categories[:, known.index(block.feature)] for p, c in public.items()}
        assert block.codes is not None
        sets = {p: _sets(c.categories) for p, c in public.items()}
        return _numbered(sets, {_key(np.flatnonzero(code)): k for k, code in enumerate(block.codes)})


def _sets(categories: NDArray[np.int64]) -> NDArray[np.str_]:
    """(n,) the distinct numbers of each row, as text."""
    rows, which = np.unique(categories, axis=0, return_inverse=True)
    return np.array([_key(np.unique(r)) for r in rows], str)[which.reshape(-1)]


def _key(numbers: NDArray[np.int64]) -> str:
    return " ".join(map(str, numbers.tolist()))


def _numbered(held: Mapping[str, NDArray[np.str_]], place: Mapping[str, int]) -> Mapping[str, NDArray[np.int64]]:
    """Party -> (n,) the number of each text: its place, or one beyond them all."""
    place = dict(place)
    found = {}
    for party, texts in held.items():
        distinct, which = np.unique(texts, return_inverse=True)
        numbers = np.array([place.setdefault(str(t), len(place)) for t in distinct], np.int64)
        found[party] = numbers[which.reshape(-1)] if len(texts) else np.zeros(0, np.int64)
    return found


def _of_target(statistic: str, target: NDArray[np.float64]) -> float:
    """A statistic of held-out rows; NaN for one that no rows have."""
    if statistic == "held_out_count":
        return float(len(target))
    if not len(target):
        return float("nan")
    return float(target.std() if statistic == "held_out_std" else target.mean())


def of_column(statistic: str, column: NDArray[np.float64], value: str = "") -> float:
    """A statistic of a column (n,); of a quantile the level as `value`."""
    if statistic == "quantile":
        return float(np.quantile(column, float(value)))
    functions: dict[str, Callable[[], Any]] = {
        "mean": column.mean,
        "std": lambda: column.std() if np.ptp(column) else 0.0,  # of equal decimals it is rounding, not 0
        "minimum": column.min,
        "maximum": column.max,
    }
    return float(functions[statistic]())
