"""What recording costs: the same federation with its ledger and with one that keeps nothing.

Three runs of four parties: a case with 100 rounds of FedSGD on batches of 8 (preprocessing, training, evaluation; the
default model), its training alone, and `apsi` on the same tables. Runs with and without a ledger take turns in one
process, in processor time; each pair gives one ratio. Encoding, sealing and decoding stay in both, since values cross
as bytes either way. The hash chain is computed once, when somebody asks for its head, and stands apart.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from leakledger.audit.benchmarks.base import Options, Row, dataset_name
from leakledger.audit.benchmarks.encoders_cost import read_whole
from leakledger.audit.intervals import interval
from leakledger.preprocess.data.partition import partition
from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.encoders import ENCODERS
from leakledger.preprocess.federation import At
from leakledger.preprocess.pipeline import Encoded, Prepared, prepare
from leakledger.preprocess.scalers import SCALERS
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.training import ALGORITHMS
from leakledger.preprocess.training.base import train
from leakledger.preprocess.training.evaluation import evaluate
from leakledger.preprocess.transport.simulated import Simulated
from leakledger.preprocess.views import Message, ModelSpec, TrainingSpec

PARTIES, PAIRS, QUICK_PAIRS = 4, 15, 5
METRICS = ("time added", "time of the hash chain")
TRAINING = TrainingSpec(rounds=100, batch_size=8)

Play = Callable[[Simulated], object]


class Unrecorded(Simulated):
    """A federation that keeps no message."""

    def _carry(self, header: Message, content: bytes | None) -> bytes | None:
        assert content is not None
        return self._open(header, self._seal(header, content))


def run(options: Options) -> Iterator[Row]:
    """Three rows for each table: what recording adds to the time of each run, in percent."""
    pairs = QUICK_PAIRS if options.quick else PAIRS
    for source in options.data or ("fair",):
        tables = partition(read_whole(options, source), "divergent", PARTIES, np.random.default_rng(0))
        for name, play in {"case": _case(tables), "training": _training(tables), "apsi": _alignment(tables)}.items():
            measured = [_added(list(tables), name, play, pair) for pair in range(pairs)]
            setting = {"run": name, "parties": PARTIES}
            for metric, values in zip(METRICS, zip(*measured, strict=True), strict=True):
                yield figure("recording", dataset_name(source), setting, metric, values)


def figure(benchmark: str, dataset: str, setting: Mapping[str, object], metric: str, values: Sequence[float]) -> Row:
    """The mean in percent; what is added can be less than nothing, by chance."""
    low, high = interval(values) or (None, None)
    return Row(benchmark, dataset, setting, metric, float(np.mean(values)), low, high, None, "%", len(values))


def _added(clients: list[str], name: str, play: Play, pair: int) -> tuple[float, float]:
    """What the ledger adds to the time of one run, and what its hash chain takes, in percent of the run without one.

    Which kind is first changes from pair to pair.
    """
    kinds: list[type[Simulated]] = [Simulated, Unrecorded] if pair % 2 else [Unrecorded, Simulated]
    feds = {kind: kind(clients, secret=pinned("recording", name)) for kind in kinds}
    seconds = {kind: _seconds(partial(play, fed)) for kind, fed in feds.items()}
    chain = _seconds(lambda: feds[Simulated].ledger.head)
    return 100 * (seconds[Simulated] / seconds[Unrecorded] - 1), 100 * chain / seconds[Unrecorded]


def _seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def _case(tables: Mapping[str, Table]) -> Play:
    schema = next(iter(tables.values())).schema

    def play(fed: Simulated) -> object:
        located = {c: fed.at(c, t) for c, t in tables.items()}
        prepared = _prepared(fed, schema, located)
        model = _model(schema, prepared)
        trained = train(fed, ALGORITHMS["fedsgd"], model, TRAINING, prepared.train)
        return evaluate(fed, model, trained.model, prepared.test)

    return play


def _training(tables: Mapping[str, Table]) -> Play:
    """The training alone, on rows that were encoded before."""
    schema = next(iter(tables.values())).schema
    fed = Simulated(list(tables), secret=pinned("recording", "preprocessing"))
    prepared = _prepared(fed, schema, {c: fed.at(c, t) for c, t in tables.items()})
    rows: dict[str, Encoded] = {c: fed.own(x) for c, x in prepared.train.items()}
    model = _model(schema, prepared)

    def play(other: Simulated) -> object:
        return train(other, ALGORITHMS["fedsgd"], model, TRAINING, {c: other.at(c, x) for c, x in rows.items()})

    return play


def _prepared(fed: Simulated, schema: Schema, tables: Mapping[str, At[Table]]) -> Prepared:
    return prepare(fed, schema, tables, tables, ENCODERS["server-dictionary"](), SCALERS["federated-zscore"]())


def _model(schema: Schema, prepared: Prepared) -> ModelSpec:
    outputs = 1 if schema.task == "regression" else len(schema.classes)
    return ModelSpec(prepared.layout.value.width, outputs, task=schema.task)


def _alignment(tables: Mapping[str, Table]) -> Play:
    schema = next(iter(tables.values())).schema

    def play(fed: Simulated) -> object:
        return ENCODERS["apsi"]().fit(fed, schema, {c: fed.at(c, t) for c, t in tables.items()})

    return play
