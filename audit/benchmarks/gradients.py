"""What benchmarks of gradient attacks share: one attack on the first round of a federation, and figures of trials."""

from collections.abc import Mapping, Sequence
from typing import Any

from leakledger.attacks.base import Attack, AuxiliaryKnowledge
from leakledger.audit.benchmarks.base import Row
from leakledger.audit.benchmarks.devices import clock_of
from leakledger.audit.case import Case
from leakledger.audit.config import Config
from leakledger.audit.federate import federate
from leakledger.audit.granted import attempts, granted_knowledge, make_attack
from leakledger.audit.intervals import interval
from leakledger.audit.records import Trial
from leakledger.audit.scoring import score
from leakledger.audit.truth import Truth
from leakledger.preprocess.secret import PUBLIC_MASTER, generator

MOST = {"%": 100.0, "AUC": 1.0}  # by unit


def attack_batches(config: Config, name: str, case: Case) -> tuple[list[Trial], float]:
    """The trials of the attack `name` by the server, and the seconds that it took per batch."""
    truth = Truth(federate(config, case, PUBLIC_MASTER))
    return timed(
        config, make_attack(name, config, case), truth, granted_knowledge(config, truth), attempts(config, truth)
    )


def timed(
    config: Config, attack: Attack, truth: Truth, knowledge: AuxiliaryKnowledge, attempted: Sequence[tuple[str, int]]
) -> tuple[list[Trial], float]:
    """The trials of `attack` by the server on the batches `attempted`, and the seconds that it took for each batch."""
    federated = truth.federated
    view = federated.ledger.view([federated.public.server], federated.public)
    clock = clock_of(config.audit.device)
    start = clock()
    outcome = attack.run(view, knowledge)
    seconds = (clock() - start) / len(attempted)
    coins, draws = generator(federated.secrets[federated.public.server]), config.audit.baseline_draws
    return score(attack, ("server",), outcome, knowledge, truth, attempted, coins, draws), seconds


def in_percent(trials: Sequence[Trial], metric: str, batches: int) -> list[float]:
    """The values of one metric, and 0 for each of so many batches about which nothing is claimed."""
    found = [100 * (t.value or 0.0) for t in trials if t.metric == metric]
    return found + [0.0] * (batches - len(found))


def figure(
    benchmark: str,
    dataset: str,
    setting: Mapping[str, Any],
    metric: str,
    values: Sequence[float],
    published: float | None,
    unit: str,
    note: str = "",
) -> Row:
    """The mean of `values` with its interval, cut to what the unit can be."""
    low, high = interval(values) or (None, None)
    if low is not None and high is not None:  # no figure here is negative
        low, high = max(low, 0.0), min(high, MOST.get(unit, high))
    mean = sum(values) / len(values)
    return Row(benchmark, dataset, setting, metric, mean, low, high, published, unit, len(values), note)
