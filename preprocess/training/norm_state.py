"""The running statistics of batch norm, which travel beside the updates: from each client to the server, and back to
all in the model.

In every round a client begins with the statistics of the model, moves them with each of its batches, and tells the
server where they are (`train.batch-norm`, in the clear). The server takes their mean, weighted as the updates are, and
sends it with the next model. That is what averaging whole models does (a PyTorch `state_dict`). The mean of variances
knows nothing of how far the clients' means are apart; so in federations of unlike parties evaluation goes by variances
that are too small.

They are no part of the update, and nothing that hides or protects an update covers them: aggregations that hide, and
defenses, are refused beside batch norm (`checks`).
"""

from leakledger.preprocess.aggregation.base import weighted_mean
from leakledger.preprocess.messages import BatchNormStatistics, ClientGradient, ClientWeights
from leakledger.preprocess.models import Weights, parameters, statistics
from leakledger.preprocess.views import ModelSpec

Update = ClientGradient | ClientWeights


def own_statistics(spec: ModelSpec, update: Update) -> BatchNormStatistics:
    """What a client tells of the statistics among the tensors of its update."""
    return BatchNormStatistics(update.rows, statistics(spec, _tensors(update)))


def without_statistics(spec: ModelSpec, update: Update) -> Update:
    """The update as it is sent: the tensors of parameters."""
    return type(update)(update.rows, parameters(spec, _tensors(update)))


def with_mean_statistics(weighting: str, weights: Weights, *told: BatchNormStatistics) -> Weights:
    """The weights of the next model with the mean of what clients told, by "rows", or each alike ("clients")."""
    rows = [t.rows if weighting == "rows" else 1 for t in told]
    return weights | weighted_mean([t.statistics for t in told], rows)


def _tensors(update: Update) -> Weights:
    return update.gradient if isinstance(update, ClientGradient) else update.weights
