"""Judges: for each transformation a perceptron that says from sketches whether it makes a useful feature.

Source: "FLFE: a communication-efficient and privacy-preserving federated feature engineering framework", section 4.2:
one hidden layer, [useful, useless] = softmax(b2 + W2 relu(b1 + W1 R)). Sketches are flattened, of two columns one after
the other. With several classes there is a one-vs-rest problem for each; the paper does not say how their scores are put
together: the greatest counts, since a feature that tells one class apart is useful.

How they are trained: `judge_training`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.features.sketch import Sketch
from leakledger.preprocess.features.transformations import BINARY

Weights = NDArray[np.float32]


@dataclass(frozen=True)
class Perceptron:
    """`w1` (hidden, inputs), `b1` (hidden,), `w2` (2, hidden), `b2` (2,); the first output is useful."""

    w1: Weights
    b1: Weights
    w2: Weights
    b2: Weights

    def useful(self, inputs: Weights) -> NDArray[np.float64]:
        """(rows,) the probability of being useful of each row of (rows, inputs)."""
        hidden = np.maximum(inputs @ self.w1.T + self.b1, 0)
        first, second = (hidden @ self.w2.T + self.b2).astype(np.float64).T
        result: NDArray[np.float64] = 0.5 * (1 + np.tanh((first - second) / 2))  # softmax of two
        return result


Judges = Mapping[str, Perceptron]


def usefulness(judges: Judges, transformation: str, *sketches: Sketch) -> float:
    """The score of a transformation of columns with these sketches, each (problems, 2, bins) and scaled.

    Raises ValueError for a transformation without a judge, and for sketches of another size than it was trained on.
    """
    if transformation not in judges:
        raise ValueError(f"no judge was trained for {transformation}; there are {', '.join(judges)}")
    inputs, judge = judge_inputs(*sketches), judges[transformation]
    if inputs.shape[1] != judge.w1.shape[1]:
        size = f"the judge of {transformation} takes {judge.w1.shape[1]} numbers, not {inputs.shape[1]}"
        raise ValueError(f"{size}; train it on sketches of as many bins")
    return float(judge.useful(inputs).max())


def judge_inputs(*sketches: Sketch) -> Weights:
    """(problems, inputs): the arrays of each problem in a row."""
    return np.concatenate([s.reshape(len(s), -1) for s in sketches], axis=1)


def open_judges(transformations: Sequence[str], bins: int) -> Judges:
    """Judges that score everything as 1, to all digits of a float: they show the most that is sent."""
    return {t: _sure((4 if t in BINARY else 2) * bins) for t in transformations}


def _sure(inputs: int) -> Perceptron:
    w1, b1, w2 = (np.zeros(shape, np.float32) for shape in ((1, inputs), (1,), (2, 1)))
    return Perceptron(w1, b1, w2, np.array([100, 0], np.float32))


def judges_to_plain(judges: Judges) -> dict[str, Any]:
    return {name: dict(p.__dict__) for name, p in judges.items()}


def judges_from_plain(plain: Mapping[str, Mapping[str, Any]]) -> Judges:
    return {name: Perceptron(**weights) for name, weights in plain.items()}
