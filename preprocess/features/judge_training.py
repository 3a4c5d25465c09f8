"""Trains judges: a perceptron for each transformation, on labelled sketches of a corpus.

Source: "FLFE: a communication-efficient and privacy-preserving federated feature engineering framework", sections 4.2
and 5: a sketch is useful where a base model gains at least the threshold from the feature; several classes become
one-vs-rest problems; records are cropped at random for more sketches; SMOTE (Chawla et al. 2002) evens out the classes;
Adam, dropout 0.5, weight decay ("regulation"). What the paper leaves open (hidden width, epochs, crops, the number of
samples) are options.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from leakledger.preprocess.features.judge_corpus import CorpusTable
from leakledger.preprocess.features.judges import Judges, Perceptron, Weights, judge_inputs
from leakledger.preprocess.features.model_evaluation import Base, Matrix, improvement
from leakledger.preprocess.features.sketch import Labels, Ranges, scaled, sketch
from leakledger.preprocess.features.transformations import BINARY, TRANSFORMATIONS
from leakledger.preprocess.options import check_options, option

NEIGHBOURS = 5
Flags = NDArray[np.bool_]
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class JudgeTraining:
    bins: int = option(200, at_least=2, help="bins of a sketch")
    scale: float = option(10.0, above=0, help="sketches are scaled to [-scale, scale]")
    ranges: Ranges = option("class", help="whose extremes bins lie between")
    base: Base = option("logistic-regression", help="the model whose gain makes a label")
    threshold: float = option(0.01, at_least=0, help="gain in F1 from which a feature is useful")
    samples: int = option(150, at_least=4, help="labelled features for each transformation")
    crops: int = option(3, at_least=0, help="further sketches of each labelled feature, of some of its records")
    folds: int = option(5, at_least=2, help="folds of the base model")
    records: int = option(400, at_least=20, help="records of a table that are used at most")
    hidden: int = option(64, at_least=1, help="width of the hidden layer")
    epochs: int = option(60, at_least=1, help="passes over the sketches")
    seed: int = option(0, at_least=0, help="of samples, crops, weights and dropout")

    def __post_init__(self) -> None:
        check_options(self)


def train_judges(
    settings: JudgeTraining,
    tables: Sequence[CorpusTable],
    progress: Progress | None = None,
    wanted: Sequence[str] | None = None,
) -> tuple[Judges, dict[str, float]]:
    """A judge for each transformation that is `wanted` (None: all), the same whichever others are, and the share of its
    samples that were useful. `progress(done, total)`.
    """
    judges, shares = {}, {}
    chosen = [(k, how) for k, how in enumerate(TRANSFORMATIONS) if wanted is None or how in wanted]
    for done, (k, how) in enumerate(chosen, start=1):
        coins = np.random.default_rng([settings.seed, k])
        sketches, useful = labelled(how, settings, tables, coins)
        shares[how] = float(useful.mean())
        judges[how] = fit(*balanced(sketches, useful, coins), settings)
        if progress is not None:
            progress(done, len(chosen))
    return judges, shares


def labelled(
    how: str, settings: JudgeTraining, tables: Sequence[CorpusTable], coins: np.random.Generator
) -> tuple[Weights, Flags]:
    """(rows, inputs) sketches of random features of random tables and crops of them, and which are useful (rows,).

    Raises ValueError where hardly any table has features for which the transformation is defined.
    """
    rows: list[Weights] = []
    flags: list[bool] = []
    wanted = 2 if how in BINARY else 1
    for _ in range(20 * settings.samples):
        if len(flags) >= settings.samples * (1 + settings.crops):
            break
        columns, labels = _drawn(tables, wanted, settings.records, coins)
        try:
            gain = improvement(how, columns, labels, settings.base, settings.folds, settings.seed)
            own = [_sketched(columns, labels, settings)]
        except ValueError:  # not defined for these records, or a class does not vary
            continue
        for _ in range(settings.crops):
            kept = coins.random(len(labels)) < coins.uniform(0.5, 1)
            try:
                own.append(_sketched(columns[kept], labels[kept], settings))
            except ValueError:
                own.append(own[0])
        rows += own
        flags += [gain >= settings.threshold] * len(own)
    if not rows:
        raise ValueError(f"{how} is defined for no feature of the corpus; add tables")
    return np.concatenate(rows), np.array(flags)


def _drawn(tables: Sequence[CorpusTable], wanted: int, most: int, coins: np.random.Generator) -> tuple[Matrix, Labels]:
    """Some records of random features of a random table, and one class of it against the rest."""
    table = tables[int(coins.integers(len(tables)))]
    features = coins.choice(table.columns.shape[1], wanted, replace=False)
    rows = coins.permutation(len(table.labels))[:most]
    positive = int(coins.choice(np.unique(table.labels)))
    return table.columns[np.ix_(rows, features)], (table.labels[rows] == positive).astype(np.int64)


def _sketched(columns: Matrix, labels: Labels, settings: JudgeTraining) -> Weights:
    """(1, inputs)"""
    each = [sketch("a column", x, labels, 2, settings.bins, settings.ranges) for x in columns.T]
    return judge_inputs(*(scaled(s, settings.scale) for s in each))


def balanced(rows: Weights, useful: Flags, coins: np.random.Generator) -> tuple[Weights, Flags]:
    """As many useful rows as others, by SMOTE: a new one lies between one of the rarer kind and a near one like it."""
    rare = bool(useful.mean() < 0.5)
    few = rows[useful == rare]
    missing = len(rows) - 2 * len(few)
    if len(few) < 2 or missing <= 0:
        return rows, useful
    distances = ((few[:, None] - few[None]) ** 2).sum(-1)
    near = np.argsort(distances, axis=1)[:, 1 : NEIGHBOURS + 1]
    start = coins.integers(len(few), size=missing)
    end = near[start, coins.integers(near.shape[1], size=missing)]
    place = coins.random((missing, 1)).astype(np.float32)
    made = few[start] + place * (few[end] - few[start])
    return np.concatenate([rows, made]), np.concatenate([useful, np.full(missing, rare)])


def fit(rows: Weights, useful: Flags, settings: JudgeTraining) -> Perceptron:
    """The perceptron after training with Adam. Inputs are (rows, inputs), as they are judged."""
    coins = torch.Generator().manual_seed(settings.seed)
    inputs, wanted = torch.from_numpy(rows), torch.from_numpy((~useful).astype(np.int64))
    shapes = ((settings.hidden, rows.shape[1]), (settings.hidden,), (2, settings.hidden), (2,))
    bounds = (rows.shape[1] ** -0.5, rows.shape[1] ** -0.5, settings.hidden**-0.5, settings.hidden**-0.5)
    w1, b1, w2, b2 = (
        ((2 * torch.rand(s, generator=coins) - 1) * b).requires_grad_() for s, b in zip(shapes, bounds, strict=True)
    )
    adam = torch.optim.Adam([w1, b1, w2, b2], lr=1e-3, weight_decay=1e-3)
    for _ in range(settings.epochs):
        for batch in torch.split(torch.randperm(len(rows), generator=coins), 64):
            hidden = torch.relu(inputs[batch] @ w1.T + b1)
            kept = 2 * (torch.rand(hidden.shape, generator=coins) < 0.5) * hidden  # dropout 0.5
            loss = torch.nn.functional.cross_entropy(kept @ w2.T + b2, wanted[batch])
            adam.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            adam.step()
    return Perceptron(*(w.detach().numpy() for w in (w1, b1, w2, b2)))
