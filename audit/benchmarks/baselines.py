"""The baseline of records against adversaries that know nothing: the advantage that each of them seems to have.

Every adversary of `know_nothing.LIBRARY` claims the first batch of each of four clients with a table IID; its advantage
is taken over two baselines, with Student-t intervals over client x seed: `drawn cells`, the mean of batches drawn cell
by cell from the marginals, which was the baseline once, and `best prior` (`audit.scoring.best_prior`), which is it now.
Above 0 it is called a leak though nothing was seen. "baseline" rows are the accuracies of the baselines themselves.
"""

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from leakledger.attacks.base import AuxiliaryKnowledge
from leakledger.audit.benchmarks.base import Options, Row, dataset_name, partial_note, table_line
from leakledger.audit.benchmarks.know_nothing import LIBRARY, Target
from leakledger.audit.case import Case, cases
from leakledger.audit.clusters import ratio_interval
from leakledger.audit.config import Config
from leakledger.audit.federate import federate
from leakledger.audit.pool import each
from leakledger.audit.records import beside
from leakledger.audit.scoring.best_prior import best_prior
from leakledger.audit.scoring.records import measure, prior_only
from leakledger.audit.scoring.target_batches import population_without
from leakledger.audit.truth import Truth
from leakledger.preprocess.secret import PUBLIC_MASTER

VARIANTS = (("recovered", 8), ("recovered", 32), ("known", 8))  # knowledge of labels, rows of a batch
METRICS = ("accuracy", "worst_record")
OLD, NEW = "drawn cells", "best prior"
DRAWS, SEEDS = 20, 4
Measures = dict[tuple[str, str], list[float]]
"""(adversary or baseline, metric) -> one value per batch."""


def run(options: Options) -> Iterator[Row]:
    """Rows for each table, knowledge of labels, batch size, adversary and baseline."""
    for source in options.data or ("fair",):
        for labels, size in VARIANTS[:1] if options.quick else VARIANTS:
            yield from measured(options, source, labels, size)


def measured(options: Options, source: str, labels: str, size: int) -> Iterator[Row]:
    """Rows of one table and batch size."""
    seeds = options.seeds or (2 if options.quick else SEEDS)
    config = settings(options, source, labels, size, seeds)
    parts = list(each(partial(one_case, config), cases(config), options.jobs))
    values: Measures = defaultdict(list)
    for part in parts:
        for key, found in part.items():
            values[key] += found
    dataset = dataset_name(source)
    setting = {"B": size, "labels": labels, "parties": 4, "seeds": seeds}
    row = partial(Row, "baselines", dataset, published=None, note=partial_note(dataset))
    for metric in METRICS:
        for baseline in (OLD, NEW):
            prior = values[baseline, metric]
            about = {**setting, "baseline": baseline}
            mean = float(np.mean(prior))
            yield row(about, f"{metric} of the baseline", mean, None, None, unit="", n=len(prior))
            for name in LIBRARY:
                rooms = 1 - np.array(prior)
                if rooms.mean() > 0:  # near the prior Student-t covers well, and tells more than the wider interval
                    gain, limits = ratio_interval(np.subtract(values[name, metric], prior), rooms)
                    low, high = limits or (None, None)
                    who = {**about, "adversary": name}
                    yield row(who, f"advantage, {metric}", gain, low, high, unit="", n=len(prior))
    seconds = values["seconds", ""]
    yield row(setting, "seconds per batch", float(np.mean(seconds)), None, None, unit="s", n=len(seconds))


def one_case(config: Config, case: Case) -> Measures:
    """Every adversary and both baselines on the first batch of every client."""
    truth = Truth(federate(config, case, PUBLIC_MASTER))
    found: Measures = defaultdict(list)
    for i, (victim, round) in enumerate(truth.federated.batches):
        actual = truth.batch(victim, round)
        of = population_without(truth, victim, round)
        known = AuxiliaryKnowledge({(victim, round): truth.labels(victim, round)})
        counts = of.counts(known.labels[victim, round]) if config.attacks.labels == "known" else None
        start = time.process_time()
        new = best_prior(actual, of, truth.deviations, counts, np.random.default_rng([case.seed, i, 0]), DRAWS)
        found["seconds", ""].append(time.process_time() - start)
        old = prior_only(actual, truth, np.random.default_rng([case.seed, i, 1]), DRAWS)
        target = Target(truth, of, victim, round, len(actual), counts)
        claims = {
            n: adversary(target, np.random.default_rng([case.seed, i, 2, k]))
            for k, (n, adversary) in enumerate(LIBRARY.items())
        }
        reached = {n: measure(c, actual, truth.deviations) for n, c in claims.items()}
        for name, values in {OLD: old.metrics, NEW: new.metrics, **reached}.items():
            for metric in METRICS:
                found[name, metric].append(values[metric])
    return dict(found)


def settings(options: Options, source: str, labels: str, size: int, seeds: int) -> Config:
    """The first batch of `size` rows of each of four clients, for each of `seeds` seeds."""
    return Config.model_validate(
        {
            "data": {"source": source, "schema": options.schema, "missing": "drop"},
            "preprocessing": {"encoder": "pooled", "scaler": "pooled"},
            "model": {"hidden": [8]},
            "training": {"algorithm": "fedsgd", "rounds": 1, "batch_size": size},
            "attacks": {"use": ["random_baseline"], "labels": labels},
            "audit": {"seeds": list(range(seeds))},
        }
    )


def markdown(rows: Sequence[Row]) -> str:
    """By table, batch size and labels: the best adversary against each baseline, and what the baselines reach."""
    head = ("table", "B", "labels", "metric", "drawn cells", "best against it", "best prior", "best against it")
    lines = [table_line(head), table_line(["---"] * len(head))]
    groups: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for r in rows:
        if "baseline" in r.setting:
            metric = r.metric.removeprefix("advantage, ").removesuffix(" of the baseline")
            groups[r.dataset, str(r.setting["B"]), r.setting["labels"], metric].append(r)
    for key, group in groups.items():
        cells: list[str] = []
        for baseline in (OLD, NEW):
            own = [r for r in group if r.setting["baseline"] == baseline]
            cells += [next(f"{r.measured:.3f}" for r in own if "adversary" not in r.setting), _strongest(own)]
        lines.append(table_line((*key, *cells)))
    return "\n".join(lines)


def _strongest(rows: Sequence[Row]) -> str:
    claimed = [r for r in rows if "adversary" in r.setting]
    if not claimed:
        return "–"
    best = max(claimed, key=lambda r: r.measured)
    return f"{best.setting['adversary']} {best.measured:+.2f}{beside(best.low, best.high, 2)}"
