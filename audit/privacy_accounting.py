"""What a case guarantees by differential privacy: one epsilon over all that a client sends, or the step that has none.

Two units. *Record*: one training row of one client. *Client*: all training rows of one client. An epsilon is stated
where everything that depends on these rows is under noise of a known distribution with a bound that no data chose; a
single exact number beside it, or rows that are encoded by statistics of other rows, and there is none: then the steps
that have none are named, and no figure is given. A client's rows are its own, so over clients an epsilon is that of the
client with the fewest rows, whose share of a batch is the largest.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf

from leakledger.audit.case import Case
from leakledger.audit.config import Config
from leakledger.audit.config_features import VERTICAL
from leakledger.audit.control_federations import run_methods
from leakledger.audit.federate import (
    divided,
    frozen_methods,
    make_encoder,
    make_scaler,
    party_tables,
    whole_table,
)
from leakledger.audit.records import PrivacyAccount, PrivacyPart, Setting, plural
from leakledger.defenses.accounting.chain import NoGuarantee, mechanism_of
from leakledger.defenses.accounting.guarantee import LARGE_DELTA
from leakledger.defenses.accounting.mechanism import GaussianMechanism, Relation, Sampling, Unit
from leakledger.defenses.accounting.releases import Release, composed_epsilon, in_words, rounds_up
from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.messages import Disclosure, Payload
from leakledger.preprocess.method_errors import is_own
from leakledger.preprocess.training.base import validation_rows
from leakledger.preprocess.views import Mechanism, TrainingSpec

METHOD = "composed numerically by privacy loss distributions, rounded up (dp-accounting)"
RUNS = 3  # of a plugin's method, with other coins on the same made-up tables
UNITS: tuple[Unit, ...] = ("record", "client")
NO_NOISE = ("features: sketches, masked columns and results are sent without noise",)
UPDATES_AS_THEY_ARE = ("alignment: updates of the head are sent without noise",)
TOO_LITTLE = "so little noise that no epsilon can be computed"
SAMPLING: dict[str, Sampling] = {"poisson": "poisson", "fixed": "fixed-size"}
OUTSIDE = (
    "held-out rows: evaluation tells counts or errors over them as they are (evaluate.counts, evaluate.errors), and "
    "which rows are held out is taken as given",
    "people behind several units: of someone with k rows, or with rows at k clients, epsilon is up to k times that of "
    "one, at a larger delta",
    "how many rows a client has, where batches are a share of them: accountants take that share for public",
    "the rounding of updates: noise on them is drawn in floating point, which tells more than real numbers do "
    "(Mironov 2012)",
)


def privacy_accounts(
    config: Config, case: Case, schema: Schema, rows: Sequence[int], negotiated: Sequence[str] = ()
) -> tuple[PrivacyAccount, ...]:
    """The account of each unit, in the order of `UNITS`; `rows` are the clients' training rows, `negotiated` the facts
    of the schema that parties agree on by messages.

    Raises ValueError, one line, where noise is asked for and a range or a list of values is not declared.
    """
    if case.features is not None or case.alignment is not None:
        missing = NO_NOISE if case.features is not None else UPDATES_AS_THEY_ARE
        return tuple(PrivacyAccount(unit, "replace", config.audit.delta, None, missing=missing) for unit in UNITS)
    noised = (*make_encoder(case).mechanisms(schema), *make_scaler(case).mechanisms(schema))
    steps = tuple(_of_rows(config, case, negotiated))
    return tuple(_account(config, case, unit, noised, (min(rows), max(rows)), steps) for unit in UNITS)


def check_declarations(todo: Sequence[Case], schema: Schema) -> None:
    """Raises ValueError, one line, for a case whose noise needs a range or a list of values that is not declared."""
    for case in (c for c in todo if c.features is None and c.alignment is None):
        for method in (make_encoder(case), make_scaler(case)):
            method.mechanisms(schema)


def planned_accounts(
    config: Config, todo: Sequence[Case], tables: Mapping[str, Mapping[str, Table]]
) -> dict[Setting, tuple[PrivacyAccount, ...]]:
    """The accounts of each setting before anything runs, under the seed that leaves a client fewest rows; `tables` has
    each party's rows by partition, under one seed.
    """
    found, sizes = {}, client_sizes(config, todo)
    for case in todo:
        first = next(iter(tables[case.setting.partition].values()))
        if case.setting not in found:
            negotiated = first.basis.negotiated if first.basis else ()
            rows = sizes[case.setting.partition]
            found[case.setting] = privacy_accounts(config, case, first.schema, rows, negotiated)
    return found


def client_sizes(config: Config, todo: Sequence[Case]) -> dict[str, tuple[int, int]]:
    """Partition -> the training rows of its smallest and of its largest client, under all seeds."""
    found: dict[str, tuple[int, int]] = {}
    for case in {c.setting.partition: c for c in todo}.values():
        if case.partition.kind in ("files", VERTICAL):  # the same under every seed
            dealt = [party_tables(config, case)]
        else:
            table, seeds = whole_table(config, case.partition.column), config.audit.seeds
            dealt = [divided(replace(case, seed=seed), table) for seed in seeds]
        rows = [training_rows(config, len(own)) for parties in dealt for own in parties.values()]
        found[case.setting.partition] = (min(rows), max(rows))
    return found


def training_rows(config: Config, rows: int) -> int:
    """How many of a party's rows it trains on."""
    return rows - min(max(round(rows * config.data.test_fraction), 1), rows - 1)


def drawn_from(training: TrainingSpec, rows: int) -> int:
    """Of so many training rows, those that batches are drawn from: early stopping holds others back."""
    return rows if training.patience is None else rows - validation_rows(training.validation, rows)


def _account(
    config: Config, case: Case, unit: Unit, noised: Sequence[Mechanism], sizes: tuple[int, int], steps: Sequence[str]
) -> PrivacyAccount:
    """`sizes`: rows of the smallest client, for which epsilon is largest, and of the largest, which a delta allows to
    tell most of; `steps` that have no guarantee for any unit.
    """
    rows, most = sizes
    delta, relation = config.audit.delta, relation_of(case, unit)
    missing = [*steps, *(_of_client(case, noised, rows) if unit == "client" else ())]
    training: GaussianMechanism | None = None
    try:
        training = training_mechanism(config, case, unit, rows, relation)
    except NoGuarantee as error:
        missing.append(f"training: {error}")
    releases = [Release.of(m) for m in noised] if unit == "record" else []
    parts = list[PrivacyPart]()
    if releases:
        alone = composed_epsilon(releases, None, delta, relation)
        if alone < inf:
            parts.append(PrivacyPart("statistics", "; ".join(in_words(noised)), rounds_up(alone)))
        else:
            missing.append(f"statistics: {TOO_LITTLE}")
    if training is not None:
        alone = rounds_up(composed_epsilon([], training, delta, relation))
        parts.append(PrivacyPart("training", str(training), alone))
    trusted = [f"that {name} adds the noise that it states: it is a plugin's" for name in _taken_at_their_word(case)]
    outside = (*_of_delta(delta, most, unit), *trusted, *OUTSIDE)
    epsilon = inf if missing else composed_epsilon(releases, training, delta, relation)
    if epsilon == inf:
        missing = missing or [f"statistics and training together: {TOO_LITTLE}"]
        return PrivacyAccount(unit, relation, delta, None, "", tuple(parts), tuple(missing), outside)
    return PrivacyAccount(unit, relation, delta, rounds_up(epsilon), METHOD, tuple(parts), (), outside)


def _of_delta(delta: float, rows: int, unit: Unit) -> Iterator[str]:
    """What a large delta allows, of a client with so many `rows`."""
    if unit == "record" and delta * rows >= 1:
        yield (
            f"what delta {delta:g} allows: telling one of {plural(rows, 'row')} as it is, drawn by lot, at an epsilon "
            "of 0"
        )
    elif delta >= LARGE_DELTA:
        yield f"what delta {delta:g} allows: telling all rows as they are with that chance, at an epsilon of 0"


def relation_of(case: Case, unit: Unit) -> Relation:
    """Poisson samples of clipped rows are accounted for with a record more or less; all else with another one, since
    batches of a fixed size, row counts that are told and the messages of a client show that it is there.
    """
    coins = case.training.spec.sampling == "poisson" and _clips_rows(case)
    return "add-remove" if unit == "record" and coins else "replace"


def training_mechanism(config: Config, case: Case, unit: Unit, rows: int, relation: Relation) -> GaussianMechanism:
    """What the updates of a client with so many `rows` amount to, given what was told before them. Raises NoGuarantee,
    with the reason.
    """
    training, drawn = case.training.spec, SAMPLING[case.training.spec.sampling]
    rows = drawn_from(training, rows)
    size = rows if training.batch_size is None else training.batch_size
    by_chance = unit == "record" and _clips_rows(case) and size < rows  # clients take part in every round
    found = mechanism_of(
        case.defense.defense.mechanisms(),
        unit=unit,
        rounds=training.rounds,
        batch_size=size if drawn == "poisson" else min(size, rows),
        sampling=drawn if by_chance else "none",
        sampling_rate=size / rows if by_chance else 1.0,
        relation=relation,
    )
    if found.unit == "record" and (by := _by_own_rows(config, case)):
        raise NoGuarantee(
            f"rows are clipped one by one, and one record changes how others look ({', '.join(by)}), so nothing bounds "
            "what it moves"
        )
    return found


def _by_own_rows(config: Config, case: Case) -> list[str]:
    """What lets a client's rows depend on each other by more than is told; of a plugin's methods without noise, nothing
    is known of that.
    """
    by = ["imputation"] if config.data.missing == "impute" else []
    for name, method in (("encoder", make_encoder(case)), ("scaler", make_scaler(case))):
        if method.by_own_rows or (method.unprotected and not is_own(method)):
            by.append(f"{name} {method.name}")
    return by


def _clips_rows(case: Case) -> bool:
    return case.defense.defense.row_clip_norm is not None


def _of_rows(config: Config, case: Case, negotiated: Sequence[str]) -> Iterator[str]:
    """The steps before and beside the updates that have no guarantee, in words."""
    if negotiated:
        facts = ", ".join(negotiated)
        yield f"schema: what is not declared ({facts}) parties tell each other as it is (schema.local): declare it"
    if config.data.missing == "impute":
        yield "imputation: missing values become statistics of a client's own rows, so one record changes other rows"
    for name, method in (("encoder", make_encoder(case)), ("scaler", make_scaler(case))):
        if method.unprotected:
            yield f"{name}: {method.unprotected}"
    if _taken_at_their_word(case):
        yield from _without_noise(case)
    if case.training.spec.patience is not None:
        yield "early stopping: train.validation tells the loss over a client's validation rows as it is"


def _taken_at_their_word(case: Case) -> list[str]:
    """The methods of plugins that say of themselves that nothing of the rows is sent without noise."""
    return [m.name for m in (make_encoder(case), make_scaler(case)) if not is_own(m) and not m.unprotected]


def _without_noise(case: Case) -> Iterator[str]:
    """What clients say of their rows without noise, on made-up tables, in words: in a kind that is under none, or
    alike whatever their coins are.
    """
    methods, sent = frozen_methods(case), dict[tuple[type[Payload], str], list[list[bytes]]]()
    for coins in range(RUNS):
        made = run_methods(*methods, 0, coins)
        for m in (m for m in made.fed.ledger if m.sender in made.fed.clients):
            runs = sent.setdefault((m.kind, m.sender), [[] for _ in range(RUNS)])
            runs[coins].append(m.content or m.body)
    if exact := {kind.topic for kind, _ in sent if kind.discloses not in (Disclosure.NOISED, Disclosure.CONTROL)}:
        yield f"preprocessing: clients send {', '.join(sorted(exact))}, which is of no kind that is under noise"
    alike = {
        kind.topic
        for (kind, _), runs in sent.items()
        if kind.discloses is Disclosure.NOISED and all(run == runs[0] for run in runs)
    }
    if alike:
        yield f"preprocessing: the noise on {', '.join(sorted(alike))} is the same whatever a client's coins are"


def _of_client(case: Case, noised: Sequence[Mechanism], rows: int) -> Iterator[str]:
    """The steps that have a guarantee for a record at most."""
    training = case.training.spec
    if noised:
        topics = ", ".join(dict.fromkeys(str(m.parameters["topic"]) for m in noised))
        yield f"preprocessing: the noise on {topics} hides one record, not all rows of a client"
    all_rows = training.batch_size is None or training.batch_size > drawn_from(training, rows)
    if training.algorithm == "fedavg":
        yield "training: train.weights tells how many rows a client has"
    elif training.sampling == "fixed" and all_rows:
        yield "training: train.gradient tells how many rows a client has, since its batch has them all"
