"""Exact attacks against FedSGD gradients of a 100-100 network: whole rows, and what is certified of them.

Setting as in `tableak`, pipeline `published`, batches without replacement. `span` and `spear` get no labels, and a
batch in which they abstain counts as recovering nothing; `portfolio` gets the labels for the rows that are left to
TabLeak. *Identical* rows have every category right and every number within 0.001 standard deviations. `published` is
TabLeak's mean accuracy in cells at that size, the best figure of that paper: another metric, set beside it for
orientation. Under Gaussian noise on the gradient nothing can be exact; there the portfolio is set beside TabLeak alone.

The network is untrained but for the rows with `rounds trained`: the gradients of the round after so many of FedSGD, at
a learning rate of 0.1.
"""

from collections.abc import Iterator
from functools import partial

from leakledger.audit.benchmarks.base import Options, Row, dataset_name
from leakledger.audit.benchmarks.gradients import attack_batches, figure, in_percent
from leakledger.audit.benchmarks.tableak import PUBLISHED, settings
from leakledger.audit.case import cases
from leakledger.audit.config import Config, Model, Preprocessing
from leakledger.audit.pool import each

METRICS = ("identical_rows", "verified_rows", "false_verified")
SIZES, LARGEST = (8, 16, 24, 32, 48), 48  # with one seed: where nothing is exact it takes half a minute a batch
NOISY, SIGMAS = 8, (0.001, 0.01)
TRAINED = ((50, 8), (200, 16))  # rounds of training before, and the batch size


def run(options: Options) -> Iterator[Row]:
    """Rows for each table, attack and batch size, as they are measured."""
    seeds = options.seeds or (1 if options.quick else 5)
    for source in options.data or ("fair",):
        for attack in ("span", "spear", "portfolio"):
            for size in SIZES[:1] if options.quick else SIZES:
                yield from measure(options, source, attack, size, 1 if size == LARGEST else seeds)
        for sigma in () if options.quick else SIGMAS:
            for attack in ("portfolio", "tableak"):
                yield from measure(options, source, attack, NOISY, min(seeds, 2), sigma)
        for trained, size in () if options.quick else TRAINED:
            for attack in ("span", "spear", "portfolio"):
                yield from measure(options, source, attack, size, min(seeds, 2), trained=trained)


def measure(
    options: Options,
    source: str,
    attack: str,
    size: int,
    seeds: int,
    sigma: float = 0.0,
    trained: int = 0,
    scaler: str = "",
    labels: str = "",
    **network: float | str,
) -> Iterator[Row]:
    """Rows of one attack and batch size, over 4 clients x `seeds` batches. `scaler`, if not that of the pipeline,
    scales numeric columns alone; `labels` are known to attacks that need them, unless it says "none"; `network` are
    options of `[model]`.
    """
    labels = labels or ("known" if attack in ("portfolio", "tableak") else "none")
    config = settings(options, source, "published", "recovered" if labels == "none" else labels, size, seeds, sigma)
    config = with_network(after(config, trained), scaler, **network)
    measured = list(each(partial(attack_batches, config, attack), cases(config), options.jobs))
    trials = [t for part, _ in measured for t in part]
    dataset = dataset_name(source)
    setting = {"attack": attack, "B": size, "pipeline": "published", "labels": labels, "parties": 4, "seeds": seeds}
    other: dict[str, float | str] = {"noise": sigma} if sigma else {}
    other |= {"rounds trained": trained} if trained else {}
    other |= {"pipeline": "0/1", "scaler": scaler} if scaler else {}
    other |= {name: value for name, value in network.items() if value != getattr(Model(), name)}
    setting = {**setting, **other}

    same = not other and labels == "known"  # as in the setting that the figures were published for
    published = PUBLISHED["known"].get(dataset, {}).get(size) if same else None
    for metric in METRICS[: 1 if attack == "tableak" else None]:
        yield figure("exact", dataset, setting, metric, in_percent(trials, metric, 4 * seeds), None, "%")
    yield figure("exact", dataset, setting, "accuracy", in_percent(trials, "accuracy", 4 * seeds), published, "%")
    yield figure("exact", dataset, setting, "seconds per batch", [s for _, s in measured], None, "s")


def after(config: Config, rounds: int) -> Config:
    """The same attacks, on the round after so many rounds of training."""
    training = [t.model_copy(update={"rounds": rounds + 1}) for t in config.training]
    return config.model_copy(
        update={"training": training, "attacks": config.attacks.model_copy(update={"rounds": [rounds]})}
    )


def with_network(config: Config, scaler: str, **network: float | str) -> Config:
    """The same attacks, on another network, by options of `[model]`, or behind another scaler of numeric columns."""
    model = config.model.model_copy(update=network)
    preprocessing = config.preprocessing
    if scaler:
        preprocessing = [Preprocessing(encoder="server-dictionary", scaler=scaler)]
    return config.model_copy(update={"model": model, "preprocessing": preprocessing})
