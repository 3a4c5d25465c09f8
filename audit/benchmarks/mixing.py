"""Whether chains that are started at the true rows have forgotten them by the time they are sampled.

Setting as in `defended`, 8 rows under loud noise. The diagnostic *from the truth* there burns as few sweeps as the
attack does. Where chains move slowly, what they then tell is partly the truth that they were given and not what the
update tells, and no attack could reach it. So more and more sweeps are burnt here before as many as ever are sampled:
figures that fall are of chains that had not forgotten, and the last ones are nearest to what an adversary could have.
Clusters are client x seed.
"""

from collections.abc import Iterator
from functools import partial

from leakledger.audit.benchmarks.base import Options, Row, dataset_name
from leakledger.audit.benchmarks.defended import METRICS, diagnosed
from leakledger.audit.benchmarks.gradients import figure
from leakledger.audit.benchmarks.tableak import settings
from leakledger.audit.case import Case, cases
from leakledger.audit.config import Config
from leakledger.audit.federate import federate
from leakledger.audit.granted import granted_knowledge
from leakledger.audit.pool import each
from leakledger.audit.truth import Truth
from leakledger.preprocess.secret import PUBLIC_MASTER

SIZE = 8
SIGMAS = (0.02, 0.05)
BURNT, QUICK = (8, 160, 480), (8, 32)


def run(options: Options) -> Iterator[Row]:
    """Rows for each table, strength of noise and number of sweeps burnt, as they are measured."""
    for source in options.data or ("fair",):
        for sigma in SIGMAS[-1:] if options.quick else SIGMAS:
            for burnt in QUICK if options.quick else BURNT:
                yield from measured(options, source, sigma, burnt, options.seeds or 1)


def measured(options: Options, source: str, sigma: float, burnt: int, seeds: int) -> Iterator[Row]:
    """Rows of one strength and number of sweeps, over 4 clients x `seeds` batches."""
    config = settings(options, source, "published", "known", SIZE, seeds, sigma)
    parts = list(each(partial(one_case, config, burnt), cases(config), options.jobs))
    setting = {"attack": "from the truth", "burnt": burnt, "B": SIZE, "sigma": sigma, "parties": 4, "seeds": seeds}
    for metric in METRICS:
        reached = [100 * m[metric] for part in parts for m in part]
        yield figure("mixing", dataset_name(source), setting, metric, reached, None, "%")


def one_case(config: Config, burnt: int, case: Case) -> list[dict[str, float]]:
    """Metrics of what such chains claim of each batch of one federation."""
    truth = Truth(federate(config, case, PUBLIC_MASTER))
    return diagnosed(config, case, truth, granted_knowledge(config, truth), burnt)
