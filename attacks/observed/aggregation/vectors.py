"""The vectors that clients add up, and what is read from them: rows times every entry, then the rows."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.messages import GlobalModel
from leakledger.preprocess.views import View

CKKS_NOISE = 290.0  # of one fresh ciphertext at degree 8192, in units of the scale: one standard deviation
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Vector:
    """The sum (d + 1,) of the vectors of `clients` in one round; of one client, its own. `message`: the number of the
    last message that it takes.
    """

    round: int
    clients: tuple[str, ...]
    numbers: NDArray[np.float64] = field(repr=False)
    message: int


@dataclass(frozen=True)
class Aggregate:
    """A vector as the model has it: the `rows` of all clients together, and the mean over rows of their updates."""

    round: int
    clients: tuple[str, ...]
    rows: int
    mean: Mapping[str, NDArray[np.float64]] = field(repr=False)
    message: int


def error_of_mean(view: View, clients: int, rows: float) -> float:
    """The standard deviation of what the protocol leaves in an entry of a mean over the rows of so many clients, whose
    sum it has: fixed-point numbers are rounded once each, ciphertexts carry the noise of encryption (measured, see
    `he_aggregation`), and of other methods nothing is known to be left.
    """
    method = view.public.aggregation
    if method.name == "secure-aggregation":
        return float((clients / 12) ** 0.5 * 2.0 ** -method.options["fraction_bits"]) / rows
    if method.name == "he-aggregation":
        return float(CKKS_NOISE * clients**0.5 * 2.0 ** -method.options["scale_bits"]) / rows
    return 0.0


def first_model(view: View) -> GlobalModel | None:
    """The first model that the observers can read; its names and shapes are those of every later one."""
    message = next(view.readable(GlobalModel), None)
    return None if message is None else message.payload


def as_aggregate(vector: Vector, like: Arrays) -> Aggregate | None:
    """The vector in names and shapes `like` the model's; None where it is of another size or over no rows."""
    sizes = [like[name].size for name in sorted(like)]
    rows = int(np.rint(vector.numbers[-1])) if len(vector.numbers) == 1 + sum(sizes) else 0
    if rows < 1:
        return None
    parts = np.split(vector.numbers[:-1] / rows, np.cumsum(sizes)[:-1])
    named = {name: part.reshape(like[name].shape) for name, part in zip(sorted(like), parts, strict=True)}
    mean = {name: named[name] for name in like}
    return Aggregate(vector.round, vector.clients, rows, mean, vector.message)
