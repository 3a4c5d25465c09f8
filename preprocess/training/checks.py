"""What a model asks of its training: which norms and which dropout go with which gradients, defenses, aggregations."""

from leakledger.preprocess.aggregation.base import Aggregation
from leakledger.preprocess.aggregation.plain import Plain
from leakledger.preprocess.views import TrainingSpec

INSTEAD = "use layer, group or instance norm"


def check_model(
    norm: str,
    dropout: float,
    training: TrainingSpec,
    row_clip_norm: float | None,
    protected: bool,
    aggregation: Aggregation,
) -> None:
    """Raises ValueError where the gradient of a single row is asked for and the model has none, and where the running
    statistics of batch norm would leave in the clear beside what is hidden or protected.
    """
    single = row_clip_norm is not None or training.sampling == "poisson"
    if single and dropout:
        raise ValueError(
            f"dropout is {dropout}, and the gradients of single rows are asked for; set it to 0, or take fixed batches "
            "and clip no rows"
        )
    if norm != "batch":
        return
    if single:
        raise ValueError(
            f"batch norm mixes the rows of a batch, and the gradients of single rows are asked for; {INSTEAD}"
        )
    if training.batch_size == 1:
        raise ValueError("batch_size is 1, and batch norm makes 0 of a single row; take 2 or more, or another norm")
    if protected:
        raise ValueError(f"the running statistics of batch norm leave beside the update, unprotected; {INSTEAD}")
    if not isinstance(aggregation, Plain):
        raise ValueError(
            f"the running statistics of batch norm would leave in the clear beside {aggregation.name}; {INSTEAD}"
        )
