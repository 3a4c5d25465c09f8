"""FLFE: what its messages give away, and what its judges are worth beside those that try models.

*Columns*: a table is cut into three devices of two columns each, and the protocol is run with all transformations
judged useful. For each set of transformations, way of drawing masks and coalition: how well the columns of the devices
outside are known, where a column of which nothing is claimed counts as 0. *Bytes* of one loop by step. *Judges*:
trained on a corpus that the table is no part of; half of the records judge every candidate, F1 is measured by ten-fold
cross-validation on the other half, of the model whose gains the judges learnt from (logistic regression) and of a
random forest, as published. Separated feature engineering has the transformations of one column only; model
evaluation accepts a candidate where the base model gains as much as the judges' labels demand.

Published are 1,600 bytes of a sketch of two classes and 200 bins (section 5.2), and the times of table 2. Its table 1
and figure 10 are of tables that cannot be had here. *Exchange*: what one exchange takes under masks and under
encryption, where the paper has Paillier in place of CKKS.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks import ATTACKS
from leakledger.attacks.base import AuxiliaryKnowledge, ColumnClaim, claims_in
from leakledger.audit.benchmarks.base import Options, Row, dataset_name
from leakledger.audit.benchmarks.encoders_cost import read_whole
from leakledger.audit.intervals import interval
from leakledger.audit.scoring.columns import column_agreement
from leakledger.preprocess.features.devices import DeviceColumns, LabelColumn
from leakledger.preprocess.features.flfe import FLFE, PublicColumns
from leakledger.preprocess.features.judge_cache import trained_judges
from leakledger.preprocess.features.judge_corpus import CorpusTable, corpus, generated, usable
from leakledger.preprocess.features.judge_training import JudgeTraining
from leakledger.preprocess.features.judges import Judges, open_judges, usefulness
from leakledger.preprocess.features.model_evaluation import Base, f1, improvement
from leakledger.preprocess.features.sketch import Sketch, scaled, sketch
from leakledger.preprocess.features.transformations import BINARY, UNARY
from leakledger.preprocess.features.usefulness import Candidate, defined
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.transport.simulated import Simulated
from leakledger.preprocess.views import PublicFacts

DEVICES, EACH, RECORDS, LABEL = ("P1", "P2", "P3"), 2, 400, "label"
SETS: Mapping[str, tuple[str, ...]] = {
    **{t: (t,) for t in BINARY},
    "sum and difference": ("sum", "difference"),
    "product and quotient": ("product", "quotient"),
    "all of two columns": BINARY,
    **{t: (t,) for t in UNARY},
}
QUICK_SETS = ("sum", "product", "sum and difference", "product and quotient", "log")
MASKS: Mapping[str, Mapping[str, Any]] = {
    "fresh": {},
    "fresh, size 2": {"mask_size": 2.0},
    "fresh, either sign": {"mask_signs": True},
    "reused": {"masks": "reused"},
}
COALITIONS = (("server",), ("P3",), ("server", "P3"), ("P1", "P3"))
TABLES = ("breast_cancer", "fair", "randhie")
MARGIN = 0.01  # of F1: what counts as kept
BASES: tuple[Base, ...] = ("logistic-regression", "random-forest")
EXCHANGES = ("masked", "encrypted", "encrypted-at-server")
GENERATING = {"masked": 11.4, "encrypted": 2293.3, "encrypted-at-server": 2293.3}  # ms, table 2; CKKS is no Paillier
METHODS = ("FLFE", "separated", "model evaluation")
TIMES = {"FLFE": 29.9, "model evaluation": 1070.8}  # ms, table 2
Found = tuple[Mapping[Base, float], int, float]
"""F1 of each base model with the features of a method, how many these are, and the seconds that each candidate took."""
Method = Literal["FLFE", "separated", "model evaluation"]


def run(options: Options) -> Iterator[Row]:
    """Rows of columns and bytes for each table, then of judges for each table that has classes."""
    sources = options.data or (TABLES[:1] if options.quick else TABLES)
    tables = {dataset_name(s): t for s in sources if (t := usable(dataset_name(s), read_whole(options, s)))}
    for name, table in tables.items():
        yield from columns(options, name, table)
    for name, table in list(tables.items())[:1]:
        yield from exchanges(options, name, table)
    for name, table in tables.items():
        yield from judged(options, name, table)
    for table in generated(seed=1)[: 0 if options.quick else 14]:
        yield from judged(options, f"{table.name} (held out)", table)


# What is given away ---------------------------------------------------------------------------------------------


def columns(options: Options, name: str, table: CorpusTable) -> Iterator[Row]:
    """What each coalition knows of columns outside, and the bytes of a loop."""
    seeds = options.seeds or (1 if options.quick else 3)
    for title in QUICK_SETS if options.quick else SETS:
        for way, masks in MASKS.items():
            if SETS[title][0] in UNARY and way != "fresh":
                continue  # nothing is masked
            runs = [exchanged(table, {"transformations": SETS[title], **masks}, seed) for seed in range(seeds)]
            for who in COALITIONS:
                yield from known_rows(
                    name, {"transformations": title, "masks": way, "observers": "+".join(who)}, runs, who
                )
    yield from bytes_of(name, exchanged(table, {"transformations": BINARY, "bins": 200}, 0))


@dataclass(frozen=True)
class Exchanged:
    """One run, and what its devices held."""

    fed: Simulated
    public: PublicFacts
    held: Mapping[str, DeviceColumns]
    labels: LabelColumn

    def known(self, observers: Sequence[str]) -> tuple[float, float]:
        """Mean correlation and exact share over all columns of devices outside."""
        inputs = {d: h.to_plain() for d, h in self.held.items()}
        view = self.fed.ledger.view(observers, self.public, inputs=inputs, coins=self.fed.party_secrets())
        claims = claims_in(ATTACKS["feature_exchange"]().run(view, AuxiliaryKnowledge()))
        told = {(c.party, c.feature): c for c in claims if isinstance(c, ColumnClaim)}
        found = [
            column_agreement(told[d, f], x) if (d, f) in told else None
            for d, h in self.held.items()
            if d not in observers
            for f, x in h.columns.items()
        ]
        means = (np.mean([getattr(a, n) if a else 0.0 for a in found]) for n in ("correlation", "exact"))
        correlation, exact = map(float, means)
        return correlation, exact


def exchanged(table: CorpusTable, flfe_options: Mapping[str, Any], seed: int, useful: bool = True) -> Exchanged:
    """Runs FLFE on six columns of some records, without zeros, where there are six such. Judges find every
    transformation `useful`, or none.
    """
    coins = np.random.default_rng(seed)
    rows = coins.permutation(len(table.labels))[:RECORDS]
    chosen = table.columns[rows]
    whole = chosen[:, [bool((x != 0).all() and np.ptp(x) > 0) for x in chosen.T]]
    needs_whole = bool({"quotient", "log"} & set(flfe_options["transformations"]))
    usable_columns = whole if needs_whole or whole.shape[1] >= len(DEVICES) * EACH else chosen
    picked = usable_columns[:, coins.permutation(usable_columns.shape[1])[: len(DEVICES) * EACH]]
    ids = tuple(f"record {i}" for i in range(len(rows)))
    parts = np.array_split(np.arange(picked.shape[1]), len(DEVICES))
    held = {
        d: DeviceColumns(ids, {f"column {k}": picked[:, k] for k in own}) for d, own in zip(DEVICES, parts, strict=True)
    }
    labels = LabelColumn(ids, (table.labels[rows] == np.bincount(table.labels).argmax()).astype(np.int64))
    flfe = FLFE(**{"bins": 16, "threshold": 0.5, "ranges": "feature", **flfe_options})
    fed = Simulated(DEVICES, secret=pinned("benchmark flfe", seed, repr(flfe)))
    agreed = PublicColumns({d: tuple(h.columns) for d, h in held.items()}, 2, DEVICES[0])
    located = {d: fed.at(d, h) for d, h in held.items()}
    judges = open_judges(flfe.tried, flfe.bins)
    judges = judges if useful else {t: replace(p, b2=-p.b2) for t, p in judges.items()}
    flfe.run(fed, agreed, located, fed.at(DEVICES[0], labels), fed.at(fed.server, judges))
    schema = {"categorical": [], "numeric": [f for h in held.values() for f in h.columns], "target": LABEL}
    return Exchanged(fed, PublicFacts(DEVICES, "server", schema=schema, features=flfe.method(agreed)), held, labels)


def known_rows(name: str, setting: Mapping[str, str], runs: Sequence[Exchanged], who: Sequence[str]) -> Iterator[Row]:
    found = np.array([r.known(who) for r in runs])
    for k, metric in enumerate(("columns known, correlation", "columns known, exact values")):
        low, high = interval(found[:, k]) or (None, None)
        yield Row(
            "flfe",
            name,
            setting,
            metric,
            100 * float(found[:, k].mean()),
            _percent(low),
            _percent(high),
            None,
            "%",
            len(runs),
        )


def _percent(value: float | None) -> float | None:
    """Of a share, which lies between none and all."""
    return None if value is None else 100 * min(max(value, 0.0), 1.0)


def bytes_of(name: str, one: Exchanged) -> Iterator[Row]:
    """Bytes of a sketch as numbers, and of all messages of a loop by step, headers included."""
    arrays = next(m.payload.arrays for m in one.fed.ledger if m.topic == "flfe.sketch")
    setting = {"bins": 200, "records": len(one.labels.labels)}
    yield Row("flfe", name, setting, "sketch", float(arrays.nbytes), None, None, 1600.0, "bytes", 1)
    for step in ("judge", "generate"):
        by_loop: dict[int, int] = {}
        for m in one.fed.ledger:
            if m.step == step:
                by_loop[m.round] = by_loop.get(m.round, 0) + m.wire_size
        yield Row(
            "flfe",
            name,
            setting,
            f"loop, {step}",
            float(np.mean([*by_loop.values()])),
            None,
            None,
            None,
            "bytes",
            len(by_loop),
        )


def exchanges(options: Options, name: str, table: CorpusTable) -> Iterator[Row]:
    """Processor time of all parties and bytes of one exchange of two columns, without judging, by transformation."""
    for exchange in EXCHANGES if find_spec("tenseal") else EXCHANGES[:1]:
        for how in (h for h in BINARY if (exchange, h) != ("encrypted-at-server", "quotient")):
            took, sent = [], []
            for seed in range(options.seeds or (1 if options.quick else 3)):
                asked = {"transformations": (how,), "exchange": exchange}
                runs, seconds = [], []
                for useful in (True, False):
                    begun = process_time()
                    runs.append(exchanged(table, asked, seed, useful))
                    seconds.append(process_time() - begun)
                run = runs[0]
                exchanges = [m for m in run.fed.ledger if m.step == "generate"]
                loops = len({m.round for m in exchanges})
                took.append((seconds[0] - seconds[1]) / loops)
                sent.append(sum(m.wire_size for m in exchanges) / loops)
            setting = {"exchange": exchange, "transformations": how, "records": len(run.labels.labels)}
            yield _row(name, setting, "exchange", took, "ms", 1000, GENERATING[exchange])
            yield _row(name, setting, "exchange, bytes", sent, "bytes", 1)


# What judges are worth ------------------------------------------------------------------------------------------


def training(options: Options) -> JudgeTraining:
    return JudgeTraining(samples=24, crops=2, folds=3, records=200, epochs=30) if options.quick else JudgeTraining()


def judged(options: Options, name: str, table: CorpusTable) -> Iterator[Row]:
    """F1 without and with the features of each method, how many they are, and the time that judging one takes."""
    settings = training(options)
    without = () if table.generated else (name,)
    folder = Path(options.corpus) if options.corpus else None
    judges = trained_judges(settings, corpus(folder, without), Path(options.cache) if options.cache else None)
    results: dict[str, list[Found]] = {m: [] for m in ("none", *METHODS)}
    for seed in range(options.seeds or (1 if options.quick else 3)):
        first, second = halves(table, seed)
        for method in results:
            made, seconds = ([], 0.0) if method == "none" else chosen(method, *first, judges, settings, seed)
            valid = tuple(c for c in made if defined(c, *second))
            scores = {base: f1(*second, base, 10, seed, valid) for base in BASES}
            results[method].append((scores, len(valid), seconds))
    kind = {"held out": "generated" if table.generated else "real"}
    for method, found in results.items():
        yield from worth(name, {**kind, "method": method}, found, [scores for scores, *_ in results["none"]])


def worth(
    name: str, setting: Mapping[str, str], found: Sequence[Found], without: Sequence[Mapping[Base, float]]
) -> Iterator[Row]:
    """Rows of a method that found features, over seeds, beside the F1 `without` any."""
    none = setting["method"] == "none"
    for base in BASES:
        own, plain = (np.array([f1s[base] for f1s in each]) for each in ([f[0] for f in found], without))
        yield _row(name, setting, f"F1, {base}", own, "%", 100)
        if not none:
            yield _row(name, setting, f"gain in F1, {base}", own - plain, "points", 100)
            yield _row(name, setting, f"improved or kept, {base}", own - plain >= -MARGIN, "%", 100)
    if not none:
        yield _row(name, setting, "features added", [count for _, count, _ in found], "", 1)
        took = [seconds for *_, seconds in found]
        yield _row(name, setting, "time per candidate", took, "ms", 1000, TIMES.get(setting["method"]))


def _row(
    name: str,
    setting: Mapping[str, Any],
    metric: str,
    values: Any,
    unit: str,
    factor: float,
    published: float | None = None,
) -> Row:
    found = factor * np.asarray(values, np.float64)
    low, high = interval(found) or (None, None)
    return Row("flfe", name, setting, metric, float(found.mean()), low, high, published, unit, len(found))


Half = tuple[NDArray[np.float64], NDArray[np.int64]]


def halves(table: CorpusTable, seed: int) -> tuple[Half, Half]:
    """Two halves of at most twice `RECORDS` records, each class divided evenly, and of at most six columns."""
    coins = np.random.default_rng(seed)
    rows = coins.permutation(len(table.labels))[: 2 * RECORDS]
    order = rows[np.argsort(table.labels[rows], kind="stable")]
    own = table.columns[:, np.sort(coins.permutation(table.columns.shape[1])[: len(DEVICES) * EACH])]
    one, other = order[::2], order[1::2]
    return (own[one], table.labels[one]), (own[other], table.labels[other])


def candidates(features: int) -> list[Candidate]:
    """Every transformation of a column, and of two columns of different devices."""
    device = np.arange(features) % len(DEVICES)
    pairs = [(a, b) for a in range(features) for b in range(a + 1, features) if device[a] != device[b]]
    return [*((t, (k,)) for k in range(features) for t in UNARY), *((t, p) for p in pairs for t in BINARY)]


def chosen(
    method: str,
    columns: NDArray[np.float64],
    labels: NDArray[np.int64],
    judges: Judges,
    settings: JudgeTraining,
    seed: int,
) -> tuple[list[Candidate], float]:
    """The candidates that a method finds useful, and the seconds that it takes for each."""
    varied = [k for k in range(columns.shape[1]) if _sketch_of(columns[:, k], labels, settings) is not None]
    tried = [c for c in candidates(columns.shape[1]) if set(c[1]) <= set(varied) and defined(c, columns, labels)]
    if method == "separated":
        tried = [c for c in tried if len(c[1]) == 1]
    begun = perf_counter()
    if method == "model evaluation":
        base, folds = settings.base, settings.folds
        gains = [improvement(how, columns[:, list(of)], labels, base, folds, seed) for how, of in tried]
        made = [c for c, gain in zip(tried, gains, strict=True) if gain >= settings.threshold]
    else:
        made = [c for c in tried if score(c, columns, labels, judges, settings) >= FLFE().threshold]
    return made, (perf_counter() - begun) / max(len(tried), 1)


def score(
    c: Candidate, columns: NDArray[np.float64], labels: NDArray[np.int64], judges: Judges, settings: JudgeTraining
) -> float:
    """The judge's score, from sketches made for it alone, as a loop makes them."""
    sketches = [_sketch_of(columns[:, k], labels, settings) for k in c[1]]
    return usefulness(judges, c[0], *(s for s in sketches if s is not None))


def _sketch_of(column: NDArray[np.float64], labels: NDArray[np.int64], settings: JudgeTraining) -> Sketch | None:
    try:
        classes = max(int(labels.max()) + 1, 2)
        return scaled(sketch("a column", column, labels, classes, settings.bins, settings.ranges), settings.scale)
    except ValueError:
        return None
