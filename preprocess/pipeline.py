"""The preprocessing of one federation: encode, scale, and say what is public about the resulting columns."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.candidate_check import check_candidates
from leakledger.preprocess.column_errors import check_finite, naming_columns
from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.encoders.base import Encoder, EncoderFit, Encoding
from leakledger.preprocess.federation import At, Federation, Public
from leakledger.preprocess.method_errors import MethodError, check_fit, naming_method
from leakledger.preprocess.scalers.base import Matrix, PublicScaling, Scaler, ScalerFit, Scaling
from leakledger.preprocess.views import Block, CategoricalBlock, FeatureLayout, NumericBlock


@dataclass(frozen=True)
class Encoded:
    """One party's rows as the model reads them: `rows` (n, width) float32, `labels` (n,) int64, or float64 for
    regression.

    `candidates` (n, K): which candidate of each of the K public categorical blocks a row's value is (-1: none of them);
    None for rows that come from no table.
    """

    rows: NDArray[np.float32]
    labels: NDArray[np.int64] | NDArray[np.float64]
    candidates: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class Prepared:
    """Encoded training and held-out rows at every client, and the public layout of their columns."""

    train: Mapping[str, At[Encoded]]
    test: Mapping[str, At[Encoded]]
    layout: Public[FeatureLayout]


def prepare(
    fed: Federation,
    schema: Schema,
    train: Mapping[str, At[Table]],
    test: Mapping[str, At[Table]],
    encoder: Encoder,
    scaler: Scaler,
) -> Prepared:
    """Fits on the training tables and transforms both, once where `test` is `train` itself. Columns: numeric features
    first, then the categorical blocks.

    Raises ValueError, with the name of the column, for numbers that are not finite, which no scaler is handed; and what
    `naming_method` makes of an error of the encoder or the scaler.
    """
    everything = scaler.columns == "all"
    encoding, scaling = partial(naming_method, "encoder", encoder), partial(naming_method, "scaler", scaler)
    with fed.scope("encode"), encoding(), naming_columns(lambda i: f"column {schema.categorical[i]!r}"):
        encoded = encoder.fit(fed, schema, {c: fed.local(c, Table.lent, t) for c, t in train.items()})
        check_fit(encoded, EncoderFit, fed.clients)

    def columns_of(tables: Mapping[str, At[Table]]) -> dict[str, At[Columns]]:
        with encoding():
            return {c: fed.local(c, encode_table, t, encoded.encodings[c], encoded.blocks) for c, t in tables.items()}

    columns = columns_of(train)
    with fed.scope("scale"), naming_columns(partial(name_of_column, schema, encoded.blocks.value)):
        taken = {c: fed.local(c, Columns.whole if everything else Columns.numeric, x) for c, x in columns.items()}
        chosen = {c: fed.local(c, check_finite, x) for c, x in taken.items()}
        with scaling():
            scaled = scaler.under(schema).fit(fed, chosen)
            check_fit(scaled, ScalerFit, fed.clients)

    def scaled_rows(columns: Mapping[str, At[Columns]]) -> dict[str, At[Encoded]]:
        with scaling():
            return {c: fed.local(c, finish, x, scaled.scalings[c]) for c, x in columns.items()}

    rows = scaled_rows(columns)
    with scaling():
        layout = fed.public(describe_columns, schema, encoded.blocks, scaled.public, everything)
    return Prepared(rows, rows if test is train else scaled_rows(columns_of(test)), layout)


@dataclass(frozen=True)
class Columns:
    """One party's rows before scaling: `numbers` (n, L) as they are, `codes` (n, width) in the encoding's own dtype."""

    numbers: Matrix
    codes: NDArray[Any]
    labels: NDArray[np.int64] | NDArray[np.float64]
    candidates: NDArray[np.int64]

    def numeric(self) -> Matrix:
        """(n, L)."""
        return self.numbers

    def whole(self) -> Matrix:
        """(n, L + width)."""
        return np.hstack([self.numbers, self.codes])


def encode_table(table: Table, encoding: Encoding, blocks: tuple[Block, ...]) -> Columns:
    """One party's rows in the encoding. Raises MethodError for columns, or candidates, that the public blocks belie."""
    candidates = [encoding.candidates(table.lent(), b) for b in blocks if isinstance(b, CategoricalBlock)]
    codes, shape = encoding.transform(table.lent()), (len(table), max((b.start + b.width for b in blocks), default=0))
    if not isinstance(codes, np.ndarray) or codes.shape != shape:
        raise MethodError(f"an encoding gives columns of shape {np.shape(codes)}, its public blocks say {shape}")
    check_candidates(table, blocks, candidates, codes)
    stacked = np.array(candidates, np.int64).reshape(len(candidates), len(table)).T
    return Columns(table.numbers(), codes, table.labels(), stacked)


def name_of_column(schema: Schema, blocks: tuple[Block, ...], column: int) -> str:
    """What errors call a column: a numeric feature by its name, an encoded one by the feature, or all features that
    share it, and its place among theirs.
    """
    if column < len(schema.numeric):
        return f"column {schema.numeric[column]!r}"
    place = column - len(schema.numeric)
    of = [b for b in blocks if b.start <= place < b.start + b.width]
    return f"column {place - of[0].start + 1} of the encoded {', '.join(repr(b.feature) for b in of)}"


def finish(columns: Columns, scaling: Scaling) -> Encoded:
    """The first columns, as many as the scaling covers, scaled; the rest as they are."""
    numeric = columns.numbers.shape[1]
    rows = np.empty((len(columns.numbers), numeric + columns.codes.shape[1]), np.float32)
    if len(scaling.shift_) > numeric:
        rows[:] = scaling.transform(columns.whole())
    else:
        rows[:, :numeric], rows[:, numeric:] = scaling.transform(columns.numbers), columns.codes
    return Encoded(rows, columns.labels, columns.candidates)


def describe_columns(
    schema: Schema, blocks: tuple[Block, ...], scaling: PublicScaling, everything: bool = False
) -> FeatureLayout:
    """The layout that the schema, the encoder's public blocks and the scaler's public numbers make known.

    `everything` says that the scaler covered the encoded columns too.
    """
    numeric = [_numeric_block(schema, feature, i, scaling) for i, feature in enumerate(schema.numeric)]
    moved = [replace(b, start=b.start + len(numeric)) for b in blocks]
    return FeatureLayout((*numeric, *(_scaled_block(b, scaling) if everything else b for b in moved)))


def _numeric_block(schema: Schema, feature: str, column: int, scaling: PublicScaling) -> NumericBlock:
    def at(numbers: NDArray[np.float64] | None) -> float | None:
        return None if numbers is None else float(numbers[column])

    low, high = schema.ranges.get(feature, (at(scaling.low), at(scaling.high)))
    shift, scale, power = at(scaling.shift), at(scaling.scale), at(scaling.power)
    return NumericBlock(feature, column, shift, scale, low, high, feature in schema.integer, power, scaling.unit)


def _scaled_block(block: Block, scaling: PublicScaling) -> Block:
    """The block with the scaling of its own columns, if that is public.

    If not, nobody can tell a number from its encoding. One-hot columns still show which candidate they stand for.
    """
    own = slice(block.start, block.start + block.width)
    if isinstance(block, NumericBlock):
        if scaling.shift is None or scaling.scale is None or block.shift is None or block.scale is None:
            return replace(block, shift=None, scale=None, unit=scaling.unit)
        a, b = float(scaling.shift[own.start]), float(scaling.scale[own.start])
        return replace(block, shift=block.shift + block.scale * a, scale=block.scale * b, unit=scaling.unit)
    if scaling.shift is None or scaling.scale is None:
        return block
    return replace(block, shift=tuple(map(float, scaling.shift[own])), scale=tuple(map(float, scaling.scale[own])))
