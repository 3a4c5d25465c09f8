"""FLFE: devices with other columns of the same records find and make useful features, under a server that judges.

Source: "FLFE: a communication-efficient and privacy-preserving federated feature engineering framework", algorithms 1
to 3. Each loop tries one transformation: the server judges it by sketches (algorithm 2), and where it is useful, the
columns are exchanged under a mask and the server keeps the result in the clear (algorithm 3).

Readings, where the paper is silent. *Labels*: each sketch needs them, and who has them is not said; the party that
holds them sends them to all devices (`labels="sent"`), or makes the sketches itself from the bin number of each record,
which devices send it (`"binned"`). *Schedule*: each pair of features of two devices once for each transformation, each
feature once for those of one column, from original features only (section 5.1). *Verdict*: everyone is told whether a
loop goes on. *One column*: the result is kept by the server, as "the server only stores the generated new features"
says (`unary="server"`), or by its device, to which nobody needs to send anything. *Masks*: `masks`. *Encryption* in
their place, with which the paper compares itself (`exchange`): `encrypted_exchange`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar, Literal

import numpy as np

from leakledger.preprocess.crypto.randomness import randomness
from leakledger.preprocess.crypto.refusal import accept
from leakledger.preprocess.features.devices import DeviceColumns, LabelColumn, check_aligned, record_order
from leakledger.preprocess.features.encrypted_exchange import (
    encrypted_column,
    encrypted_result,
    exchange_key,
    for_the_server,
    new_keys,
    opened,
    transformed,
)
from leakledger.preprocess.features.judges import Judges, usefulness
from leakledger.preprocess.features.masks import ADDITIVE, Bytes, decrypt, draw_mask, encrypt
from leakledger.preprocess.features.sketch import Column, Labels, Sketch, bin_numbers, count_bins, scaled, sketch
from leakledger.preprocess.features.transformations import BINARY, NEED_LABELS, TRANSFORMATIONS, UNARY, binary, unary
from leakledger.preprocess.federation import At, Federation
from leakledger.preprocess.messages import (
    BinNumbers,
    ClassLabels,
    FeatureSketch,
    FeatureTask,
    Judgement,
    MaskedColumn,
    MaskedResult,
    MaskVector,
    NewColumn,
    RecordOrder,
    SketchPair,
)
from leakledger.preprocess.options import check_options, option, options_of
from leakledger.preprocess.views import Method


@dataclass(frozen=True)
class PublicColumns:
    """What everyone knows beforehand: the features of each device, the number of classes, who holds the labels."""

    features: Mapping[str, Sequence[str]]
    classes: int
    holder: str


@dataclass(frozen=True)
class Generated:
    """A feature that was made, and the party that keeps it."""

    task: FeatureTask
    column: At[Column]


@dataclass(frozen=True)
class FLFE:
    bins: int = option(200, at_least=2, help="bins of a sketch (m)")
    scale: float = option(10.0, above=0, help="sketches are scaled to [-scale, scale] (k)")
    sketches: Literal["scaled", "counts"] = option("scaled", help="what devices send: scaled arrays, or their counts")
    ranges: Literal["class", "feature"] = option(
        "class", help="whose extremes bins lie between (equation 1: the class's)"
    )
    labels: Literal["sent", "binned"] = option("sent", help='"binned": who holds the labels makes all sketches')
    exchange: Literal["masked", "encrypted", "encrypted-at-server"] = option(
        "masked", help="how columns are exchanged; encrypted ones meet at the second device, or at the server"
    )
    masks: Literal["fresh", "reused"] = option("fresh", help='"reused": a device has one mask for all loops')
    mask_size: float = option(100.0, above=1, help="bound of additive masks, and of factors")
    mask_signs: bool = option(False, help="factors of either sign")
    unary: Literal["server", "device"] = option("server", help="who keeps a transformed single column")
    transformations: tuple[str, ...] | None = option(None, help="which to try [default: all that labels allow]")
    threshold: float = option(0.7, at_least=0, at_most=1, help="score from which a transformation is useful (theta)")
    max_loops: int | None = option(None, at_least=1, help="loops to try at most (MaxLoop)")

    name: ClassVar[str] = "flfe"
    said_to_share: ClassVar[str] = (
        "features that were made, with the server; sketches and columns under masks, which are to tell nothing "
        "(sections 4.2, 4.4, 6)"
    )

    def __post_init__(self) -> None:
        check_options(self)
        if self.labels == "binned" and self.ranges == "class":
            raise ValueError(
                'labels is "binned" and ranges "class": a device without labels cannot bin by class; '
                'set ranges = "feature"'
            )
        if self.exchange != "masked" and (self.masks, self.mask_size, self.mask_signs) != ("fresh", 100.0, False):
            raise ValueError(f'masks are for exchange = "masked", not for "{self.exchange}": leave their options out')
        for name in self.transformations or ():
            if name not in TRANSFORMATIONS:
                raise ValueError(f"transformations: {name!r} is unknown; choose from {', '.join(TRANSFORMATIONS)}")
            if name in NEED_LABELS and self.labels == "binned":
                raise ValueError(
                    f'transformations: {name} needs labels at the device; set labels = "sent" or leave it out'
                )
            if name in self._undefined:
                raise ValueError(
                    f'transformations: nobody divides ciphertexts: set exchange = "encrypted", or leave {name} out'
                )

    @property
    def _undefined(self) -> tuple[str, ...]:
        """Transformations that the exchange has no way for."""
        return ("quotient",) if self.exchange == "encrypted-at-server" else ()

    @property
    def tried(self) -> tuple[str, ...]:
        """The transformations in force."""
        if self.transformations is not None:
            return self.transformations
        known = tuple(t for t in TRANSFORMATIONS if t not in self._undefined)
        return tuple(t for t in known if self.labels == "sent" or t not in NEED_LABELS)

    def method(self, columns: PublicColumns) -> Method:
        """What all parties agreed on, for the public facts of a run."""
        options = {name: getattr(self, name) for name in options_of(FLFE)}
        chosen = {**options, "transformations": list(self.tried), "holder": columns.holder}
        return Method(self.name, chosen)

    def tasks(self, columns: PublicColumns) -> list[FeatureTask]:
        """What is tried, in order."""
        found = [
            *(
                FeatureTask(t, [d], [f])
                for d, features in columns.features.items()
                for f in features
                for t in self.tried
                if t in UNARY
            ),
            *(
                FeatureTask(t, [d1, d2], [f1, f2])
                for (d1, first), (d2, second) in combinations(columns.features.items(), 2)
                for f1 in first
                for f2 in second
                for t in self.tried
                if t in BINARY
            ),
        ]
        return found[: self.max_loops]

    def run(
        self,
        fed: Federation,
        columns: PublicColumns,
        devices: Mapping[str, At[DeviceColumns]],
        labels: At[LabelColumn],
        judges: At[Judges],
    ) -> list[Generated]:
        """Algorithm 1: the features that were judged useful and made. `judges` live at the server.

        Raises ValueError where records are not aligned, and where a sketch or a transformation is not defined.
        """
        with fed.scope("align"):
            records = self._align(fed, columns, devices, labels)
            known = self._label_holders(fed, columns, labels)
            masks = self._reused_masks(fed, devices) if self.masks == "reused" else {}
        run = _Loops(self, fed, columns, devices, known, judges, masks, records)
        return [made for loop, task in enumerate(self.tasks(columns)) for made in run.loop(loop, task)]

    def _align(
        self,
        fed: Federation,
        columns: PublicColumns,
        devices: Mapping[str, At[DeviceColumns]],
        labels: At[LabelColumn],
    ) -> At[int]:
        """The number of records, at the server."""
        orders = {d: fed.local(d, record_order, held) for d, held in devices.items()}
        told = fed.gather({**orders, "labels": fed.local(columns.holder, record_order, labels)}, to=fed.server)
        fed.local(fed.server, check_aligned, (*orders, f"the labels' holder ({columns.holder})"), *told)
        return fed.local(fed.server, records_of, told[0])

    def _label_holders(
        self, fed: Federation, columns: PublicColumns, labels: At[LabelColumn]
    ) -> dict[str, At[ClassLabels]]:
        """Whoever knows the labels from here on."""
        own = fed.local(columns.holder, class_labels, labels)
        told = columns.features if self.labels == "sent" else ()
        return {columns.holder: own, **{d: fed.send(own, to=d) for d in told if d != columns.holder}}

    def _reused_masks(
        self, fed: Federation, devices: Mapping[str, At[DeviceColumns]]
    ) -> dict[tuple[str, bool], At[MaskVector]]:
        """An additive mask and a multiplicative one for each device."""
        return {
            (d, additive): fed.local(d, mask_vector, self, held, additive, fed.key_stream(d))
            for d, held in devices.items()
            for additive in (True, False)
        }

    def sketch(self, name: str, column: Column, labels: Labels, classes: int) -> Sketch:
        """What a party that knows column and labels makes of them, as it is sent."""
        return self.as_sent(sketch(name, column, labels, classes, self.bins, self.ranges))

    def as_sent(self, counts: Sketch) -> Sketch:
        return counts if self.sketches == "counts" else scaled(counts, self.scale)

    def as_judged(self, sent: Sketch) -> Sketch:
        return scaled(sent, self.scale) if self.sketches == "counts" else sent


@dataclass(frozen=True)
class _Loops:
    """The loops of one run."""

    flfe: FLFE
    fed: Federation
    columns: PublicColumns
    devices: Mapping[str, At[DeviceColumns]]
    labels: Mapping[str, At[ClassLabels]]
    judges: At[Judges]
    masks: Mapping[tuple[str, bool], At[MaskVector]]
    records: At[int]

    def loop(self, loop: int, task: FeatureTask) -> Iterator[Generated]:
        """One attempt: judged, and made where it is useful."""
        with self.fed.scope("judge", round=loop):
            told = self.fed.local(self.fed.server, as_told, task)
            for party in self.told(task):
                self.fed.send(told, to=party)
            useful = self.judge(task)
        if useful:
            with self.fed.scope("generate", round=loop):
                yield Generated(task, self.generate(task) if len(task.devices) == 2 else self.transform(task))

    def told(self, task: FeatureTask) -> list[str]:
        """Whom the server tells what a loop tries: its devices, and who makes sketches for them."""
        maker = [self.columns.holder] if self.flfe.labels == "binned" else []
        return [p for p in dict.fromkeys([*task.devices, *maker]) if p != self.fed.server]

    def judge(self, task: FeatureTask) -> bool:
        """Algorithm 2: whether the server judges a transformation useful, from sketches alone."""
        fed, server = self.fed, self.fed.server
        arrays = self.sketches_of_binned(task) if self.flfe.labels == "binned" else self.sketches_of_devices(task)
        at_server = arrays if arrays.party == server else fed.send(arrays, to=server)
        verdict = fed.local(server, judgement, self.flfe, self.judges, task.transformation, at_server)
        return fed.broadcast(verdict).value.useful

    def sketches_of_devices(self, task: FeatureTask) -> "At[FeatureSketch] | At[SketchPair]":
        """The first device sends its sketch to the second, which puts its own beside it."""
        fed, (first, *rest) = self.fed, task.devices
        one = self.sketch_at(first, task.features[0])
        if not rest:
            return one
        other = self.sketch_at(rest[0], task.features[1])
        return fed.local(rest[0], sketch_pair, fed.send(one, to=rest[0]), other)

    def sketch_at(self, device: str, feature: str) -> At[FeatureSketch]:
        """A device's sketch of its own column."""
        held, labels = self.devices[device], self.labels[device]
        return self.fed.local(device, feature_sketch, self.flfe, held, feature, labels, self.columns.classes)

    def sketches_of_binned(self, task: FeatureTask) -> "At[FeatureSketch] | At[SketchPair]":
        """Devices send bin numbers to who holds the labels, who makes the sketches."""
        fed, holder = self.fed, self.columns.holder
        told = {
            d: fed.local(d, binned, self.flfe, self.devices[d], f)
            for d, f in zip(task.devices, task.features, strict=True)
        }
        bins = fed.gather(told, to=holder)
        made = [fed.local(holder, sketch_bins, self.flfe, b, self.labels[holder], self.columns.classes) for b in bins]
        return made[0] if len(made) == 1 else fed.local(holder, sketch_pair, *made)

    def transform(self, task: FeatureTask) -> At[Column]:
        """A transformation of one column, at its device; the server is sent it where it keeps it."""
        fed, (device,), (feature,) = self.fed, task.devices, task.features
        labels = self.labels.get(device) if task.transformation in NEED_LABELS else None
        made = fed.local(device, new_column, self.devices[device], feature, task.transformation, labels)
        kept = fed.send(made, to=fed.server) if self.flfe.unary == "server" else made
        return fed.local(kept.party, column_of, kept)

    def generate(self, task: FeatureTask) -> At[Column]:
        """A transformation of two columns, which the server ends with in the clear."""
        return self.masked(task) if self.flfe.exchange == "masked" else self.encrypted(task)

    def masked(self, task: FeatureTask) -> At[Column]:
        """Algorithm 3."""
        fed, (first, second), (f1, f2) = self.fed, task.devices, task.features
        how = task.transformation
        mask = self.mask(first, how)
        masked = fed.send(fed.local(first, masked_column, self.devices[first], f1, how, mask), to=second)
        result = fed.send(fed.local(second, masked_result, masked, self.devices[second], f2, how), to=fed.server)
        return fed.local(fed.server, unmasked, result, fed.send(mask, to=fed.server), how)

    def encrypted(self, task: FeatureTask) -> At[Column]:
        """The same under a key that the server makes for this loop."""
        fed, server, how = self.fed, self.fed.server, task.transformation
        (first, second), (f1, f2) = task.devices, task.features
        keys = fed.local(server, new_keys, randomness(fed, server))
        made = fed.local(server, exchange_key, keys)
        key, own = {d: fed.send(made, to=d) for d in task.devices}, self.devices
        if self.flfe.exchange == "encrypted-at-server":
            columns = {
                d: accept(fed, d, server, for_the_server, key[d], own[d], f, randomness(fed, d))
                for d, f in zip(task.devices, task.features, strict=True)
            }
            told = fed.gather(columns, to=server)
            return accept(fed, server, f"{first} or {second}", transformed, keys, *told, how, self.records)
        column = accept(fed, first, server, encrypted_column, key[first], own[first], f1, randomness(fed, first))
        with_own = own[second], f2, how, randomness(fed, second)
        at_second = fed.send(column, to=second)
        result = accept(fed, second, f"{first} or {server}", encrypted_result, key[second], at_second, *with_own)
        return accept(fed, server, second, opened, keys, fed.send(result, to=server), self.records)

    def mask(self, device: str, how: str) -> At[MaskVector]:
        """The device's mask for a loop."""
        additive = how in ADDITIVE
        if self.flfe.masks == "reused":
            return self.masks[device, additive]
        fed = self.fed
        return fed.local(device, mask_vector, self.flfe, self.devices[device], additive, fed.key_stream(device))


def records_of(told: RecordOrder) -> int:
    return told.records


def class_labels(held: LabelColumn) -> ClassLabels:
    return ClassLabels(np.asarray(held.labels, np.int64))


def as_told(task: FeatureTask) -> FeatureTask:
    return task


def feature_sketch(flfe: FLFE, held: DeviceColumns, feature: str, labels: ClassLabels, classes: int) -> FeatureSketch:
    return FeatureSketch(flfe.sketch(feature, held.columns[feature], labels.labels, classes))


def sketch_pair(first: FeatureSketch, second: FeatureSketch) -> SketchPair:
    return SketchPair(np.stack([first.arrays, second.arrays]))


def binned(flfe: FLFE, held: DeviceColumns, feature: str) -> BinNumbers:
    return BinNumbers(bin_numbers(feature, held.columns[feature], flfe.bins))


def sketch_bins(flfe: FLFE, bins: BinNumbers, labels: ClassLabels, classes: int) -> FeatureSketch:
    return FeatureSketch(flfe.as_sent(count_bins(bins.numbers, labels.labels, classes, flfe.bins)))


def judgement(flfe: FLFE, judges: Judges, transformation: str, told: FeatureSketch | SketchPair) -> Judgement:
    sent = told.arrays if isinstance(told, SketchPair) else told.arrays[None]
    score = usefulness(judges, transformation, *map(flfe.as_judged, sent))
    return Judgement(score >= flfe.threshold)


def new_column(held: DeviceColumns, feature: str, how: str, labels: ClassLabels | None) -> NewColumn:
    return NewColumn(unary(how, feature, held.columns[feature], labels.labels if labels else None))


def column_of(made: NewColumn) -> Column:
    return made.values


def mask_vector(flfe: FLFE, held: DeviceColumns, additive: bool, stream: Bytes) -> MaskVector:
    return MaskVector(draw_mask(additive, len(held.ids), flfe.mask_size, flfe.mask_signs, stream))


def masked_column(held: DeviceColumns, feature: str, how: str, mask: MaskVector) -> MaskedColumn:
    return MaskedColumn(encrypt(how, feature, held.columns[feature], mask.values))


def masked_result(masked: MaskedColumn, held: DeviceColumns, feature: str, how: str) -> MaskedResult:
    return MaskedResult(binary(how, ("a masked column", feature), masked.values, held.columns[feature]))


def unmasked(result: MaskedResult, mask: MaskVector, how: str) -> Column:
    return decrypt(how, result.values, mask.values)
