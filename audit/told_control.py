"""Whether an update is what the stated network, training and defenses make of the rows that it was taken on.

Planted rows (`planted_controls`) go through the network that was told. Where another one was trained, or its loss was
summed, weighted or smoothed, an attack finds planted rows and not those of the update, and its controls pass. Who holds
the rows can tell: what was told is played on them again.

Defenses and orders of local batches are drawn, so it is played several times. The update must have as much in it as
these of what training alone makes of the rows, and be as far from as much of that: behind noise, the first shows what
the second does not; behind clipping, what is left is short, and any distance from all of it is that of the length. What
is smaller than orders differ by is hidden, though attacks may depend on it: `baseline` says how much that is.
Pruning and rounding turn on single digits, so the update is not compared with what they leave entry by entry. No attack
reads any of this.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from leakledger.audit.made_up import guarded_update, made_up_update
from leakledger.audit.records import plural
from leakledger.preprocess.aggregation.base import arrays_of
from leakledger.preprocess.messages import ClientGradient, ClientWeights, GlobalModel, Payload
from leakledger.preprocess.views import ModelSpec, TrainingSpec, View

PLAYS = 16  # of what was told
DEVIATIONS = 6  # of these: how far off the update may be
ROUNDING = 1e-4  # of the update's length, which exact attacks need; TF32 and half precision are ten times as coarse

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Told:
    """How much the update has in it of what training alone makes of the rows (`share`), and repetitions of what was
    told (`usual`); how far it is from as much of that as these have (`value`), and how far they are (`baseline`), in
    lengths of these.
    """

    value: float
    baseline: float
    share: float
    usual: float
    passed: bool
    kind: Literal["told"] = "told"

    @property
    def expected(self) -> str:
        """What the control asks for, in words."""
        return (
            f"as far off as repetitions of what was told are, and with as much of it: {self.share:.1%}, "
            f"repetitions {self.usual:.1%}"
        )


def rows_held(
    given: Any, spec: ModelSpec, count: int, training: TrainingSpec, granted: NDArray[np.int64] | None
) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """The rows (rows, inputs) and their classes or targets (rows,). Raises ValueError for what is none of these, and
    for classes that those `granted` to the attack, once for each epoch, contradict.
    """
    if not isinstance(given, tuple) or len(given) != 2:
        raise ValueError("trained_on: give a pair, the rows (rows, inputs) as the network takes them and their labels")
    rows, targets = (np.asarray(g.detach().cpu() if isinstance(g, torch.Tensor) else g) for g in given)
    targets = targets[:, 0] if targets.ndim == 2 and targets.shape[1] == 1 else targets
    if rows.dtype.kind not in "biuf" or rows.ndim != 2 or rows.shape[1] != spec.inputs or not np.isfinite(rows).all():
        raise ValueError(
            f"trained_on: rows are of shape {rows.shape} and type {rows.dtype}; finite numbers (rows, {spec.inputs}) "
            "are needed, as the network takes them"
        )
    if len(rows) != count and training.sampling == "fixed":  # a Poisson sample has as many rows as it happens to
        raise ValueError(f"trained_on: {plural(len(rows), 'row')} given, and the update is of {count}")
    if targets.dtype.kind not in "biuf" or targets.shape != (len(rows),) or not np.isfinite(targets).all():
        raise ValueError(f"trained_on: labels are of shape {targets.shape} and type {targets.dtype}; give one a row")
    if spec.task == "regression":
        return rows.astype(np.float32), targets.astype(np.float64)
    if not np.isin(targets, np.arange(spec.classes)).all():
        raise ValueError(f"trained_on: a label is none of the classes 0 to {spec.classes - 1} of this network")
    labels = targets.astype(np.int64)
    if granted is not None:
        epochs = len(granted) // max(len(labels), 1)
        if not np.array_equal(np.sort(granted), np.sort(np.tile(labels, epochs))):
            raise ValueError("trained_on: its labels are others than labels= grants to the attack, in any order")
    return rows.astype(np.float32), labels


def told_control(view: View, inputs: NDArray[np.float32], targets: Any, coins: np.random.Generator) -> Told:
    """The control of a view of one update (`view_of_update`) by the rows that it was taken on, `inputs` (rows, inputs)
    as the network takes them, and their classes, or targets of a regression.
    """
    model, sent = (m.payload for m in view.messages)
    assert isinstance(model, GlobalModel)
    assert isinstance(sent, ClientGradient | ClientWeights)
    given = view, type(sent), model, inputs, np.asarray(targets), coins
    alone = PLAYS if isinstance(sent, ClientWeights) else 1  # a gradient is of one batch, in which nothing is drawn
    bare = sum((_flat(made_up_update(*given)[0], model) for _ in range(alone)), np.zeros(1)) / alone
    # Against training that none of them is part of: an update and its repetitions are alike to it.
    measured = [_measured(_flat(guarded_update(*given)[0], model), bare) for _ in range(PLAYS)]
    squares, within = np.array([*measured, _measured(_flat(sent, model), bare)]).T
    whole, length = float(np.linalg.norm(bare)), float(np.sqrt(squares[:-1]).mean())
    shares = within / whole**2 if whole else np.ones_like(within)
    usual = float(shares[:-1].mean())
    fars = np.sqrt(np.maximum(squares - 2 * usual * within + (usual * whole) ** 2, 0.0))
    rounding = ROUNDING * length + _coarse(sent, model)
    passed = _usual(fars, rounding) and _usual(shares * whole, rounding)
    value, baseline = fars[-1] / (length or 1.0), fars[:-1].mean() / (length or 1.0)
    return Told(float(value), float(baseline), float(shares[-1]), usual, passed)


def _measured(update: Vector, bare: Vector) -> tuple[float, float]:
    """The squared length of an update, and its product with what training alone makes."""
    return float(update @ update), float(update @ bare)


def _usual(found: Vector, rounding: float) -> bool:
    """Whether the last number is as the others are."""
    others = found[:-1]
    return bool(abs(found[-1] - others.mean()) <= DEVIATIONS * others.std(ddof=1) + rounding)


def _coarse(sent: ClientGradient | ClientWeights, model: GlobalModel) -> float:
    """By how much rounding of weights may have moved their difference."""
    if isinstance(sent, ClientGradient):
        return 0.0
    return float(np.finfo(np.float32).eps) * float(np.linalg.norm(_entries(model.weights)))


def _flat(sent: Payload, model: GlobalModel) -> Vector:
    """The entries of a gradient, or of what training adds to the weights."""
    assert isinstance(sent, ClientGradient | ClientWeights)
    found = _entries(arrays_of(sent))
    return found - _entries(model.weights) if isinstance(sent, ClientWeights) else found


def _entries(arrays: Mapping[str, NDArray[Any]]) -> Vector:
    return np.concatenate([np.asarray(arrays[name], np.float64).ravel() for name in sorted(arrays)])
