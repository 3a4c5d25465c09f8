"""`bytes-norm`: the bytes of a value, read as one integer, then a z-score by secure sums.

Source: "Privacy-preserving tabular data transformation", section 7.2, x_t = int(bytes(x)), and section 6 for the
z-score, whose protocol is in `crypto.secure_moments`. Reading: UTF-8, the first byte the most significant, so that "b"
comes after "a" and any longer value after any shorter one. An empty value is 0; leading NULs do not count.

Arithmetic. x_t has 8 bits per byte: "Married-civ-spouse" is a number of 143 bits. With `sharing="ring"` everything is
exact: the integers are added over a ring wide enough for the squares of `longest` bytes, and mean and deviation stay
exact fractions until they are rounded once to float64. With `sharing="proportional"`, the paper's, the sums are
float64: they keep 53 bits, the first six bytes of the largest value, and squares end at 62 bytes. Either way a *code*
is one number of the model's input (float32, 24 bits), and the longest values set its scale: values four bytes shorter
than the longest are all the same to the model. That is the method; the paper has F1 = 0 with it on three of five
tables. Ours: what differs from the mean by no more than its rounding has the code 0; without a deviation, of texts that
are alike, that rounding would be the code, 10^40 and more.

Messages: 4 (n - 1) per client and n to publish; with `passes=1` 2 (n - 1), as table 5 of the paper has it.

What the server knows: mean and deviation per feature where they are published, and with them the code of any value it
can think of. Without a `dictionary` a feature is a number to it, a whole one in units of x_t.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from leakledger.preprocess.crypto.secure_moments import Moments, SacOptions, Summaries, announce, secure_moments
from leakledger.preprocess.crypto.sharing import LIMB, Number, Ring
from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.encoders.base import EncoderFit, distinct
from leakledger.preprocess.encoders.codebook import CodeEncoding, Codes, NormalForm, TextEncoder, as_bytes, named_block
from leakledger.preprocess.federation import At, Federation
from leakledger.preprocess.messages import BytesNormAnnounced
from leakledger.preprocess.options import option
from leakledger.preprocess.scalers.base import nonzero
from leakledger.preprocess.views import Block, NumericBlock

ROUNDING = Fraction(1, 2**52)  # of a mean in float64, and of what parties added up to it
LARGEST = float(np.finfo(np.float32).max)  # input of a model
LONGEST = {"ring": 127, "proportional": 62}  # bytes: a code, and the square of one, below float64's 2^1024

Counted = Mapping[str, Mapping[int, int]]  # feature -> number -> rows that hold it


@dataclass(frozen=True)
class BytesNorm(SacOptions, TextEncoder):
    """`longest` is the most bytes that a value may have: public, because it sets the width of the ring."""

    longest: int = option(
        LONGEST["proportional"],
        at_least=1,
        at_most=LONGEST["ring"],
        help="bytes of the longest value; up to 62 where parts are real",
    )

    name = "bytes-norm"
    reference = "Privacy-preserving tabular data transformation, section 7.2"
    said_to_share = "the pooled mean and deviation of the codes (table 5)"

    def __post_init__(self) -> None:
        SacOptions.__post_init__(self)
        TextEncoder.__post_init__(self)
        if not 1 <= self.longest <= LONGEST[self.sharing]:
            raise ValueError(
                f"longest {self.longest} is outside 1 to {LONGEST[self.sharing]} with {self.sharing} sharing"
            )

    def fit(self, fed: Federation, schema: Schema, tables: Mapping[str, At[Table]]) -> EncoderFit:
        """Raises ValueError for fewer than three clients and for a value that is too long, without the value."""
        code = partial(text_number, longest=self.longest, form=self.normal_form)
        counted = {c: fed.local(c, partial(count_numbers, code), t) for c, t in tables.items()}
        moments = secure_moments(fed, counted, self, self.scheme(self.ring()), SUMMARIES, self.name)
        statistics = {c: fed.local(c, Moments.zscore, m) for c, m in moments.items()}
        told: Any = announce(fed, statistics, BytesNormAnnounced) if self.publish == "everyone" else None
        encodings = {
            c: fed.local(c, partial(zscore_encoding, schema, code), s if told is None else told)
            for c, s in statistics.items()
        }
        return EncoderFit(encodings, fed.public(partial(self.blocks, schema, code), told))

    def ring(self) -> Ring:
        """Wide enough for the squares of 2^64 values, on a grid of 2^-64."""
        return Ring(-(-16 * self.longest // LIMB) + 2, LIMB)

    def blocks(self, schema: Schema, code: Any, told: Mapping[str, Codes] | None) -> tuple[Block, ...]:
        return tuple(
            self._block(schema, code, feature, i, None if told is None else (told["mean"][i], told["std"][i]))
            for i, feature in enumerate(schema.categorical)
        )

    def _block(self, schema: Schema, code: Any, feature: str, i: int, known: tuple[float, float] | None) -> Block:
        if known is None:
            return NumericBlock(feature, i, unit="deviation")
        mean, std = float(known[0]), float(nonzero(np.asarray(known[1])))
        if (values := self.known_values(schema, feature)) is None:
            return NumericBlock(feature, i, mean, std, low=0.0, integer=True, unit="deviation")
        return named_block(feature, i, values, [zscore(code(feature, v), mean, std) for v in values], 1)


def text_number(feature: str, value: str, longest: int, form: NormalForm = "as-is") -> int:
    """int(bytes(value)), the first byte the most significant. Raises ValueError, without the value, for more than
    `longest` bytes.
    """
    data = as_bytes(value, form)
    if len(data) > longest:
        raise ValueError(
            f"{feature}: a value is longer than the {longest} bytes agreed on; shorten it, raise longest, or choose "
            "another encoder"
        )
    return int.from_bytes(data, "big")


def count_numbers(code: Any, table: Table) -> Counted:
    """How many rows hold each number."""
    found: dict[str, dict[int, int]] = {}
    for feature in table.schema.categorical:
        rows, values = distinct(table, feature)
        of = found.setdefault(feature, {})
        for value, count in zip(values, np.bincount(rows, minlength=len(values)).tolist(), strict=True):
            number = code(feature, value)
            of[number] = of.get(number, 0) + count
    return found


def row_count(counted: Counted) -> int:
    return max((sum(rows.values()) for rows in counted.values()), default=0)


def exact_sums(counted: Counted) -> list[Number]:
    """(features,) whole numbers."""
    return [sum(number * n for number, n in rows.items()) for rows in counted.values()]


def exact_squares(counted: Counted, centres: list[Fraction]) -> list[Number]:
    """(features,) fractions, exact."""
    return [
        sum(((number - centre) ** 2 * n for number, n in rows.items()), Fraction(0))
        for rows, centre in zip(counted.values(), centres, strict=True)
    ]


SUMMARIES = Summaries(row_count, exact_sums, exact_squares)


def zscore(number: int, mean: float, std: float) -> Codes:
    """(1,) (number - mean) / std, rounded once; 0 for what differs from the mean by no more than that is rounded: where
    all texts are alike, nothing else tells them from it.
    """
    away = Fraction(number) - Fraction(mean)
    return np.array([float(away / Fraction(std)) if abs(away) > ROUNDING * abs(Fraction(mean)) else 0.0], np.float64)


def zscore_encoding(schema: Schema, code: Any, statistics: Mapping[str, Codes]) -> CodeEncoding:
    mean = dict(zip(schema.categorical, map(float, statistics["mean"]), strict=True))
    std = dict(zip(schema.categorical, map(float, nonzero(statistics["std"])), strict=True))

    def scored(feature: str, value: str) -> Codes:
        found = zscore(code(feature, value), mean[feature], std[feature])
        if abs(found[0]) > LARGEST:
            raise ValueError(
                f"{feature}: sums of its values as numbers lose what tells these apart, and its codes are beyond "
                "float32; shorten the values, or choose another encoder"
            )
        return found

    return CodeEncoding(scored, dict.fromkeys(schema.categorical, 1))
