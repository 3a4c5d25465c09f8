"""Guesses a batch without looking at its gradient: what an attack has to beat (TabLeak, section 4, "random baseline").

Nothing is read of a gradient message but who sent it and over how many rows. Each cell is drawn on its own, from the
marginals that the adversary is granted, else from what the layout makes public (`observed.labels.plausible`). It
calibrates the scores: an attack at this level has taken nothing from the messages.

`per="row"` draws every cell of every row. `per="batch"` draws one number per numeric feature for all rows of a batch,
and categories row by row: so does the published implementation, and so its figures come about (58.0 % on Adult at
B = 32; per row, it is some 4 points more).
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.base import (
    Abstained,
    Attack,
    AuxiliaryKnowledge,
    ControlSpec,
    NotApplicable,
    Outcome,
    RecordsClaim,
    check_seed,
)
from leakledger.attacks.observed.gradients import chosen_messages
from leakledger.attacks.observed.labels import plausible_cells, public_frequencies
from leakledger.preprocess.messages import ClientGradient
from leakledger.preprocess.options import check_options, option
from leakledger.preprocess.views import CategoricalBlock, FeatureLayout, Message, NumericBlock, View

STANDARD_NORMAL = 0.5 * np.log(2 * np.pi * math.e)  # entropy in nats


@dataclass(frozen=True)
class RandomBaseline(Attack):
    """Rows drawn from the prior, `per` row or `per` batch. `calibrator` says that it is no attack to be feared.

    Raises ValueError for settings out of range.
    """

    technique = "random_baseline"
    reference = "Vero, Balunović, Dimitrov, Vechev: TabLeak: Tabular Data Leakage in Federated Learning, ICML 2023"
    asset = ("records",)
    reads = (ClientGradient,)
    controls = (ControlSpec("records"),)
    assumes = "honest but curious; the public layout; nothing of a gradient but the number of its rows"
    calibrator = True

    per: Literal["row", "batch"] = option("row", help="a number is drawn for each row, or for a batch, as published")
    max_rows: int = option(100_000, at_least=1, help="larger batches are left alone")
    seed: int = 0
    rounds: tuple[int, ...] | None = None
    victims: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        check_options(self)
        check_seed(self.seed)

    def run(self, view: View, knowledge: AuxiliaryKnowledge) -> Outcome:
        layout = view.public.layout
        if layout is None or not layout.blocks:
            return NotApplicable("the public facts name no feature layout")
        messages = chosen_messages(view, ClientGradient, self.rounds, self.victims)
        if not messages:
            return NotApplicable(
                f"no readable {ClientGradient.topic} message of these rounds and victims reached the observers"
            )
        counted = [(m, rows) for m in messages if 0 < (rows := _rows(m)) <= self.max_rows]
        if not counted:
            return NotApplicable(
                f"no {ClientGradient.topic} message is over a stated number of rows up to {self.max_rows}"
            )
        try:
            return [self._guess(m, rows, layout, knowledge) for m, rows in counted]
        except ValueError as error:
            return Abstained(str(error))

    def _guess(self, message: Message, rows: int, layout: FeatureLayout, knowledge: AuxiliaryKnowledge) -> RecordsClaim:
        rng = np.random.default_rng([self.seed, message.round, *message.sender.encode()])
        categories, numbers = plausible_cells(layout, rows, rng)
        for i, block in enumerate(layout.categorical):
            if block.values is not None and block.feature in knowledge.marginals:
                categories[:, i] = _drawn_categories(block, knowledge, rows, rng)
        for i, column in enumerate(layout.numeric):
            numbers[:, i] = _numbers(column, numbers[:, i], knowledge, rng)
        if self.per == "batch":
            numbers[:] = numbers[:1]
        entropy = np.array([_entropy(b) for b in layout.categorical])
        return RecordsClaim(
            victim=message.sender,
            round=message.round,
            categories=categories,
            numbers=numbers,
            category_entropy=np.broadcast_to(entropy, categories.shape).copy(),
            number_entropy=np.full(numbers.shape, STANDARD_NORMAL),
            evidence=(message.sequence,),
        )


def _rows(message: Message) -> int:
    """Over how many rows the gradient is; 0 where the message does not say."""
    try:
        rows: int = message.payload.rows
        return max(0, rows)
    except ValueError:
        return 0


def _drawn_categories(
    block: CategoricalBlock, knowledge: AuxiliaryKnowledge, rows: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Candidates (rows,) by the granted marginal. Raises ValueError for a value that the layout does not have."""
    values, probabilities = knowledge.marginals[block.feature]
    place = {value: k for k, value in enumerate(block.values or ())}
    if unknown := [v for v in values if v not in place]:
        raise ValueError(f"the granted marginal of {block.feature} has {unknown[0]!r}, which the layout does not")
    candidates = np.array([place[v] for v in values], np.int64)
    return candidates[rng.choice(len(candidates), rows, p=probabilities)]


def _numbers(
    column: NumericBlock, drawn: NDArray[np.float64], knowledge: AuxiliaryKnowledge, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Numbers (rows,) in the units of a claim: by the granted marginal, else as drawn, within granted bounds."""
    if column.feature in knowledge.marginals:
        values, probabilities = knowledge.marginals[column.feature]
        return np.asarray(values, np.float64)[rng.choice(len(values), len(drawn), p=probabilities)]
    raw = column.raw(drawn)
    if column.feature in knowledge.bounds:
        raw = np.clip(raw, *knowledge.bounds[column.feature])
    return np.round(raw) if column.integer and column.scaled else raw


def _entropy(block: CategoricalBlock) -> float:
    """In [0, 1]: entropy of the frequencies that candidates are drawn by, over log(candidates)."""
    shares = public_frequencies(block)
    if shares is None or block.size == 1:
        return float(block.size > 1)
    terms = shares * np.log(np.maximum(shares, np.finfo(float).tiny))
    return float(np.clip(-terms.sum() / np.log(block.size), 0.0, 1.0))
