"""Quantile sketch arrays: how often each bin of a column occurs, class by class.

Source: "FLFE: a communication-efficient and privacy-preserving federated feature engineering framework", section 4.1,
equations 1 and 2. A column becomes one array of `m` bins of equal width for each class; with several classes, the
problem is cut into one-vs-rest problems of two arrays each. Arrays are scaled to [-k, k], each by its own least and
greatest count.

Equation 1 divides by the extremes of the values *of the class* (f_k), so every class has bins of its own and an array
says nothing about where its class lies: that is `ranges="class"`. `ranges="feature"` takes those of the whole column,
as a device must that does not know the classes. No extreme is sent either way.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.float64]
Labels = NDArray[np.int64]
Bins = NDArray[np.int64]
Sketch = NDArray[np.float32]
Ranges = Literal["class", "feature"]


def sketch(name: str, column: Column, labels: Labels, classes: int, bins: int, ranges: Ranges = "class") -> Sketch:
    """(problems, 2, bins) counts of a column (n,) under labels (n,) from 0 to `classes` - 1.

    Raises ValueError, naming the column, for one that is not finite, or does not vary (in a class, where ranges are
    those of classes), and for a class of fewer than two records.
    """
    groups = class_groups(labels, classes)
    if ranges == "feature":
        return count_bins(bin_numbers(name, column, bins), labels, classes, bins)
    arrays = [np.bincount(bin_numbers(name, column[rows], bins), minlength=bins) for rows in groups]
    return np.array(arrays, np.float32).reshape(-1, 2, bins)


def bin_numbers(name: str, column: Column, bins: int) -> Bins:
    """(n,) the bin of each value, from 0 (equation 1); the greatest value is in the last bin.

    Raises ValueError for values that are not finite, and for a column that does not vary.
    """
    if not np.isfinite(column).all():
        raise ValueError(f"{name} has a value that is missing or not finite; fill it before features are engineered")
    low, high = float(column.min()), float(column.max())
    if not high > low:
        raise ValueError(f"{name} does not vary over {len(column)} records, so it has no bins; leave the feature out")
    numbers: Bins = np.minimum(np.floor((column / 2 - low / 2) / (high / 2 - low / 2) * bins), bins - 1).astype(
        np.int64
    )  # halves, so that no difference overflows
    return numbers


def count_bins(numbers: Bins, labels: Labels, classes: int, bins: int) -> Sketch:
    """(problems, 2, bins) counts from the bin (n,) of each record (equation 2). Raises ValueError as `sketch` does."""
    arrays = [np.bincount(numbers[rows], minlength=bins) for rows in class_groups(labels, classes)]
    return np.array(arrays, np.float32).reshape(-1, 2, bins)


def class_groups(labels: Labels, classes: int) -> list[NDArray[np.bool_]]:
    """Which records are in each array: of two classes the first and the second; of more, each one and its rest.

    Raises ValueError for fewer than two classes, a label that is no class, and a class of fewer than two records.
    """
    if classes < 2:
        raise ValueError(f"there are {classes} classes; a sketch by class needs two or more")
    if len(labels) and not (int(labels.min()) >= 0 and int(labels.max()) < classes):
        raise ValueError(f"labels run from {labels.min()} to {labels.max()}; with {classes} classes, from 0")
    counts = np.bincount(labels, minlength=classes)
    if (few := counts < 2).any():
        k = int(np.argmax(few))
        raise ValueError(
            f"class {k} has {counts[k]} record{'' if counts[k] == 1 else 's'}; its sketch would be of nobody else: "
            "drop the class or join it with another"
        )
    if classes == 2:
        return [labels == 0, labels == 1]
    return [rows for k in range(classes) for rows in (labels == k, labels != k)]


def scaled(counts: Sketch, k: float) -> Sketch:
    """Each array of (..., bins) from its least count at -k to its greatest at k; one of equal counts is 0."""
    low, high = counts.min(-1, keepdims=True), counts.max(-1, keepdims=True)
    spread = np.where(high > low, high - low, 1)
    result: Sketch = np.where(high > low, (counts - low) / spread * 2 * k - k, 0).astype(np.float32)
    return result
