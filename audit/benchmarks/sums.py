"""Attacks on sums of several clients' gradients, as each client can read them from two consecutive models.

Setting as in `tableak`, pipeline `published`, labels known, an untrained 100-100 network, FedSGD with a learning rate
of 0.1: `setting.clients` clients with `setting.B` rows each, and one more, who observes. It is told the model before
and after the round, subtracts its own gradient, and attacks what is left: the sum over all others, with what the
rounding of the models leaves in it. A server that sees nothing but the model after each round (secure aggregation)
holds the same two models. Each seed draws another network and partition, of which one sum is attacked, so sums are
independent.

*Identical* rows have every category right and every number within 0.001 standard deviations; a sum in which an attack
makes no claim counts as recovering nothing. `owner` is how often the owner of an identical row is named right, over
sums with such rows, beside what a guess by batch sizes gets (`owner, by chance`).
"""

import time
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from leakledger.audit.benchmarks.base import Options, Row, dataset_name
from leakledger.audit.benchmarks.gradients import figure, in_percent
from leakledger.audit.benchmarks.tableak import settings
from leakledger.audit.case import Case, cases
from leakledger.audit.config import Config
from leakledger.audit.federate import federate
from leakledger.audit.granted import attempts, granted_knowledge, make_attack
from leakledger.audit.play import view_of
from leakledger.audit.pool import each
from leakledger.audit.records import Trial
from leakledger.audit.scoring import score
from leakledger.audit.truth import Truth
from leakledger.preprocess.secret import PUBLIC_MASTER, generator

ROWS, SEEDS, FEW = 8, 10, 4  # of each client; how many sums of each kind; fewer of those that take minutes each
EXACT, APPROXIMATE = ("span", "atoms", "portfolio"), ("tableak", "posterior")
CLIENTS = {1: EXACT, 2: EXACT, 4: EXACT, 10: APPROXIMATE}
"""Clients in a sum, and the attacks on it: of 80 rows a network of this width shows none exactly."""
QUICK = {2: EXACT, 4: EXACT}
METRICS = ("identical_rows", "verified_rows", "false_verified", "exact_rows", "accuracy")


class Measured(NamedTuple):
    """The trials of one attack on one sum, and the processor seconds that it took."""

    trials: list[Trial]
    seconds: float


def run(options: Options) -> Iterator[Row]:
    """Rows for each table, number of clients and attack, as they are measured."""
    for source in options.data or ("fair",):
        for clients, attacks in (QUICK if options.quick else CLIENTS).items():
            seeds = options.seeds or (1 if options.quick else SEEDS if attacks is EXACT else FEW)
            for attack in attacks:
                yield from measured(options, source, attack, clients, seeds)


def measured(options: Options, source: str, attack: str, clients: int, seeds: int) -> Iterator[Row]:
    """Rows of one attack on sums over so many clients, one sum per seed."""
    config = with_parties(settings(options, source, "published", "known", ROWS, seeds), clients + 1)
    parts = list(each(partial(one_sum, config, attack), cases(config), options.jobs))
    trials = [t for p in parts for t in p.trials]
    dataset = dataset_name(source)
    setting = {"attack": attack, "clients": clients, "B": ROWS, "labels": "known", "seeds": seeds}
    for metric in METRICS:
        yield figure("sums", dataset, setting, metric, in_percent(trials, metric, seeds), None, "%")
    for metric, guess in (("owner", "by chance"), ("accuracy", "prior only")):
        own = [t for t in trials if t.metric == metric]
        if own and metric not in METRICS:  # of sums without an identical row there is none
            yield figure("sums", dataset, setting, metric, [100 * (t.value or 0.0) for t in own], None, "%")
        if own:
            chance = [100 * (t.baseline or 0.0) for t in own]
            yield figure("sums", dataset, setting, f"{metric}, {guess}", chance, None, "%")
    yield figure("sums", dataset, setting, "seconds per sum", [p.seconds for p in parts], None, "s")


def with_parties(config: Config, parties: int) -> Config:
    """The same with another number of parties."""
    partition = [p.model_copy(update={"parties": parties}) for p in config.partition]
    return config.model_copy(update={"partition": partition})


def one_sum(config: Config, name: str, case: Case) -> Measured:
    """The attack `name` by the first client, on the sum over all others."""
    truth = Truth(federate(config, case, PUBLIC_MASTER))
    knowledge, attempted = granted_knowledge(config, truth), attempts(config, truth)
    observer = truth.parties[:1]
    view, attack = view_of(observer, truth), make_attack(name, config, case)
    start = time.process_time()
    outcome = attack.run(view.restricted(attack.accepts), knowledge)
    seconds = time.process_time() - start
    coins = generator(truth.federated.secrets[truth.federated.public.server])
    draws = config.audit.baseline_draws
    return Measured(score(attack, observer, outcome, knowledge, truth, attempted, coins, draws), seconds)
