"""Whether chains that are started at the true rows have forgotten them by the time they are sampled.

Settings as in `defended`, of those where the attack stays behind such chains. The diagnostic *from the truth* there
burns as few sweeps as the attack does. Where chains move slowly, what they then tell is partly the truth that they were
given and not what the update tells, and no attack could reach it. So more and more sweeps are burnt here before as many
as ever are sampled: figures that fall are of chains that had not forgotten, and the last ones are nearest to what an
adversary could have.

What they say of cells (`categories said 0.x` and `numbers said 0.x`, as in `defended`) tells the prior from the search:
chains that start at the truth lack no mode that holds it, so where these too are surer than they are right, real rows
are not like the prior. Clusters are client x seed. `--only B=32`, `--only sigma=0.01` and `--only burnt=160` keep to
some.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from leakledger.audit.benchmarks.base import Options, Row, dataset_name
from leakledger.audit.benchmarks.defended import METRICS, CellSaid, cells_said, deciles, diagnosed, metrics_of
from leakledger.audit.benchmarks.finished import each_unfinished
from leakledger.audit.benchmarks.gradients import figure
from leakledger.audit.benchmarks.tableak import settings
from leakledger.audit.case import Case, cases
from leakledger.audit.config import Config
from leakledger.audit.federate import federate
from leakledger.audit.granted import granted_knowledge
from leakledger.audit.truth import Truth
from leakledger.preprocess.secret import PUBLIC_MASTER

SIZES: dict[int, tuple[float, ...]] = {8: (0.02, 0.05), 32: (0.003, 0.01, 0.02, 0.05), 128: (0.001,)}
QUICK: dict[int, tuple[float, ...]] = {8: (0.05,)}
BURNT, QUICK_BURNT = (8, 160, 480), (8, 32)
CLIENTS = 4
ONLY = ("B", "sigma", "burnt")  # what `Options.only` may name
RESUMES = True  # from batches that are finished


class Batch(NamedTuple):
    """One client's batch in one federation of a setting."""

    size: int
    sigma: float
    burnt: int
    config: Config
    case: Case
    client: int


class Found(NamedTuple):
    """Of one batch: metrics of the claim, and what is said of each cell."""

    metrics: dict[str, float]
    said: list[CellSaid]


def run(options: Options) -> Iterator[Row]:
    """Rows for each table, batch size, strength of noise and number of sweeps burnt, as they are measured."""
    for source in options.data or ("fair",):
        yield from measured(options, source, options.seeds or 1)


def measured(options: Options, source: str, seeds: int) -> Iterator[Row]:
    """Rows of each setting, over 4 clients x `seeds` batches. Batches of all settings share one pool."""
    batches = [
        Batch(size, sigma, burnt, config, case, client)
        for size, sigmas in (QUICK if options.quick else SIZES).items()
        for sigma in sigmas
        for burnt in (QUICK_BURNT if options.quick else BURNT)
        if options.wants(B=size, sigma=sigma, burnt=burnt)
        for config in [settings(options, source, "published", "known", size, seeds, sigma)]
        for case in cases(config)
        for client in range(CLIENTS)
    ]
    if not batches:
        raise ValueError(f"no setting is like that: {' '.join(f'--only {part}' for part in options.only)}")
    parts = defaultdict[tuple[int, float, int], list[Found]](list)
    for batch, of_batch in each_unfinished(one_batch, batches, Found, options):
        done = parts[batch.size, batch.sigma, batch.burnt]
        done.append(of_batch)
        if len(done) == CLIENTS * seeds:
            yield from of_setting(dataset_name(source), batch, seeds, done)


def of_setting(dataset: str, batch: Batch, seeds: int, found: Sequence[Found]) -> Iterator[Row]:
    """Rows of the setting that `batch` is one of, from what is `found` of all its batches."""
    setting = {"attack": "from the truth", "burnt": batch.burnt, "B": batch.size, "sigma": batch.sigma}
    setting |= {"parties": CLIENTS, "seeds": seeds}
    for metric in METRICS:
        yield figure("mixing", dataset, setting, metric, [100 * f.metrics[metric] for f in found], None, "%")
    yield from deciles("mixing", dataset, setting, [f.said for f in found])


def one_batch(batch: Batch) -> tuple[Batch, Found]:
    """What such chains claim of one client's batch, which comes back with it: batches end in any order."""
    truth = Truth(federate(batch.config, batch.case, PUBLIC_MASTER))
    knowledge = granted_knowledge(batch.config, truth)
    victim = truth.federated.public.clients[batch.client]
    [claim] = diagnosed(batch.config, batch.case, truth, knowledge, batch.burnt, [victim])
    return batch, Found(metrics_of(claim, truth), cells_said(claim, truth))
