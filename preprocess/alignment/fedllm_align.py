"""FedLLM-Align: parties with different columns train one head on embeddings of their records (algorithm 1).

Source: Gaber et al., "FedLLM-Align: Feature Extraction From Heterogeneous Clients", sections 3.2 to 4.3. Each party
imputes (median, mode) from its own training rows, writes its records as text under its own names of features, embeds
them with a public frozen encoder, and trains the head 768-16-1 (384 for MiniLM) by FedAvg: Adam, 25 rounds of 10 local
epochs, batches of 32, dropout 0.2, an unweighted mean.

Readings, where the paper leaves a choice. The sigmoid output is one logit under binary cross-entropy. Adam begins anew
in each round. What travels are the weights after training, which say the same as the paper's difference to the weights
before. All clients take part in each round unless `training.participation` says less; the others are told the model all
the same (line 11). Embeddings are computed once per party and kept there: the encoder is frozen, so lines 5 and 6 give
the same in every round. Held-out rows are each party's own, imputed, named and embedded as its training rows are; the
paper does not say whether its test rows keep all features.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import ClassVar, Literal

import numpy as np

from leakledger.preprocess.aggregation.plain import Plain
from leakledger.preprocess.alignment.parties import PartySchema
from leakledger.preprocess.alignment.serialise import FORMATS, texts_of
from leakledger.preprocess.alignment.text_encoder import open_encoder
from leakledger.preprocess.data.impute import fill, filling_of
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.federation import At, Federation
from leakledger.preprocess.options import check_options, option
from leakledger.preprocess.pipeline import Encoded
from leakledger.preprocess.training import ALGORITHMS
from leakledger.preprocess.training.base import Trained, train
from leakledger.preprocess.training.evaluation import evaluate
from leakledger.preprocess.views import FeatureLayout, Method, ModelSpec, NumericBlock, TrainingSpec, none_for_zero


@dataclass(frozen=True)
class HeadTraining(TrainingSpec):
    """The head's training; what is not said is as published (section 4.3)."""

    algorithm: Literal["fedsgd", "fedavg"] = "fedavg"
    rounds: int = option(25, at_least=1, help="rounds of training")
    learning_rate: float = option(1e-3, above=0, help="step of the server (fedsgd) or of the clients (fedavg)")
    batch_size: int | None = option(
        32, at_least=1, read=none_for_zero, help="rows of a client per step; 0: all of them"
    )
    local_epochs: int = option(10, at_least=1, only=("fedavg",), help="passes over a client's rows per round")
    optimizer: Literal["sgd", "adam"] = option(
        "adam", only=("fedavg",), help="of local steps; adam begins anew each round"
    )


PUBLISHED = HeadTraining()


@dataclass(frozen=True)
class Alignment:
    """What all parties agreed on: the encoder's name, the format of the texts, the head, and its training.

    `weighted`: the mean of the updates counts rows, where the paper's counts every client alike. Raises ValueError for
    options out of range.
    """

    name: ClassVar[str] = "fedllm-align"
    reference: ClassVar[str] = "Gaber et al., FedLLM-Align: Feature Extraction From Heterogeneous Clients"
    said_to_share: ClassVar[str] = "raw data and embeddings never leave a client; only classifier parameters are sent"

    encoder: str = option("minilm", help='"minilm", "random", "random-N", or a folder as transformers saves it')
    format: str = option("structured", choices=FORMATS, help="how a record is written as text")
    hidden: tuple[int, ...] = option((16,), at_least=1, help="widths of the head's hidden layers")
    dropout: float = option(0.2, at_least=0, below=1, help="chance that a hidden unit is left out of a row in training")
    weighted: bool = option(False, help="the mean of updates counts rows, not every client alike")
    training: TrainingSpec = PUBLISHED

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def aggregation(self) -> Plain:
        return Plain("rows" if self.weighted else "clients")

    def method(self) -> Method:
        """What is public of the encoding; of an encoder's folder its name alone."""
        return Method(self.name, {"encoder": PurePath(self.encoder).name, "format": self.format})

    def head(self, width: int) -> ModelSpec:
        """The head on embeddings of that width: as published `width` * 16 + 16 + 16 + 1 numbers."""
        return ModelSpec(width, 1, self.hidden, "relu", "binary", self.dropout)


@dataclass(frozen=True)
class Embedded:
    """One party's rows: `encoded` has their embeddings; `truncated` counts the texts that lost their end."""

    encoded: Encoded = field(repr=False)
    truncated: int = 0


@dataclass(frozen=True)
class Aligned:
    """Embedded training and held-out rows at each party, the trained head, and the metrics at the server."""

    train: Mapping[str, At[Embedded]]
    test: Mapping[str, At[Embedded]]
    trained: Trained
    metrics: At[dict[str, float]]


def run(
    fed: Federation,
    alignment: Alignment,
    schemas: Mapping[str, PartySchema],
    train_rows: Mapping[str, At[Table]],
    test_rows: Mapping[str, At[Table]],
) -> Aligned:
    """Algorithm 1 and an evaluation. Raises ValueError for a target that has not two classes, DataError for a column
    with nothing to impute from, EncoderError for an encoder that cannot be used.
    """
    own = {c: fed.local(c, filling_of, t) for c, t in train_rows.items()}
    train_rows = {c: fed.local(c, fill, t, own[c]) for c, t in train_rows.items()}
    test_rows = {c: fed.local(c, fill, t, own[c]) for c, t in test_rows.items()}
    fitting = {c: fed.local(c, embed, t, schemas[c], alignment) for c, t in train_rows.items()}
    held_out = {c: fed.local(c, embed, t, schemas[c], alignment) for c, t in test_rows.items()}
    spec = alignment.head(open_encoder(alignment.encoder).width)
    training = alignment.training
    rows = {c: fed.local(c, _encoded, e) for c, e in fitting.items()}
    algorithm = ALGORITHMS[training.algorithm]
    trained = train(fed, algorithm, spec, training, rows, aggregation=alignment.aggregation, to_all=True)
    tested = {c: fed.local(c, _encoded, e) for c, e in held_out.items()}
    return Aligned(fitting, held_out, trained, evaluate(fed, spec, trained.model, tested))


def embed(table: Table, schema: PartySchema, alignment: Alignment) -> Embedded:
    """The embeddings of a complete table's rows."""
    if table.schema.task != "binary":
        raise ValueError(f"{table.name}: FedLLM-Align has one logit for two classes; the target is {table.schema.task}")
    texts, encoder = texts_of(table, schema, alignment.format), open_encoder(alignment.encoder)
    labels = table.labels().astype(np.int64)
    return Embedded(Encoded(encoder.embed(texts), labels), encoder.truncated(texts))


def embedding_layout(width: int) -> FeatureLayout:
    """What is public about the head's inputs: numbers without a name of their own."""
    return FeatureLayout(tuple(NumericBlock(f"embedding {i}", i) for i in range(width)))


def _encoded(embedded: Embedded) -> Encoded:
    return embedded.encoded
