"""`fasttext`: a value becomes the mean vector of its character n-grams; no communication.

Source: "Privacy-preserving tabular data transformation", section 7.3, after Bojanowski et al. (2017). Every client
computes the same 300 numbers for the same value by itself, so a value that nobody has seen has a vector too.

Two models. `fasttext_model` names a model file as fastText writes it (`subword.facebook`), the paper's being the
pretrained English one; all clients must use the same file. Without it, a seeded model of the same architecture is used
(`subword.seeded`): it is *not* pretrained, and its vectors know spelling only. What an attacker can do with a vector is
the same with either, since both are public; what a model can learn from it is not. The whole value is one word to the
model, spaces included, as the paper's x in S is one entry. An empty value is a vector of zeros.

What the server knows: the model, and so the vector of any value that it can think of. Without a `dictionary` it sees
300 numbers per feature, with one the named values and their vectors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.encoders.base import EncoderFit
from leakledger.preprocess.encoders.codebook import (
    CodeEncoding,
    Codes,
    TextEncoder,
    in_form,
    named_block,
    numeric_blocks,
)
from leakledger.preprocess.encoders.subword.facebook import open_model
from leakledger.preprocess.encoders.subword.seeded import SeededVectors
from leakledger.preprocess.federation import At, Federation
from leakledger.preprocess.options import option
from leakledger.preprocess.views import Block


class WordVectors(Protocol):
    """A public function from words to vectors."""

    @property
    def dimension(self) -> int: ...

    @property
    def bounds(self) -> tuple[float | None, float | None]: ...

    def vector(self, word: str) -> NDArray[np.float64]: ...


@dataclass(frozen=True)
class FastText(TextEncoder):
    """`fasttext_model` is the path of a model file; None is the seeded model, with `dimension` and `vector_seed`."""

    fasttext_model: str | None = option(None, help="a model file (.bin); unset: a seeded model that was not trained")
    dimension: int = option(300, at_least=1, help="numbers of a vector of the seeded model")
    vector_seed: int = option(0, at_least=0, help="of the seeded model")

    name = "fasttext"
    reference = "Privacy-preserving tabular data transformation, section 7.3; Bojanowski et al. (2017)"
    said_to_share = "nothing (table 5)"
    learns = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fasttext_model == "":
            raise ValueError("fasttext_model is empty; name a model file (.bin), or leave the key out")
        SeededVectors(self.dimension, self.vector_seed)

    def fit(self, fed: Federation, schema: Schema, tables: Mapping[str, At[Table]]) -> EncoderFit:
        """Nothing is learned and nothing is sent. Raises ValueError for a file that is no fastText model."""
        vectors = fed.public(self.vectors)
        encodings = {c: fed.local(c, self.encoding, schema, vectors) for c in tables}
        return EncoderFit(encodings, fed.public(self.blocks, schema, vectors))

    def vectors(self) -> WordVectors:
        if self.fasttext_model is None:
            return SeededVectors(self.dimension, self.vector_seed)
        return open_model(self.fasttext_model)

    def encoding(self, schema: Schema, vectors: WordVectors) -> CodeEncoding:
        return CodeEncoding(
            lambda _, value: vectors.vector(in_form(value, self.normal_form)),
            dict.fromkeys(schema.categorical, vectors.dimension),
            np.float32,
        )

    def codes(self, values: Sequence[str]) -> Codes:
        """(k, dimension) the vectors of some values, which anyone with the model can compute."""
        vectors = self.vectors()
        found = [vectors.vector(in_form(v, self.normal_form)) for v in values]
        return np.array(found, np.float64).reshape(len(values), vectors.dimension)

    def blocks(self, schema: Schema, vectors: WordVectors) -> tuple[Block, ...]:
        blocks: list[Block] = []
        for i, feature in enumerate(schema.categorical):
            start, values = i * vectors.dimension, self.known_values(schema, feature)
            if values is None:
                blocks += numeric_blocks(feature, start, vectors.dimension, *vectors.bounds)
            else:
                codes = [vectors.vector(in_form(v, self.normal_form)) for v in values]
                blocks.append(named_block(feature, start, values, codes, vectors.dimension))
        return tuple(blocks)
