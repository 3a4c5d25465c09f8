"""The preprocessing of one federation: encode, scale, and say what is public about the resulting columns."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from preprocess.data.schema import Schema
from preprocess.data.table import Table
from preprocess.encoders.base import DictionaryEncoding, Encoder
from preprocess.federation import At, Federation, Public
from preprocess.scalers.base import Matrix, PublicScaling, Scaler, Scaling
from preprocess.views import CategoricalBlock, FeatureLayout, NumericBlock


@dataclass(frozen=True)
class Encoded:
    """One party's rows as the model reads them: `rows` (n, width) float32, `labels` (n,) int64, or float64 for
    regression.
    """

    rows: NDArray[np.float32]
    labels: NDArray[np.int64] | NDArray[np.float64]

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
    """Fits on the training tables and transforms both. Columns: numeric features first, then the categorical blocks."""
    numeric = len(schema.numeric)
    with fed.scope("encode"):
        encoded = encoder.fit(fed, schema, train)
    matrices = {c: fed.local(c, as_matrix, t, encoded.encodings[c]) for c, t in train.items()}
    with fed.scope("scale"):
        part = slice(None) if scaler.columns == "all" else slice(numeric)
        chosen = {c: fed.local(c, lambda m: m[:, part], m) for c, m in matrices.items()}
        scaled = scaler.fit(fed, chosen)
    held_out = {c: fed.local(c, as_matrix, t, encoded.encodings[c]) for c, t in test.items()}
    return Prepared(
        train={c: fed.local(c, finish, matrices[c], t, scaled.scalings[c]) for c, t in train.items()},
        test={c: fed.local(c, finish, held_out[c], t, scaled.scalings[c]) for c, t in test.items()},
        layout=fed.public(describe_columns, schema, encoded.blocks, scaled.public),
    )


def as_matrix(table: Table, encoding: DictionaryEncoding) -> Matrix:
    """(rows, width): numeric features as they are, categorical ones encoded."""
    return np.hstack([table.numbers(), encoding.transform(table)])


def finish(columns: Matrix, table: Table, scaling: Scaling) -> Encoded:
    """The first columns, as many as the scaling covers, scaled; the rest as they are."""
    covered = len(scaling.shift_)
    rows = np.hstack([scaling.transform(columns[:, :covered]), columns[:, covered:]])
    return Encoded(rows.astype(np.float32), table.labels())


def describe_columns(schema: Schema, blocks: tuple[CategoricalBlock, ...], scaling: PublicScaling) -> FeatureLayout:
    """The layout that the schema, the encoder's public blocks and the scaler's public numbers make known."""
    numeric = [_numeric_block(schema, feature, i, scaling) for i, feature in enumerate(schema.numeric)]
    moved = [replace(b, start=b.start + len(numeric)) for b in blocks]
    return FeatureLayout((*numeric, *(_scaled_block(b, scaling) for b in moved)))


def _numeric_block(schema: Schema, feature: str, column: int, scaling: PublicScaling) -> NumericBlock:
    def at(numbers: NDArray[np.float64] | None) -> float | None:
        return None if numbers is None else float(numbers[column])

    low, high = schema.ranges.get(feature, (at(scaling.low), at(scaling.high)))
    return NumericBlock(feature, column, at(scaling.shift), at(scaling.scale), low, high, feature in schema.integer)


def _scaled_block(block: CategoricalBlock, scaling: PublicScaling) -> CategoricalBlock:
    """The block with the scaling of its own columns, where the scaler covered and published them."""
    own = slice(block.start, block.start + block.width)
    if scaling.shift is None or scaling.scale is None or len(scaling.shift) < own.stop:
        return block
    return replace(block, shift=tuple(map(float, scaling.shift[own])), scale=tuple(map(float, scaling.scale[own])))
