"""The posterior against other defenses than noise alone, beside TabLeak, which knows of none: as `defended` otherwise.

Batches of 8 rows. `defense`: clipping of the gradient of each row, or of the whole update, to a norm, both with noise
afterwards; pruning; quantisation. Two lines have noise alone and less knowledge: nobody tells the labels, or of a
Poisson sample of 8 rows in expectation neither the labels nor how many rows it has. There TabLeak takes the expected
number for the true one. In the last lines the server sees no client's update, but under secure aggregation the sum of
several, of 4 rows each, each with noise of its own: one sum per seed. Three lines are of local training (FedAvg): the
change of the weights after some epochs of two batches has the noise, TabLeak is its variant for local training, and the
server saw no message before training. Three are of clients that have 8 rows in all and send a gradient of them in each
of 1, 4 or 16 rounds, which the posterior reads together; all are attacked as the batch of the first round.
`--only "defense=half pruned"` keeps to one line.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from leakledger.audit.benchmarks.base import Options, Row, dataset_name
from leakledger.audit.benchmarks.defended import of_attacks, one_case
from leakledger.audit.benchmarks.fedavg import RATE, train_on_few
from leakledger.audit.benchmarks.tableak import settings
from leakledger.audit.benchmarks.without_update import NAME
from leakledger.audit.case import cases
from leakledger.audit.config import Config
from leakledger.audit.pool import each

ROWS, OF_A_SUM = 8, 4  # of a batch; of each client's where several are summed
PARTIES, SUMS = 4, 4  # batches per seed; sums are one per seed, so as many seeds
RATE_OF_ROUNDS = 0.1  # the learning rate where rounds are read together: their models differ by what it moves


@dataclass(frozen=True)
class Other:
    """What protects an update, and what is told of its batch."""

    defense: Mapping[str, Any]
    labels: str = "known"
    sampling: str = "fixed"
    summed: int = 0  # clients; 0: each client's update by itself
    epochs: int = 0  # of local training; 0: the gradient of one step
    rounds: int = 0  # in which clients of few rows send a gradient of all of them; 0: one batch of many rows


def noise(sigma: float) -> dict[str, Any]:
    return {"name": "gaussian-noise", "sigma": sigma}


OTHER: Mapping[str, Other] = {
    "rows clipped at 0.5, noise 0.003": Other(
        {"name": "example-clipping", "clip_norm": 0.5, "then": [noise(0.003)]},
    ),
    "update clipped at 0.2, noise 0.001": Other(
        {"name": "client-clipping", "clip_norm": 0.2, "then": [noise(0.001)]},
    ),
    "half pruned": Other({"name": "pruning", "share": 0.5}),
    "nine tenths pruned": Other({"name": "pruning", "share": 0.9}),
    "4 bits": Other({"name": "quantisation", "bits": 4}),
    "4 bits, stochastic": Other({"name": "quantisation", "bits": 4, "rounding": "stochastic"}),
    "noise 0.003, labels unknown": Other(noise(0.003), "recovered"),
    "noise 0.003, Poisson sample": Other(noise(0.003), "recovered", "poisson"),
    **{f"noise 0.003, sum of {k} clients": Other(noise(0.003), summed=k) for k in (2, 5, 10)},
    "noise 0.0001, one local epoch": Other(noise(1e-4), epochs=1),
    **{f"noise {sigma}, 5 local epochs": Other(noise(sigma), epochs=5) for sigma in (0.0003, 0.001)},
    **{f"noise 0.05, the same rows in {k} rounds": Other(noise(0.05), rounds=k) for k in (1, 4, 16)},
}
ONLY = ("defense",)  # what `Options.only` may name
QUICK = ("rows clipped at 0.5, noise 0.003", "half pruned")


def run(options: Options) -> Iterator[Row]:
    """Rows for each table and defense, as they are measured."""
    names = [name for name in (QUICK if options.quick else OTHER) if options.wants(defense=name)]
    if not names:
        raise ValueError(f"--only: no such line; there are {', '.join(repr(f'defense={name}') for name in OTHER)}")
    for source in options.data or ("fair",):
        for name in names:
            yield from measured(options, source, name, options.seeds or (SUMS if OTHER[name].summed else 1))


def measured(options: Options, source: str, name: str, seeds: int) -> Iterator[Row]:
    """Rows of one defense, over 4 clients x `seeds` batches, or `seeds` sums."""
    other = OTHER[name]
    rows, parties = (OF_A_SUM, other.summed) if other.summed else (ROWS, PARTIES)
    config = under(settings(options, source, "published", other.labels, rows, seeds), other)
    attacks = ("posterior", "tableak_fedavg" if other.epochs else "tableak", NAME)
    work = partial(one_case, config, attacks=attacks)
    if other.epochs or other.rounds:
        work = partial(work, federation=partial(train_on_few, rows=ROWS))
    parts = list(each(work, cases(config), options.jobs))
    setting = {"B": rows, "defense": name, "labels": other.labels, "parties": parties, "seeds": seeds}
    yield from of_attacks("defended_other", dataset_name(source), setting, parts, seeds if other.summed else 4 * seeds)


def under(config: Config, other: Other) -> Config:
    """The same configuration with another defense, batches drawn in another way, and sums of clients."""
    plain = config.in_force()
    plain |= {"defense": [other.defense], "training": [{**t, "sampling": other.sampling} for t in plain["training"]]}
    if other.epochs:
        local = {"batch_size": ROWS // 2, "local_epochs": other.epochs, "learning_rate": RATE}
        plain["training"] = [{"algorithm": "fedavg", "rounds": 1, **local}]
    if other.rounds:
        whole = {"rounds": other.rounds, "batch_size": 0, "learning_rate": RATE_OF_ROUNDS}
        plain["training"] = [t | whole for t in plain["training"]]
    if other.summed:
        plain["partition"] = [{**p, "parties": other.summed} for p in plain["partition"]]
        for training in plain["training"]:
            del training["weighting"]  # an option of plain aggregation
            training["aggregation"] = "secure-aggregation"
    return Config.model_validate(plain)
