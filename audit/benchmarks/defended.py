"""An adversary who knows the defense against one who does not: noised gradients of an untrained 100-100 network.

Setting as in `tableak`, pipeline `published`, labels known, Gaussian noise of deviation `sigma` on every entry. All
rows of the table but those of the batches are granted, as by default. The posterior makes its prior of them and of what
the client told the server for encoder and scaler: the values that it holds and how often, means and deviations. Rows
with the `setting.attack` *posterior* and *tableak* are attacks; *prior only* is the best guess of an adversary who is
granted as much and sees no message (`baselines`); *without the update* is what the posterior would claim if it had seen
the messages before training alone, so that what preparing the data has told is not taken for what the update adds.
*From the truth* is no attack but a diagnostic: the posterior's chains, under the same prior, started at the true rows
and sampled alike. Where *posterior* ends below it, its search has not found the rows; where they agree, the noise hides
the rest.

`categories said 0.x` and `numbers said 0.x` are the shares of right cells among those that the posterior says are right
with a probability in [0.x, 0.x + 0.1), and the note has what it said of them on average: calibrated, both agree within
the interval. Clusters are client x seed; cells of one batch are right or wrong together, so few batches with such cells
make a wide interval. `--only B=32` keeps to one size, `--only sigma=0.01` to one strength, `--only attack=posterior` to
one attack.

After them come the rows of `dp_sgd`, which is also a benchmark by itself: clipped rows under noise, beside their bound.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch

from leakledger.attacks.base import AuxiliaryKnowledge, RecordsClaim, claims_in
from leakledger.attacks.gradient.inversion import informed
from leakledger.attacks.gradient.posterior import Posterior
from leakledger.attacks.gradient.posterior.chains import Chains
from leakledger.attacks.gradient.posterior.claim import claimed
from leakledger.attacks.gradient.posterior.evidence import channel, evidence_of
from leakledger.attacks.gradient.posterior.network import RowGradients
from leakledger.attacks.gradient.posterior.posterior import BURNT
from leakledger.attacks.gradient.posterior.tempering import sampled
from leakledger.attacks.observed.gradients import find_gradients
from leakledger.attacks.observed.tabular import StructuralPrior
from leakledger.attacks.observed.update import ObservedUpdate
from leakledger.audit.benchmarks import dp_sgd
from leakledger.audit.benchmarks.base import Options, Row, dataset_name
from leakledger.audit.benchmarks.devices import clock_of, each_device, on
from leakledger.audit.benchmarks.finished import each_unfinished
from leakledger.audit.benchmarks.gradients import figure, in_percent
from leakledger.audit.benchmarks.tableak import settings
from leakledger.audit.benchmarks.without_update import NAME, without_update
from leakledger.audit.case import Case, cases
from leakledger.audit.cells import Cells
from leakledger.audit.config import Config
from leakledger.audit.federate import Federated, federate
from leakledger.audit.granted import attempts, granted_knowledge, make_attack
from leakledger.audit.intervals import interval
from leakledger.audit.records import Trial, plural
from leakledger.audit.scoring import score
from leakledger.audit.scoring.records import compare, measure
from leakledger.audit.truth import Truth
from leakledger.preprocess.secret import PUBLIC_MASTER, generator

SIGMAS = (0.001, 0.003, 0.01, 0.02, 0.05)
SIZES: dict[int, tuple[float, ...]] = dict.fromkeys((8, 32, 1, 128), SIGMAS)
QUICK: dict[int, tuple[float, ...]] = {8: (0.003, 0.02)}
METRICS = ("accuracy", "exact_rows", "categorical_accuracy", "numeric_accuracy")
PRIOR = ("accuracy", "exact_rows")
CLIENTS = 4
TRUTH = "from the truth"
PLAYED = ("posterior", "tableak", NAME, TRUTH)
ONLY = ("B", "sigma", "attack")  # what `Options.only` may name
RESUMES = True  # from batches that are finished


class CellSaid(NamedTuple):
    """Of one claimed cell: how probable the attack finds it, whether it is right, whether it is a category."""

    probability: float
    right: bool
    category: bool


class Measured(NamedTuple):
    """Of one case, or one batch of it: trials and seconds per batch of each attack, metrics of each batch from the
    truth, and what the posterior says of the cells of each batch.
    """

    trials: dict[str, list[Trial]]
    seconds: dict[str, float]
    from_truth: list[dict[str, float]]
    calibration: list[list[CellSaid]]


class Batch(NamedTuple):
    """One client's batch in one federation of a setting, and what is played on it."""

    size: int
    sigma: float
    config: Config
    case: Case
    client: int
    attacks: tuple[str, ...]


def run(options: Options) -> Iterator[Row]:
    """Rows for each table, batch size and strength of noise, as they are measured."""
    for source in options.data or ("fair",):
        for there in each_device(options):
            yield from measured(there, source)
    if not options.quick and not options.only:
        yield from dp_sgd.run(options)


def measured(options: Options, source: str) -> Iterator[Row]:
    """Rows of each batch size and strength, over 4 clients x seeds batches. Batches of all settings share one pool."""
    seeds, parts = options.seeds or 1, defaultdict[tuple[int, float], list[Measured]](list)
    batches = [
        Batch(size, sigma, config, case, client, attacks)
        for size, sigmas in (QUICK if options.quick else SIZES).items()
        for sigma in sigmas
        for attacks in [tuple(a for a in PLAYED if options.wants(B=size, sigma=sigma, attack=a))]
        if attacks
        for config in [settings(options, source, "published", "known", size, seeds, sigma)]
        for case in cases(config)
        for client in range(CLIENTS)
    ]
    if not batches:
        raise ValueError(f"no setting is like that: {' '.join(f'--only {part}' for part in options.only)}")
    for batch, found in each_unfinished(one_batch, batches, Measured, options):
        done = parts[batch.size, batch.sigma]
        done.append(found)
        if len(done) == CLIENTS * seeds:
            yield from of_setting(options, source, batch, done)


def of_setting(options: Options, source: str, batch: Batch, parts: Sequence[Measured]) -> Iterator[Row]:
    """Rows of the setting that `batch` is one of, from all its batches."""
    dataset, seeds = dataset_name(source), len(parts) // CLIENTS
    setting = {"B": batch.size, "sigma": batch.sigma, "labels": "known", "parties": CLIENTS, "seeds": seeds}
    setting |= on(options.device)
    yield from of_attacks("defended", dataset, setting, parts, len(parts))
    for metric in METRICS if TRUTH in batch.attacks else ():
        reached = [100 * m[metric] for p in parts for m in p.from_truth]
        yield figure("defended", dataset, {"attack": TRUTH, **setting}, metric, reached, None, "%")
    said = [batch for p in parts for batch in p.calibration]
    yield from deciles("defended", dataset, {"attack": "posterior", **setting}, said)


def one_batch(batch: Batch) -> tuple[Batch, Measured]:
    """The attacks on one batch, which comes back with them: batches end in any order."""
    return batch, one_case(batch.config, batch.case, batch.attacks, batch.client)


def of_attacks(
    benchmark: str, dataset: str, setting: Mapping[str, Any], parts: Sequence[Measured], batches: int
) -> Iterator[Row]:
    """The attacks on so many `batches`, and what the best guess without an update gets of them."""
    for attack in parts[0].trials:
        own = {"attack": attack, **setting}
        trials = [t for p in parts for t in p.trials[attack]]
        for metric in METRICS:
            yield figure(benchmark, dataset, own, metric, in_percent(trials, metric, batches), None, "%")
        yield figure(benchmark, dataset, own, "seconds per batch", [p.seconds[attack] for p in parts], None, "s")
    for metric in PRIOR if parts[0].trials else ():
        first = [t for p in parts for t in next(iter(p.trials.values())) if t.metric == metric]
        chance = [100 * (t.baseline or 0.0) for t in first]
        yield figure(benchmark, dataset, {"attack": "prior only", **setting}, metric, chance, None, "%")


def deciles(
    benchmark: str, dataset: str, setting: dict[str, object], batches: Sequence[Sequence[CellSaid]]
) -> Iterator[Row]:
    """How many cells are right of those that the posterior gives about the same probability, by kind of cell."""
    for kind, category in (("categories", True), ("numbers", False)):
        for tenth in range(10):
            own = [
                [c for c in b if c.category == category and min(int(10 * c.probability), 9) == tenth] for b in batches
            ]
            own = [batch for batch in own if batch]
            if not own:
                continue
            cells = [c for batch in own for c in batch]
            said = 100 * float(np.mean([c.probability for c in cells]))
            share, low, high = share_right([sum(c.right for c in b) for b in own], [len(b) for b in own])
            note = (
                f"{plural(len(cells), 'cell')} of {plural(len(own), 'batch', 'batches')}, said {said:.1f} % on average"
            )
            metric = f"{kind} said {tenth / 10:.1f}"
            yield Row(benchmark, dataset, setting, metric, share, low, high, None, "%", len(own), note)


def share_right(right: Sequence[int], cells: Sequence[int]) -> tuple[float, float | None, float | None]:
    """In percent, how many of the `cells` of all batches are `right`, with an interval that has batches as clusters:
    the ratio of two means, whose error is that of what each batch has more right than that ratio (Cochran 1977, 6.3).
    """
    hits, of = np.asarray(right, np.float64), np.asarray(cells, np.float64)
    share = hits.sum() / of.sum()
    beyond = interval((hits - share * of) / of.mean())
    if beyond is None:
        return float(100 * share), None, None
    low, high = (float(np.clip(100 * (share + edge), 0, 100)) for edge in beyond)
    return float(100 * share), low, high


def in_public(config: Config, case: Case) -> Federated:
    """The federation of a case; its randomness can be had again by anybody."""
    return federate(config, case, PUBLIC_MASTER)


def one_case(
    config: Config,
    case: Case,
    attacks: Sequence[str],
    client: int | None = None,
    federation: Callable[[Config, Case], Federated] = in_public,
) -> Measured:
    """The `attacks`, some of an audit's and of `PLAYED`, on the batches of one federation, or on that of one `client`
    alone.
    """
    truth = Truth(federation(config, case))
    knowledge, attempted = granted_knowledge(config, truth), attempts(config, truth)
    federated = truth.federated
    victims = None if client is None else (federated.public.clients[client],)
    attempted = [a for a in attempted if victims is None or a[0] in victims]
    view = federated.ledger.view([federated.public.server], federated.public)
    coins = generator(federated.secrets[federated.public.server])
    trials, seconds, said = {}, {}, []
    for name in attacks:
        if name == TRUTH:
            continue
        configured = without_update(posterior(config, case)) if name == NAME else make_attack(name, config, case)
        attack = configured if victims is None else replace(configured, victims=victims)  # type: ignore[type-var]
        clock = clock_of(config.audit.device)
        start = clock()
        outcome = attack.run(view, knowledge)
        seconds[name] = (clock() - start) / len(attempted)
        draws = config.audit.baseline_draws
        trials[name] = score(attack, ("server",), outcome, knowledge, truth, attempted, coins, draws)
        said += [cells_said(c, truth) for c in claims_in(outcome) if isinstance(c, RecordsClaim)]
    starts = diagnosed(config, case, truth, knowledge, victims=victims) if TRUTH in attacks else []
    return Measured(trials, seconds, [metrics_of(claim, truth) for claim in starts], said)


def posterior(config: Config, case: Case) -> Posterior:
    """The attack as configured."""
    attack = make_attack("posterior", config, case)
    assert isinstance(attack, Posterior)
    return attack


def diagnosed(
    config: Config,
    case: Case,
    truth: Truth,
    knowledge: AuxiliaryKnowledge,
    burnt: int | None = None,
    victims: Sequence[str] | None = None,
) -> list[RecordsClaim]:
    """The claim `from_truth` of each batch, or of those of some `victims`; `burnt` as there."""
    federated = truth.federated
    view = federated.ledger.view([federated.public.server], federated.public)
    updates = find_gradients(view, knowledge, rounds=[0], victims=victims)
    own = posterior(config, case)
    assert isinstance(updates, list)
    return [from_truth(own, u, knowledge, truth, burnt) for u in informed(view, knowledge, updates)]


@torch.inference_mode()
def from_truth(
    attack: Posterior, update: ObservedUpdate, knowledge: AuxiliaryKnowledge, truth: Truth, burnt: int | None = None
) -> RecordsClaim:
    """The claim that chains make which start at the true rows: a diagnostic that no adversary has. The `update` is
    informed, so that their prior is that of the attack. So many sweeps are `burnt` before those that are sampled, as
    few as the attack burns unless said otherwise.
    """
    actual = truth.batch(update.victim, update.round)
    categorical, numeric = attack.cells(update, knowledge)
    cells = [*categorical, *numeric]
    sent = {name: g / update.stretched for name, g in update.gradient.items()}
    through = channel(update.mechanisms, sent, update.noise / update.stretched)
    assert not isinstance(through, str)
    evidence = evidence_of(update, through, attack.device)
    columns = [actual.categories[:, k] for k in range(len(categorical))]
    for k, cell in enumerate(numeric):
        assert cell.raw is not None
        columns.append(np.abs(cell.raw - actual.numbers[:, k, None]).argmin(1))
    index = torch.tensor(np.stack(columns, -1), device=attack.device).expand(attack.chains, -1, -1).clone()
    network = RowGradients(update.model, update.weights, attack.device)
    coins = torch.Generator(attack.device).manual_seed(attack.seed)
    burnt = attack.sweeps // BURNT if burnt is None else burnt
    samples = sampled(Chains(network, cells, evidence, index, coins), burnt, attack.sweeps)
    prior = StructuralPrior(update.layout, knowledge.bounds)
    return claimed(update, prior, categorical, numeric, samples, attack.tolerance)


def metrics_of(claim: RecordsClaim, truth: Truth) -> dict[str, float]:
    """How much of a batch is right in a claim."""
    actual = truth.batch(claim.victim, claim.round)
    return measure(Cells(claim.categories, claim.numbers), actual, truth.deviations)


def cells_said(claim: RecordsClaim, truth: Truth) -> list[CellSaid]:
    """What an attack says of each claimed cell; nothing where it gives no probabilities."""
    if claim.probability is None:
        return []
    matched = compare(Cells(claim.categories, claim.numbers), truth.batch(claim.victim, claim.round), truth.deviations)
    probability, count = claim.probability[matched.order], matched.categories.shape[1]
    return [
        CellSaid(float(p), bool(hit), k < count)
        for row, hits in zip(probability, matched.hits, strict=True)
        for k, (p, hit) in enumerate(zip(row, hits, strict=True))
    ]
