"""The advantage of an attack over guessing on many planted batches, behind the defense of an update and without it.

One planted batch (`planted_controls`) tells an attack that gets most cells from one that guesses; it does not bound
what is left of an attack behind a strong defense. Here as many batches as are asked for are drawn and attacked, and the
mean advantage has a Student-t interval. It is made no narrower than guesses scatter: few cells may agree by luck.

What an attack leaves out counts as wrong, so that one which is sure of a single row and silent about the others would
end below guessing, and look harmless. Such batches are counted as `partial`, and say nothing. The same batches without
the defense show what the attack gets where nothing is in its way: an attack that gets nothing there tells nothing of
the defense.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.base import Attack, AuxiliaryKnowledge, RecordsClaim
from leakledger.audit.cells import Cells
from leakledger.audit.intervals import CONFIDENCE, quantile
from leakledger.audit.planted_controls import Trial, trial_like
from leakledger.audit.records import within
from leakledger.preprocess.views import View

FEWEST = 2  # batches of which a mean has an interval


@dataclass(frozen=True)
class Advantage:
    """Of the cells of so many planted batches: the share that the attack has right (`value`), that guesses have right
    (`baseline`), and how far it is from there to all cells (`advantage`, between `low` and `high`).

    `partial`: batches of which it claimed not all cells. `proven`: rows that it claims as proven, in all batches.
    """

    batches: int
    value: float
    baseline: float
    advantage: float
    low: float
    high: float
    partial: int
    proven: int

    def __str__(self) -> str:
        return (
            f"{self.value:.0%} of the cells where guessing gets {self.baseline:.0%}, an advantage of "
            f"{self.advantage:.2f} ({CONFIDENCE:.0%} interval {within(self.low, self.high, 2)}, "
            f"{self.batches} planted batches)"
        )


@dataclass(frozen=True)
class PlantedBatches:
    """The advantage behind the same defense, and `undefended`: without it; None where no defense is stated."""

    defended: Advantage
    undefended: Advantage | None

    def __str__(self) -> str:
        without = "" if self.undefended is None else f"; without the defense {self.undefended}"
        return f"on planted rows behind such an update this attack gets {self.defended}{without}"


def advantage_on_planted(
    attack: Attack, view: View, knowledge: AuxiliaryKnowledge, batches: int, coins: np.random.Generator
) -> PlantedBatches | None:
    """The advantage on so many drawn batches of the size of the largest update in the view; None where there is none to
    imitate, or where guessing gets everything.
    """
    trial = trial_like(attack, view, knowledge, coins)
    if trial is None:
        return None
    drawn = [(trial.drawn(trial.update.payload.rows), trial.labels()) for _ in range(batches)]
    defended = _advantage(trial, drawn, defended=True)
    undefended = _advantage(trial, drawn, defended=False) if view.public.mechanisms else None
    return None if defended is None else PlantedBatches(defended, undefended)


def _advantage(trial: Trial, batches: list[tuple[Cells, NDArray[np.int64]]], defended: bool) -> Advantage | None:
    values, lucks, spreads, partial, proven = list[float](), list[float](), list[float](), 0, 0
    for rows, labels in batches:
        victim = trial.update.sender
        claim = trial.claims({victim: (rows, labels)}, defended=defended).get(victim)
        luck, spread = trial.luck(rows)
        values.append(trial.accuracy(claim, rows))
        lucks.append(luck)
        spreads.append(spread)
        partial += not _whole(claim, len(rows))
        proven += 0 if claim is None or claim.verified is None else int(claim.verified.sum())
    room = 1 - float(np.mean(lucks))
    if room < 1e-12:
        return None
    gains = (np.array(values) - np.array(lucks)) / room
    scatter = max(float(np.std(gains, ddof=1)), float(np.mean(spreads)) / room)
    mean, half = float(np.mean(gains)), quantile(len(gains)) * scatter / float(np.sqrt(len(gains)))
    value, baseline = float(np.mean(values)), float(np.mean(lucks))
    return Advantage(len(gains), value, baseline, mean, mean - half, mean + half, partial, proven)


def _whole(claim: RecordsClaim | None, rows: int) -> bool:
    """Whether every cell of so many rows is claimed."""
    if claim is None or len(claim.categories) != rows:
        return False
    return bool((claim.categories >= 0).all() and np.isfinite(claim.numbers).all())
