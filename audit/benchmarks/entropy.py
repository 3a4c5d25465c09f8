"""Does TabLeak know when it is right? Accuracy beside entropy, of all cells and by bucket: tables 3, 4 and 14 to 20.

Setting as in `tableak`, labels known, pipeline `published`. Every accuracy has the prior's on the same cells below it.
`surest` is no figure of the paper: the cells of each batch that the attack is surest of. The paper gives buckets for
batches of 128 alone, and for one column of numbers its open ends; smaller batches are measured in the same buckets.
Its row *Random* draws one value per column for a whole batch, which is a different quantity from the prior here.

The published entropies of numbers at 128 are wider than the columns themselves (1.48 nats on Adult, a column has 1.42):
restarts whose numbers are free. Inside known bounds they agree more and are right more often. So `attack` is `default`,
the project's; `published`, the paper's with numbers inside their bounds; or, at 128, `published, free numbers`, the one
to compare.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from leakledger.attacks.gradient.tableak.tableak import AS_PUBLISHED
from leakledger.audit.benchmarks.base import Options, Row, dataset_name, partial_note
from leakledger.audit.benchmarks.gradients import attack_batches, figure
from leakledger.audit.benchmarks.tableak import settings
from leakledger.audit.case import cases
from leakledger.audit.clusters import ratio_interval
from leakledger.audit.intervals import interval
from leakledger.audit.pool import each
from leakledger.audit.records import HEADLINE, Bucket, CellDetail, Kind, SurestShare
from leakledger.audit.summary import FEWEST, cut

MEANS: dict[str, dict[Kind, dict[int, tuple[float, float]]]] = {  # accuracy in %, entropy: tables 14 to 16
    "adult": {
        "categorical": {8: (98.5, 0.15), 16: (97.2, 0.26), 32: (91.0, 0.40), 64: (83.2, 0.48), 128: (78.5, 0.53)},
        "numeric": {8: (90.9, -1.11), 16: (78.8, -0.11), 32: (59.2, 0.77), 64: (55.1, 1.21), 128: (55.7, 1.48)},
    },
    "german": {
        "categorical": {8: (100.0, 0.10), 16: (99.5, 0.25), 32: (93.0, 0.43), 64: (81.9, 0.56), 128: (78.2, 0.59)},
        "numeric": {8: (99.1, -1.38), 16: (89.1, -0.35), 32: (66.0, 0.60), 64: (57.5, 1.08), 128: (58.4, 1.30)},
    },
    "lawschool": {
        "categorical": {8: (99.8, 0.11), 16: (98.1, 0.24), 32: (93.4, 0.41), 64: (87.0, 0.55), 128: (83.5, 0.60)},
        "numeric": {8: (96.4, -1.77), 16: (87.1, -0.65), 32: (65.1, 0.18), 64: (57.7, 0.78), 128: (62.6, 1.07)},
    },
}
BUCKETS: dict[Kind, tuple[tuple[float | None, float | None], ...]] = {
    "categorical": ((0.0, 0.2), (0.2, 0.4), (0.4, 0.6), (0.6, 0.8), (0.8, 1.0)),
    "numeric": ((None, 0.72), (0.72, 1.16), (1.16, 1.6), (1.6, 2.04), (2.04, None)),
}
OF_128: dict[str, dict[Kind, tuple[tuple[float, float], ...]]] = {  # accuracy and share in %: tables 4, 18 to 20
    "adult": {
        "categorical": ((95.7, 8.1), (90.5, 23.4), (79.8, 27.7), (69.8, 29.2), (61.2, 11.6)),
        "numeric": ((72.7, 1.2), (65.5, 13.6), (56.4, 50.0), (51.1, 32.4), (41.8, 2.9)),
    },
    "german": {
        "categorical": ((98.1, 7.4), (92.5, 15.3), (83.3, 22.2), (71.6, 33.7), (66.0, 21.3)),
        "numeric": ((55.7, 1.2), (62.3, 28.1), (57.7, 56.4), (53.4, 13.2), (48.2, 0.2)),
    },
    "lawschool": {
        "categorical": ((95.5, 3.4), (92.1, 14.2), (88.0, 32.7), (81.2, 30.4), (70.7, 19.3)),
        "numeric": ((69.5, 20.7), (63.3, 35.1), (60.1, 32.9), (55.5, 10.8), (54.1, 0.5)),
    },
}
SIZES, LARGEST = (8, 16, 32, 128), 128  # the one size of which the paper gives buckets
ATTACKS: dict[str, tuple[Mapping[str, object], tuple[int, ...]]] = {  # options, batch sizes
    "default": ({}, SIZES),
    "published": (AS_PUBLISHED, SIZES),
    "published, free numbers": ({**AS_PUBLISHED, "sigmoid": False}, (LARGEST,)),
}
UNITS: dict[Kind, str] = {"categorical": "of its maximum", "numeric": "nats"}


def run(options: Options) -> Iterator[Row]:
    """Rows for each table, attack and batch size, as they are measured; half as many seeds at the largest."""
    for source in options.data or ("fair",):
        for attack, (_, sizes) in ATTACKS.items():
            for size in (8, 16) if options.quick else sizes:
                seeds = options.seeds or (1 if options.quick or size == LARGEST else 2)
                yield from measure(options, source, attack, size, seeds)


def measure(options: Options, source: str, attack: str, size: int, seeds: int) -> Iterator[Row]:
    """Rows of one batch size, over 4 clients x `seeds` batches."""
    config = settings(options, source, "published", "known", size, seeds, attack=ATTACKS[attack][0])
    measured = each(partial(attack_batches, config, "tableak"), cases(config), options.jobs)
    trials = [t for part, _ in measured for t in part if t.metric == HEADLINE["records"]]
    dataset = dataset_name(source)
    setting = {
        "B": size,
        "pipeline": "published",
        "labels": "known",
        "attack": attack,
        "parties": 4,
        "seeds": seeds,
    }
    table = EntropyTable(dataset, size, setting, [t.detail for t in trials if t.detail is not None])
    for kind in BUCKETS:
        if table.surest(kind, 1.0):
            yield from table.means(kind)
            yield from table.buckets(kind)
            yield from table.shares(kind)


@dataclass(frozen=True)
class EntropyTable:
    """The rows of one table and batch size; `details` has one entry per cluster."""

    dataset: str
    size: int
    setting: Mapping[str, Any]
    details: Sequence[CellDetail]

    def surest(self, kind: Kind, share: float) -> list[SurestShare]:
        return [s for d in self.details for s in d.surest if (s.kind, s.share) == (kind, share)]

    def means(self, kind: Kind) -> Iterator[Row]:
        """Accuracy and entropy of all cells: tables 3 and 14 to 16."""
        found = self.surest(kind, 1.0)
        accuracy, entropy = MEANS.get(self.dataset, {}).get(kind, {}).get(self.size, (None, None))
        yield from self._accuracy(f"{kind} accuracy", found, accuracy)
        values = [s.entropy for s in found if s.entropy is not None]
        low, high = interval(values) or (None, None)  # nats may be negative: no bounds
        mean, name, unit = sum(values) / len(values), f"{kind} entropy", UNITS[kind]
        yield Row("entropy", self.dataset, self.setting, name, mean, low, high, entropy, unit, len(values), self._note)

    def buckets(self, kind: Kind) -> Iterator[Row]:
        """Share of cells and their accuracy by entropy: tables 4 and 18 to 20."""
        known = OF_128.get(self.dataset, {}).get(kind) if self.size == LARGEST else None
        for k, (low, high) in enumerate(BUCKETS[kind]):
            inside = [[b for b in d.buckets if b.kind == kind and within(b, low, high)] for d in self.details]
            accuracy, share = known[k] if known else (None, None)
            name = f"entropy {words(low, high)}"
            cells = [sum(b.cells for b in found) for found in inside]
            whole = [sum(b.cells for b in d.buckets if b.kind == kind) for d in self.details]
            yield self._ratio(f"{kind} cells, {name}", cells, whole, share)
            if any(cells):
                correct = [sum(b.correct for b in found) for found in inside]
                prior = [sum(b.prior for b in found) for found in inside]
                yield self._ratio(f"{kind} accuracy, {name}", correct, cells, accuracy)
                yield self._ratio(f"{kind} accuracy, {name}, prior only", prior, cells, None)

    def shares(self, kind: Kind) -> Iterator[Row]:
        """Accuracy of the cells that the attack is surest of in each batch."""
        for share in sorted({s.share for d in self.details for s in d.surest} - {1.0}):
            yield from self._accuracy(f"{kind} accuracy, surest {share:.0%}", self.surest(kind, share), None)

    def _accuracy(self, name: str, found: Sequence[SurestShare], published: float | None) -> Iterator[Row]:
        mine, prior = [100 * s.value for s in found], [100 * s.baseline for s in found]
        yield figure("entropy", self.dataset, self.setting, name, mine, published, "%", self._note)
        yield figure("entropy", self.dataset, self.setting, f"{name}, prior only", prior, None, "%", self._note)

    def _ratio(self, name: str, parts: Sequence[float], wholes: Sequence[float], published: float | None) -> Row:
        """Over the clusters that have any of the whole; a few clusters give no interval."""
        some = [(p, w) for p, w in zip(parts, wholes, strict=True) if w]
        value, limits = ratio_interval([p for p, _ in some], [w for _, w in some])
        low, high = (None if x is None else 100 * x for x in cut("accuracy", limits))
        if len(some) < FEWEST:
            low, high = None, None
        mean, n = 100 * value, len(some)
        return Row("entropy", self.dataset, self.setting, name, mean, low, high, published, "%", n, self._note)

    @property
    def _note(self) -> str:
        return partial_note(self.dataset)


def within(bucket: Bucket, low: float | None, high: float | None) -> bool:
    """Whether a bucket, which may be finer, lies in the paper's one from `low` to `high`."""
    above = low is None or (bucket.low is not None and bucket.low >= low)
    return above and (high is None or (bucket.high is not None and bucket.high <= high))


def words(low: float | None, high: float | None) -> str:
    """A bucket as the paper's tables name it."""
    if low is None:
        return f"up to {high:g}"
    return f"above {low:g}" if high is None else f"{low:g} to {high:g}"
