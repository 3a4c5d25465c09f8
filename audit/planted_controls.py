"""Controls of an attack on updates where nobody holds the truth: rows that are drawn here go through the same network.

A view that comes from elsewhere has no data beside it, so what an attack claims of it cannot be scored. What can be
tried is the attack: *leaky*, clients with a single drawn row each, which it must recover; *power*, a drawn batch of the
size of the largest real one, under the same defense, of which it must get more than luck does; *null*, the claims about
one drawn batch held against another one, which must be worth no more than luck. Where power is lacking, silence about
the real update proves nothing. Drawn rows: every candidate of a category alike, encoded numbers standard normal. They
may be easier or harder than real ones, which repeat and depend on each other.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.base import Attack, AuxiliaryKnowledge, RecordsClaim, claims_in
from leakledger.audit.cells import Cells
from leakledger.audit.made_up import UPDATES, Batches, Sent, rows_alone, shown, topics_shown, undefended
from leakledger.audit.outcomes import outcome_of
from leakledger.audit.record_controls import (
    AT_BASELINE,
    DEVIATIONS,
    GUESSES,
    NEARLY_ALL,
    RECOVERED,
)
from leakledger.audit.records import Control
from leakledger.audit.scoring.metrics import advantage
from leakledger.audit.scoring.records import from_marginals, measure
from leakledger.preprocess.messages import GlobalModel
from leakledger.preprocess.views import FeatureLayout, Message, View

POPULATION, SINGLES = 1_000, 4


def planted_controls(
    attack: Attack, view: View, knowledge: AuxiliaryKnowledge, coins: np.random.Generator
) -> tuple[Control, ...]:
    """The three controls by the update of most rows that the observers hold; none where there is no update to imitate,
    it has more than `POPULATION` rows, or the target has no classes.
    """
    trial = trial_like(attack, view, knowledge, coins)
    if trial is None:
        return ()
    update, rows, labels = trial.update, trial.update.payload.rows, trial.labels()
    few = rows_alone(view, rows)
    singles = {f"planted {i}": (trial.drawn(few), labels[(i + np.arange(few)) % rows]) for i in range(SINGLES)}
    batch, other = trial.drawn(rows), trial.drawn(rows)
    alone = trial.claims(singles, defended=False)
    whole = trial.claims({update.sender: (batch, labels)}, defended=True).get(update.sender)
    value = float(np.mean([trial.accuracy(alone.get(victim), own) for victim, (own, _) in singles.items()]))
    return (
        trial.control(
            "leaky",
            value,
            singles["planted 0"][0],
            f"cells of {few} planted rows" if few > 1 else "cells of single planted rows",
        ),
        trial.control("power", trial.accuracy(whole, batch), batch, f"cells of {rows} planted rows"),
        trial.control("null", trial.accuracy(whole, other), other, f"cells of {rows} other rows"),
    )


def trial_like(attack: Attack, view: View, knowledge: AuxiliaryKnowledge, coins: np.random.Generator) -> "Trial | None":
    """The attack on updates like that of most rows that the observers hold; None as `planted_controls` says."""
    held = (m for kind in UPDATES for m in view.received(kind) if _has_model(view, m))
    update = max(held, key=lambda m: m.payload.rows, default=None)
    layout, spec = view.public.layout, view.public.model
    if update is None or layout is None or spec is None or spec.task == "regression":
        return None
    if not 0 < update.payload.rows <= POPULATION:
        return None
    return Trial(attack, view, knowledge, update, _population(layout, coins), coins)


@dataclass(frozen=True)
class Trial:
    """The attack on updates like `update` of rows of a drawn `population`."""

    attack: Attack
    view: View
    knowledge: AuxiliaryKnowledge
    update: Message
    population: Cells
    coins: np.random.Generator

    @cached_property
    def deviations(self) -> NDArray[np.float64]:
        return np.asarray(self.population.numbers.std(axis=0), np.float64)

    def drawn(self, rows: int) -> Cells:
        return self.population.take(self.coins.choice(len(self.population), rows, replace=False))

    def labels(self) -> NDArray[np.int64]:
        """Those of a batch of the size of the update: all classes alike, in a drawn order."""
        spec = self.view.public.model
        assert spec is not None  # `trial_like`
        return self.coins.permutation(np.resize(np.arange(spec.classes), self.update.payload.rows))

    def claims(self, batches: Batches, defended: bool) -> dict[str, RecordsClaim]:
        """What is claimed of clients that train on `batches`, by client."""
        view = self.view if defended else undefended(self.view, batches)
        made, granted = shown(view, Sent(self.update), batches, self.coins)
        known = replace(self.knowledge, labels=granted if self.knowledge.labels else {})
        found = claims_in(outcome_of(self.attack, made.restricted(self.attack.accepts), known))
        return {c.victim: c for c in found if isinstance(c, RecordsClaim) and c.layout is None}

    def accuracy(self, claim: RecordsClaim | None, actual: Cells) -> float:
        """The share of cells right; none where nothing is claimed, or more rows than there are."""
        if claim is None or not 0 < len(claim.categories) <= len(actual):
            return 0.0
        return measure(Cells(claim.categories, claim.numbers), actual, self.deviations)["accuracy"]

    def luck(self, actual: Cells) -> tuple[float, float]:
        """The share of cells that rows drawn from the same population get right: mean and standard deviation."""
        guesses = [from_marginals(self.population, len(actual), self.coins) for _ in range(GUESSES)]
        lucky = [measure(g, actual, self.deviations)["accuracy"] for g in guesses]
        return float(np.mean(lucky)), float(np.std(lucky, ddof=1))

    def control(self, kind: Literal["leaky", "power", "null"], value: float, actual: Cells, of: str) -> Control:
        """The outcome, beside what rows drawn from the same population get right."""
        luck, spread = self.luck(actual)
        limit = luck + min(max(DEVIATIONS * spread, AT_BASELINE * (1 - luck)), NEARLY_ALL * (1 - luck))
        rules = {
            "leaky": (value >= RECOVERED, f"at least {RECOVERED:.0%} recovered"),
            "power": (value > limit, f"more than {limit:.0%} recovered"),
            "null": (value <= limit, f"at most {limit:.0%} right"),
        }
        passed, rule = rules[kind]
        gain = advantage("accuracy", value, luck) or 0.0
        kinds = topics_shown(self.view, Sent(self.update))
        return Control(self.attack.technique, kind, value, luck, gain, passed, f"{of}: {rule}", kinds=kinds)


def _has_model(view: View, update: Message) -> bool:
    told = view.on(GlobalModel, recipient=update.sender)
    return any(m.round == update.round and m.content is not None for m in told)


def _population(layout: FeatureLayout, coins: np.random.Generator) -> Cells:
    numbers = coins.normal(size=(POPULATION, len(layout.numeric)))
    for k, block in enumerate(layout.numeric):
        numbers[:, k] = block.raw(numbers[:, k])
        if block.integer and block.scaled:
            numbers[:, k] = numbers[:, k].round()
    categories = [coins.integers(block.size, size=POPULATION) for block in layout.categorical]
    return Cells(np.array(categories, np.int64).reshape(len(categories), POPULATION).T, numbers)
