"""What scaling under multiparty encryption costs, next to what its paper publishes.

Source: "Bridging Local and Federated Data Normalization in Federated Learning" (`preprocess/scalers/ppf_*`), tables III
to V: 10 clients, a ring of 2^15, inverses up to 2^30, epsilon 1e-4, on 6 cores. Totals are measured after a generation
of keys, which stands apart, at the default ring and range and at the published ones; steps, at the published ones
alone. One run each: seconds are by the clock of a machine that may be shared, so that those of the processor stand
beside them. `largest error` is relative to half of
the declared range. Bytes are what all parties send; published beside them is what table III's formulas give for fresh
ciphertexts of our size (`formula`).

Clients are in one process, one after another: their times add up, as they do not where each has a machine. Messages are
encoded, opened and checked, and not kept.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import log2
from time import process_time
from typing import Any, TypeVar

import numpy as np

from leakledger.audit.benchmarks.base import Options, Row, dataset_name
from leakledger.audit.benchmarks.encoders_cost import read_whole
from leakledger.audit.benchmarks.normalization_steps import steps, timed
from leakledger.audit.benchmarks.recording import Unrecorded
from leakledger.preprocess.crypto.threshold_ckks.parameters import parameters
from leakledger.preprocess.crypto.threshold_ckks.protocol import Collective, set_up
from leakledger.preprocess.data.partition import partition
from leakledger.preprocess.federation import At
from leakledger.preprocess.noise.columns import Ranges
from leakledger.preprocess.scalers.base import Matrix, PublicScaling
from leakledger.preprocess.scalers.encrypted import EncryptedScaler
from leakledger.preprocess.scalers.ppf_minmax import PpfMinMax
from leakledger.preprocess.scalers.ppf_robust import PpfRobust
from leakledger.preprocess.scalers.ppf_zscore import PpfZScore
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.views import Message

R = TypeVar("R")
PARTIES, MORE_PARTIES = 10, (20, 30, 50)
PUBLISHED = {"ppf-zscore": 44.0, "ppf-minmax": 253.0, "ppf-robust": 368.0}  # seconds, table V
DEFAULT, AS_PUBLISHED = (14, 20), (15, 30)  # log_degree, inverse_range


class Weighed(Unrecorded):
    """A federation that keeps no message and adds up what they weigh."""

    def __init__(self, parties: int, secret: bytes) -> None:
        super().__init__([f"P{i + 1}" for i in range(parties)], secret=secret)
        self.sent = 0

    def _seal(self, header: Message, content: bytes) -> bytes:
        body = super()._seal(header, content)
        self.sent += len(body)
        return body


@dataclass(frozen=True)
class Case:
    """Tables of as many clients, and the ranges of their columns."""

    dataset: str
    parties: int
    ranges: Ranges
    columns: tuple[Matrix, ...] = field(repr=False)


def run(options: Options) -> Iterator[Row]:
    """Key generation and the three scalers; the published parameters, steps and more clients where there is time."""
    sources = options.data or ("breast_cancer",)
    for source in sources:
        yield from totals(case_of(options, source, PARTIES), *DEFAULT)
        if not options.quick:
            yield from totals(case_of(options, source, PARTIES), *AS_PUBLISHED)
    if options.quick:
        return
    yield from steps(PARTIES, *AS_PUBLISHED)
    for source in sources:
        for parties in MORE_PARTIES:
            yield from totals(case_of(options, source, parties), *DEFAULT)


def case_of(options: Options, source: str, parties: int) -> Case:
    """Numeric columns, with ranges that are whole numbers around them."""
    tables = partition(read_whole(options, source), "iid", parties, np.random.default_rng(0))
    columns = tuple(t.numbers() for t in tables.values())
    whole, schema = np.vstack(columns), next(iter(tables.values())).schema
    bounds = zip(np.floor(whole.min(0)), np.ceil(whole.max(0)) + 1.0, strict=True)
    ranges = Ranges(schema.numeric, tuple((float(low), float(high)) for low, high in bounds))
    return Case(dataset_name(source), parties, ranges, columns)


def totals(case: Case, log_degree: int, inverse_range: int) -> Iterator[Row]:
    """Time of the keys; time, bytes and error of each scaler with them."""
    fed = Weighed(case.parties, pinned("normalization", case.parties, log_degree))
    at = {"parties": case.parties, "log_degree": log_degree}
    (seconds, busy), keys = costs(lambda: set_up(fed, log_degree))
    yield _row(case, {"scaler": "keys", **at}, "time", seconds, "s")
    yield _row(case, {"scaler": "keys", **at}, "processor time", busy, "s")
    yield _row(case, {"scaler": "keys", **at}, "bytes", fed.sent / 1e6, "MB")
    located = {c: fed.at(c, x) for c, x in zip(fed.clients, case.columns, strict=True)}
    for scaler in scalers(log_degree, inverse_range):
        fed.sent = 0
        (seconds, busy), found = costs(partial(_fitted, scaler, case.ranges, keys, located))
        setting = {"scaler": scaler.name, **at, "inverse_range": inverse_range}
        published = PUBLISHED[scaler.name] if case.parties == PARTIES else None
        yield _row(case, setting, "time", seconds, "s", published)
        yield _row(case, setting, "processor time", busy, "s")
        yield _row(case, setting, "bytes", fed.sent / 1e6, "MB", formula(scaler, case) / 1e6)
        yield _row(case, setting, "largest error", 100 * error(scaler.name, found, case), "%")


def costs(fn: Callable[[], R]) -> tuple[tuple[float, float], R]:
    """Seconds by the clock and of the processor, and what came of it."""
    began = process_time()
    seconds, result = timed(fn)
    return (seconds, process_time() - began), result


def scalers(log_degree: int, inverse_range: int) -> list[EncryptedScaler]:
    degree, rows = {"log_degree": log_degree}, {"inverse_range": inverse_range}
    kinds: tuple[tuple[type[EncryptedScaler], dict[str, Any]], ...] = (
        (PpfZScore, {**degree, **rows}),
        (PpfMinMax, degree),
        (PpfRobust, degree),
    )
    return [kind(**options) for kind, options in kinds]


def formula(scaler: EncryptedScaler, case: Case) -> float:
    """Bytes by table III, with K_inv = 13 and K_mm = 1 of section VI-A; a plaintext is half a ciphertext."""
    of, parties = parameters(scaler.log_degree), case.parties
    fresh = 2 * of.data_primes * of.degree * 8
    together = (parties - 1) * fresh  # a collective decryption or bootstrapping
    if isinstance(scaler, PpfZScore):
        return 3 * parties * fresh + 3 * together + 13 * together
    extremes = 2 * parties * fresh + 2 * together + 2 * parties * together
    if not isinstance(scaler, PpfRobust):
        return extremes
    rounds = log2(2 * case.ranges.half.max() / scaler.search_precision)
    search = rounds * (2 * parties * fresh + 2 * together + parties * fresh / 2)
    return parties * fresh + together + extremes + 3 * search


def _fitted(
    scaler: EncryptedScaler, ranges: Ranges, keys: Collective, located: Mapping[str, At[Matrix]]
) -> PublicScaling:
    scaler = replace(scaler, ranges=ranges)
    columns = scaler.checked(keys.fed, located)
    if isinstance(scaler, PpfRobust):
        return scaler.fit_with(keys, columns, keys.fed).public.value
    assert isinstance(scaler, PpfZScore | PpfMinMax)
    return scaler.fit_with(keys, columns).public.value


def error(name: str, found: PublicScaling, case: Case) -> float:
    """The largest distance of a shift or scale from the pooled one, in halves of the declared range. A quartile counts
    as right between the values next to it.
    """
    whole, half = np.vstack(case.columns), case.ranges.half
    assert found.shift is not None
    assert found.scale is not None
    if name == "ppf-robust":
        low, high = (np.percentile(whole, 50, axis=0, method=m) for m in ("lower", "higher"))
        return float((np.maximum(np.maximum(low - found.shift, found.shift - high), 0) / half).max())
    shift, scale = {
        "ppf-zscore": (whole.mean(0), whole.std(0)),
        "ppf-minmax": (whole.min(0), np.ptp(whole, axis=0)),
    }[name]
    return float(max((np.abs(found.shift - shift) / half).max(), (np.abs(found.scale - scale) / half).max()))


def _row(
    case: Case, setting: Mapping[str, Any], metric: str, value: float, unit: str, published: float | None = None
) -> Row:
    return Row("normalization", case.dataset, setting, metric, value, None, None, published, unit, 1)
