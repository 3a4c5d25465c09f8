"""Messages of training and evaluation. Tensors by name, as the model has them."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.messages.base import About, Disclosure, Payload
from leakledger.preprocess.messages.shapes import shaped

Tensors = dict[str, NDArray[np.floating[Any]]]


@dataclass(frozen=True)
class Participants(Payload):
    """Which clients take part in a round, by their number: drawn by the server, whatever their rows."""

    topic = "train.participants"
    discloses = Disclosure.CONTROL
    about = About.NOBODY
    bare = True

    clients: list[int] = field(metadata=shaped("clients", least=None))


@dataclass(frozen=True)
class GlobalModel(Payload):
    """The model that a round begins with; after the first round a function of all clients' updates. Of batch norm it
    has the running statistics too.
    """

    topic = "train.model"
    discloses = Disclosure.UPDATE
    about = About.EVERYONE

    weights: Tensors = field(repr=False)


@dataclass(frozen=True)
class ClientGradient(Payload):
    """The sum of the gradients of the sender's batch, divided by `rows`: the rows in it, so that it is their mean; or,
    under Poisson sampling, the number that everyone expects in it.
    """

    topic = "train.gradient"
    discloses = Disclosure.UPDATE
    about = About.SENDER

    rows: int = field(metadata=shaped())
    gradient: Tensors = field(repr=False)


@dataclass(frozen=True)
class ClientWeights(Payload):
    """The weights after the sender's local training on its `rows` rows."""

    topic = "train.weights"
    discloses = Disclosure.UPDATE
    about = About.SENDER

    rows: int = field(metadata=shaped())
    weights: Tensors = field(repr=False)


@dataclass(frozen=True)
class BatchNormStatistics(Payload):
    """Running means and variances of the sums of each hidden unit, by name, after the sender's local steps of a round
    on its `rows` rows: what batch norm needs in evaluation. Beside the weights of the first layer a mean tells the mean
    of the rows.
    """

    topic = "train.batch-norm"
    discloses = Disclosure.AGGREGATE
    about = About.SENDER

    rows: int = field(metadata=shaped())
    statistics: Tensors = field(repr=False)


@dataclass(frozen=True)
class CandidateModel(Payload):
    """The model whose validation loss is asked for."""

    topic = "train.candidate"
    discloses = Disclosure.UPDATE
    about = About.EVERYONE
    bare = True

    weights: Tensors = field(repr=False)


@dataclass(frozen=True)
class LocalLoss(Payload):
    """The summed loss over the sender's `rows` validation rows."""

    topic = "train.validation"
    discloses = Disclosure.AGGREGATE
    about = About.SENDER

    loss: float
    rows: int = field(metadata=shaped())


@dataclass(frozen=True)
class GlobalLoss(Payload):
    """The mean loss over all clients' validation rows."""

    topic = "train.validation-loss"
    discloses = Disclosure.AGGREGATE
    about = About.EVERYONE
    bare = True

    loss: float


@dataclass(frozen=True)
class EvaluatedModel(Payload):
    """The model whose worth on held-out rows is asked for."""

    topic = "evaluate.model"
    discloses = Disclosure.UPDATE
    about = About.EVERYONE
    bare = True

    weights: Tensors = field(repr=False)


@dataclass(frozen=True)
class PredictionCounts(Payload):
    """Of the sender's held-out rows: `confusion` (classes, classes), rows by true and predicted class, and `scores`
    (classes, 2, bins), histograms of predicted probabilities for rows of other classes and of the own one.
    """

    topic = "evaluate.counts"
    discloses = Disclosure.AGGREGATE
    about = About.SENDER

    confusion: NDArray[np.int64] = field(metadata=shaped("classes", "classes"))
    scores: NDArray[np.int64] = field(metadata=shaped("classes", 2, "bins"), repr=False)


@dataclass(frozen=True)
class ErrorSums(Payload):
    """Over the sender's held-out rows: sums of absolute and squared errors, of targets and their squares."""

    topic = "evaluate.errors"
    discloses = Disclosure.AGGREGATE
    about = About.SENDER

    rows: int = field(metadata=shaped())
    absolute: float
    squared: float
    target: float = field(metadata=shaped())
    target_squared: float = field(metadata=shaped())
