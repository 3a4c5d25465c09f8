"""What engineered features are worth: F1 with and without them, on records that no judge has seen."""

from collections.abc import Sequence

from leakledger.preprocess.features.model_evaluation import Base, Matrix, f1, transformed
from leakledger.preprocess.features.sketch import Labels
from leakledger.preprocess.nouns import plural

Candidate = tuple[str, tuple[int, ...]]
"""A transformation, and the numbers of the columns that it takes."""


def defined(candidate: Candidate, columns: Matrix, labels: Labels) -> bool:
    """Whether a transformation has a value for every record of columns (n, features)."""
    try:
        transformed(candidate[0], columns[:, list(candidate[1])], labels)
    except ValueError:
        return False
    return True


def f1_with_and_without(
    columns: Matrix, labels: Labels, made: Sequence[Candidate], base: Base, folds: int, seed: int
) -> tuple[float, float]:
    """The mean F1 over folds: with what is `made` of columns (n, features), where it has a value of every record, and
    without.

    Raises ValueError where a class has fewer records than there are folds.
    """
    check_folds(labels, folds)
    valid = tuple(c for c in made if defined(c, columns, labels))
    return f1(columns, labels, base, folds, seed, valid), f1(columns, labels, base, folds, seed)


def check_folds(labels: Labels, folds: int) -> None:
    """Raises ValueError where a class has fewer records (n,) than there are folds."""
    least = min(int((labels == k).sum()) for k in set(labels.tolist()))
    if least < folds:
        raise ValueError(
            f"a class has {plural(least, 'held-out record')}, too few for {folds} folds; use a larger "
            "data.test_fraction, or fewer folds"
        )
