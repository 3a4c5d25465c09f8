"""Judges a transformation by a model: is its F1 with the new feature better by a threshold than without?

This labels what judges learn from (FLFE, section 4.2), and is the paper's baseline "instant model evaluation". F1 is
the mean over classes, by cross-validation on stratified folds. Isotonic regression, which looks at labels, is fitted on
the training part of each fold: fitted on all records it would carry the labels of the test part into the feature.
"""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.features.sketch import Column, Labels
from leakledger.preprocess.features.transformations import BINARY, binary, isotonic, unary

Base = Literal["logistic-regression", "random-forest"]
Matrix = NDArray[np.float64]
TREES = 30


def improvement(how: str, columns: Matrix, labels: Labels, base: Base, folds: int, seed: int) -> float:
    """F1 of the columns (n, 1 or 2) with their transformation, less F1 without. Raises ValueError where undefined."""
    without = f1(columns, labels, base, folds, seed)
    return f1(columns, labels, base, folds, seed, ((how, tuple(range(columns.shape[1]))),)) - without


def f1(
    columns: Matrix,
    labels: Labels,
    base: Base,
    folds: int,
    seed: int,
    made: tuple[tuple[str, tuple[int, ...]], ...] = (),
) -> float:
    """The mean F1 over folds of a model on columns (n, features) and what is `made` of them (name, column numbers)."""
    from sklearn.metrics import f1_score  # imported late: takes a second that protocols without a model need not wait
    from sklearn.model_selection import StratifiedKFold

    fixed = [transformed(how, columns[:, list(of)], labels) for how, of in made if how != "isotonic"]
    fitted = [columns[:, of[0]] for how, of in made if how == "isotonic"]
    whole = np.column_stack([columns, *fixed])
    scores = []
    for train, test in StratifiedKFold(folds, shuffle=True, random_state=seed).split(columns, labels):
        more = [isotonic(x[train], labels[train], x) for x in fitted]
        inputs = np.column_stack([whole, *more])
        model = _model(base, seed).fit(inputs[train], labels[train])
        scores.append(f1_score(labels[test], model.predict(inputs[test]), average="macro", zero_division=0.0))
    return float(np.mean(scores))


def transformed(how: str, columns: Matrix, labels: Labels) -> Column:
    """The transformation of columns (n, 1 or 2)."""
    if how in BINARY:
        return binary(how, ("the first", "the second"), columns[:, 0], columns[:, 1])
    return unary(how, "the column", columns[:, 0], labels)


def _model(base: Base, seed: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if base == "random-forest":
        return RandomForestClassifier(TREES, random_state=seed)
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))
