"""The 14 transformations of FLFE: ten of one column, four of two.

Source: "FLFE: a communication-efficient and privacy-preserving federated feature engineering framework", section 5.
Where the paper names a transformation only, the reading is: log and square root of absolute values ("applied on the
absolute of values" may be said of one or both), round to whole numbers, z-score with the deviation of all records,
isotonic regression of the class number on the column. What is not defined for a record is an error, not a guess: a
logarithm or a quotient of zero would put a value of its own into the column.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.features.sketch import Column, Labels

UNARY = (
    "log",
    "square-root",
    "frequency",
    "square",
    "round",
    "tanh",
    "sigmoid",
    "isotonic",
    "zscore",
    "normalisation",
)
BINARY = ("sum", "difference", "product", "quotient")
TRANSFORMATIONS = (*UNARY, *BINARY)
NEED_LABELS = ("isotonic",)


def unary(transformation: str, name: str, column: Column, labels: Labels | None = None) -> Column:
    """(n,) the transformed column (n,). `labels` (n,) only for what needs them.

    Raises ValueError, naming column and transformation, where it is not defined.
    """
    if transformation == "isotonic":
        if labels is None:
            raise ValueError(f"isotonic of {name} needs labels, which its device does not hold")
        return isotonic(column, labels, column)
    if transformation not in _PLAIN:
        raise ValueError(f"{transformation}: no transformation of one column; there are {', '.join(UNARY)}")
    if transformation == "log" and (zeros := int((column == 0).sum())):
        raise ValueError(f"log of {name}: {_records(zeros)} 0, which has no logarithm; leave the transformation out")
    if transformation in ("zscore", "normalisation") and not np.ptp(column) > 0:
        raise ValueError(f"{transformation} of {name}: the column does not vary; leave the feature out")
    return _finite(_PLAIN[transformation](column), f"{transformation} of {name}")


def binary(transformation: str, names: tuple[str, str], first: Column, second: Column) -> Column:
    """(n,) the transformation of two columns (n,), record by record.

    Raises ValueError, naming both, for columns of unequal length, a divisor of 0, and what overflows.
    """
    if transformation not in _PAIRS:
        raise ValueError(f"{transformation}: no transformation of two columns; there are {', '.join(BINARY)}")
    title = f"{transformation} of {names[0]} and {names[1]}"
    if len(first) != len(second):
        raise ValueError(f"{title}: {len(first)} and {len(second)} records; align them by record id")
    if transformation == "quotient" and (zeros := int((second == 0).sum())):
        raise ValueError(f"{title}: {_records(zeros)} 0 in {names[1]}, which divides; leave the transformation out")
    with np.errstate(over="ignore"):
        return _finite(_PAIRS[transformation](first, second), title)


def isotonic(column: Column, labels: Labels, at: Column) -> Column:
    """The isotonic regression of the class number on a column (n,), at other values (k,) of it.

    It rises or falls as their covariance does.
    """
    from sklearn.isotonic import IsotonicRegression  # imported late: takes a second that others need not wait

    rises = bool(((column - column.mean()) * (labels - labels.mean())).sum() >= 0)
    fitted = IsotonicRegression(increasing=rises, out_of_bounds="clip").fit(column, labels)
    return np.asarray(fitted.predict(at), np.float64)


def frequency(column: Column) -> Column:
    """How often each value occurs."""
    _, which, counts = np.unique(column, return_inverse=True, return_counts=True)
    return np.asarray(counts[which.reshape(-1)], np.float64)


def _logistic(column: Column) -> Column:
    return np.asarray(0.5 * (1 + np.tanh(column / 2)))


def _to_unit(column: Column) -> Column:
    return np.asarray(2 * (column - column.min()) / np.ptp(column) - 1)


_PLAIN: Mapping[str, Callable[[Column], Column]] = MappingProxyType(
    {
        "log": lambda x: np.log(np.abs(x)),
        "square-root": lambda x: np.sqrt(np.abs(x)),
        "frequency": frequency,
        "square": np.square,
        "round": np.round,
        "tanh": np.tanh,
        "sigmoid": _logistic,
        "zscore": lambda x: (x - x.mean()) / x.std(),
        "normalisation": _to_unit,
    }
)
_PAIRS: Mapping[str, Callable[[Column, Column], Column]] = MappingProxyType(
    {"sum": np.add, "difference": np.subtract, "product": np.multiply, "quotient": np.divide}
)


def _finite(column: NDArray[np.float64], title: str) -> Column:
    if not np.isfinite(column).all():
        raise ValueError(f"{title} is too large for a number in some record; leave the transformation out")
    return np.asarray(column, np.float64)


def _records(count: int) -> str:
    return f"{count} record{' has' if count == 1 else 's have'}"
