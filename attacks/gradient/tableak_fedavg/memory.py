"""What restarts occupy, and how many of them run together: as many as fit."""

from collections.abc import Iterator

from leakledger.attacks.observed.tabular import StructuralPrior
from leakledger.attacks.observed.update import Schedule
from leakledger.preprocess.models import layer_shapes
from leakledger.preprocess.views import ModelSpec


def bytes_per_restart(spec: ModelSpec, prior: StructuralPrior, schedule: Schedule, itemsize: int) -> int:
    """About what one restart occupies: weights of every local step, and what each row leaves in each layer."""
    shapes = layer_shapes(spec)
    per_row = 9 * prior.size + 3 * prior.width + sum(4 * outputs + 3 * inputs for outputs, inputs in shapes)
    per_step = sum(outputs * (inputs + 1) for outputs, inputs in shapes)
    return itemsize * (schedule.total * per_row + (len(schedule.steps) + 4) * per_step)


def chunks(victims: int, restarts: range, capacity: int) -> Iterator[tuple[slice, range]]:
    """Parts of at most `capacity` runs: all restarts of some victims, or where these are too many some of one's."""
    together = max(1, capacity // max(1, len(restarts)))
    for i in range(0, victims, together):
        for j in range(restarts.start, restarts.stop, max(1, capacity)):
            yield slice(i, min(i + together, victims)), range(j, min(j + max(1, capacity), restarts.stop))
