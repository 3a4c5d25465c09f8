"""The engine of TabLeak: its cost per iteration beside the same optimisation done plainly, and how that cost grows.

*Plainly* is how the published implementation works: one restart at a time, the candidate's gradient by autograd, the
objective's by a second pass through it. Both run in one process on one thread, by turns, from the same starting points,
so the speed-up is a ratio within one run. `accuracy` is the mean over the restarts, without pooling, of each.

The engine is not compiled: on Adult, `torch.compile` (2.13, one thread) of a whole iteration made it 1.09, 0.96 and
0.89 times as fast at B = 8, 32 and 128. There 1,500 iterations take 2, 9 and 36 s of processor time, and compiling took
27 to 42 s.

Where there is an accelerator, it is measured beside the processor: the same iterations, by the clock, and the column of
table 6 that belongs to the table (without one: Adult's batch sizes), as published, 50 clients with a batch each under
one network, from the view to the claims.
"""

import math
import multiprocessing
import resource
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leakledger.attacks.base import AuxiliaryKnowledge, RecordsClaim, claims_in
from leakledger.attacks.gradient.matching.initialisation import initial_variables
from leakledger.attacks.gradient.matching.layers import Affine, GramLayer, matching_layer
from leakledger.attacks.gradient.tableak.tableak import AS_PUBLISHED, TabLeak
from leakledger.attacks.observed.gradients import find_gradients
from leakledger.attacks.observed.tabular import Rows, StructuralPrior
from leakledger.attacks.observed.update import ObservedUpdate
from leakledger.audit.benchmarks.base import Options, Row, dataset_name
from leakledger.audit.benchmarks.devices import accelerator, clock_of, on
from leakledger.audit.benchmarks.gradients import figure
from leakledger.audit.benchmarks.tableak import METRICS, PUBLISHED, settings
from leakledger.audit.case import Case, cases
from leakledger.audit.cells import Cells
from leakledger.audit.config import Config
from leakledger.audit.federate import federate
from leakledger.audit.granted import granted_knowledge
from leakledger.audit.scoring.records import measure
from leakledger.audit.truth import Truth
from leakledger.preprocess.models import as_tensors, forward, layer_shapes, mean_loss
from leakledger.preprocess.secret import PUBLIC_MASTER
from leakledger.preprocess.views import FeatureLayout, ModelSpec, View

SIZES = (8, 16, 32, 128)
RESTARTS, ITERATIONS, REPEATS = 30, 40, 5
TRAJECTORY = 4, 1500  # restarts and iterations whose accuracy is compared
BATCHES = 50  # of each size in a column of table 6
LARGE, LARGE_THERE = 1024, 4096  # sizes of the matrix product taken for the peak, here and on an accelerator
MIB = 2**20


class Bench:
    """Batches at a fresh network, one for each client, as the server sees them."""

    def __init__(self, config: Config, case: Case) -> None:
        self.truth = Truth(federate(config, case, PUBLIC_MASTER))
        public = self.truth.federated.public
        self.view: View = self.truth.federated.ledger.view([public.server], public)
        self.knowledge: AuxiliaryKnowledge = granted_knowledge(config, self.truth)
        self.victims = public.clients
        assert public.layout is not None
        assert public.model is not None
        self.layout: FeatureLayout = public.layout
        self.spec: ModelSpec = public.model

    def update(self, victim: str) -> ObservedUpdate:
        found = find_gradients(self.view, self.knowledge, victims=[victim])
        assert isinstance(found, list)
        return found[0]

    def attack(
        self, iterations: int, restarts: int = RESTARTS, victims: tuple[str, ...] = (), **options: Any
    ) -> RecordsClaim:
        chosen = victims or self.victims[:1]
        attack = TabLeak(**{**AS_PUBLISHED, **options}, restarts=restarts, iterations=iterations, victims=chosen)
        outcome = attack.run(self.view, self.knowledge)
        assert isinstance(outcome, list)
        claim: RecordsClaim = outcome[0]
        return claim

    def metrics(self, victim: str, categories: np.ndarray, numbers: np.ndarray) -> dict[str, float]:
        """In percent."""
        found = measure(Cells(categories, numbers), self.truth.batch(victim, 0), self.truth.deviations)
        return {metric: 100 * value for metric, value in found.items()}

    def accuracy(self, victim: str, categories: np.ndarray, numbers: np.ndarray) -> float:
        return self.metrics(victim, categories, numbers)["accuracy"]


def run(options: Options) -> Iterator[Row]:
    """Rows for each table: speed-up, cost, rate by batch size, of an accelerator too where there is one, then growth,
    accuracy, memory, and what the accelerator makes of a whole column.
    """
    torch.set_num_threads(1)
    device = accelerator(options.device)
    for source in options.data or ("fair",):
        sizes = SIZES[:2] if options.quick else SIZES
        for size in sizes:
            yield from speed(options, source, size)
            if device:
                yield from accelerated(options, source, size, device)
        if not options.quick:
            yield from growth(options, source)
            yield from trajectories(options, source)
            yield from memory(options, source)
            if device:
                yield from column(options, source, device)


def bench(options: Options, source: str, size: int, parties: int = 4) -> Bench:
    config = settings(options, source, "published", "known", size, 1, parties=parties)
    return Bench(config, cases(config)[0])


def speed(options: Options, source: str, size: int) -> Iterator[Row]:
    """Milliseconds per iteration of 30 restarts, engine and plain by turns; their ratio; the share of peak."""
    b = bench(options, source, size)
    plain = Plain(b.spec, StructuralPrior(b.layout, b.knowledge.bounds), b.update(b.victims[0]))
    b.attack(2), plain.optimise(0, 2)  # both run into caches once
    repeats = 2 if options.quick else REPEATS
    engine, plainly, peak = [], [], []
    for _ in range(repeats):
        engine.append(per_iteration(lambda n: b.attack(n)))
        plainly.append(RESTARTS * per_iteration(lambda n: plain.optimise(0, n), ITERATIONS))
        peak.append(matrix_rate())
    operations = operations_per_iteration(b.spec, size) * RESTARTS
    ratios = [p / e for p, e in zip(plainly, engine, strict=True)]
    dataset, setting = dataset_name(source), {"B": size, "restarts": RESTARTS, "widths": widths(b.spec)}
    share = [100 * operations / e / p for e, p in zip(engine, peak, strict=True)]
    note = f"of a {LARGE} x {LARGE} float32 product on one thread"
    yield figure("engine", dataset, setting, "speed-up over one restart at a time", ratios, None, "x")
    yield figure("engine", dataset, setting, "ms per iteration", [1e3 * e for e in engine], None, "ms")
    yield figure("engine", dataset, setting, "ms per iteration, plainly", [1e3 * p for p in plainly], None, "ms")
    yield figure("engine", dataset, setting, "share of peak arithmetic", share, None, "%", note)


def accelerated(options: Options, source: str, size: int, device: str) -> Iterator[Row]:
    """Milliseconds per iteration of 30 restarts on an accelerator, and the share of its peak."""
    b = bench(options, source, size)
    b.attack(2, device=device)
    repeats = 2 if options.quick else REPEATS
    each = [per_iteration(lambda n: b.attack(n, device=device), 10 * ITERATIONS, device) for _ in range(repeats)]
    operations = operations_per_iteration(b.spec, size) * RESTARTS
    setting = {"B": size, "restarts": RESTARTS, "widths": widths(b.spec), **on(device)}
    share = [100 * operations / e / matrix_rate(LARGE_THERE, device) for e in each]
    yield figure("engine", dataset_name(source), setting, "ms per iteration", [1e3 * e for e in each], None, "ms")
    note = f"of a {LARGE_THERE} x {LARGE_THERE} float32 product"
    yield figure("engine", dataset_name(source), setting, "share of peak arithmetic", share, None, "%", note)


def column(options: Options, source: str, device: str) -> Iterator[Row]:
    """For each size of table 6, what TabLeak as published has of 50 batches, and the seconds that it takes."""
    dataset, taken = dataset_name(source), 0.0
    published = PUBLISHED["known"].get(dataset, {})
    whole = {"attack": "published", "parties": BATCHES, "seeds": 1, **on(device)}
    for size in PUBLISHED["known"]["adult"]:
        b = bench(options, source, size, BATCHES)
        attack = TabLeak(**AS_PUBLISHED, device=device)
        begin = time.perf_counter()
        claims = claims_in(attack.run(b.view, b.knowledge))
        seconds = time.perf_counter() - begin
        taken += seconds
        found = [b.metrics(c.victim, c.categories, c.numbers) for c in claims if isinstance(c, RecordsClaim)]
        setting = {"B": size, **whole}
        for metric in (m for m in METRICS if any(m in f for f in found)):
            known = published.get(size) if metric == "accuracy" else None
            reached = [f[metric] for f in found] + [0.0] * (len(b.victims) - len(found))  # no claim, nothing right
            yield figure("engine", dataset, setting, metric, reached, known, "%")
        yield figure("engine", dataset, setting, "seconds for all batches", [seconds], None, "s")
    yield figure("engine", dataset, whole, "seconds for the column", [taken], None, "s")


def growth(options: Options, source: str) -> Iterator[Row]:
    """What doubling restarts and victims costs, and the power of B with which the cost grows."""
    dataset, small, large = dataset_name(source), bench(options, source, 32), bench(options, source, 128)
    pairs: dict[str, list[float]] = {"restarts": [], "victims": [], "B": []}
    for _ in range(REPEATS):
        base = per_iteration(lambda n: small.attack(n))
        pairs["restarts"].append(per_iteration(lambda n: small.attack(n, restarts=2 * RESTARTS)) / base)
        pairs["victims"].append(per_iteration(lambda n: small.attack(n, victims=small.victims[:2])) / base)
        pairs["B"].append(math.log(per_iteration(lambda n: large.attack(n)) / base, 4))
    yield figure("engine", dataset, {"B": 32}, "cost of twice the restarts", pairs["restarts"], None, "x")
    yield figure("engine", dataset, {"B": 32}, "cost of twice the victims", pairs["victims"], None, "x")
    yield figure("engine", dataset, {"B": "32 to 128"}, "power of B in the cost", pairs["B"], None, "")


def trajectories(options: Options, source: str) -> Iterator[Row]:
    """Accuracy of the best of the same few restarts, by the engine and plainly, for each victim."""
    b, (restarts, iterations) = bench(options, source, 8), TRAJECTORY
    prior = StructuralPrior(b.layout, b.knowledge.bounds)
    fast, slow = [], []
    for victim in b.victims:
        claim = b.attack(iterations, restarts, (victim,), pooling=False)
        fast.append(b.accuracy(victim, claim.categories, claim.numbers))
        rows = Plain(b.spec, prior, b.update(victim)).best(range(restarts), iterations)
        slow.append(b.accuracy(victim, rows.categories, rows.numbers))
    dataset, setting = dataset_name(source), {"B": 8, "restarts": restarts, "iterations": iterations}
    yield figure("engine", dataset, setting, "accuracy of the best restart", fast, None, "%")
    yield figure("engine", dataset, setting, "accuracy of the best restart, plainly", slow, None, "%")


def memory(options: Options, source: str) -> Iterator[Row]:
    """Peak memory of a process that attacks one batch of 128 rows, libraries and table included."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        before, peak = pool.apply(_peak, (options, source))
    dataset = dataset_name(source)
    yield figure("engine", dataset, {"B": 128}, "peak memory", [peak], None, "MiB")
    yield figure("engine", dataset, {"B": 128}, "peak memory before the attack", [before], None, "MiB")


def _peak(options: Options, source: str) -> tuple[float, float]:
    b = bench(options, source, 128)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    b.attack(20)
    return before * 1024 / MIB, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MIB


def per_iteration(optimise: Callable[[int], object], iterations: int = ITERATIONS, device: str = "cpu") -> float:
    """Seconds per iteration by the clock of `device`, without what a run costs before and after."""
    times, clock = [], clock_of(device)
    for n in (1, iterations + 1):
        begin = clock()
        optimise(n)
        times.append(clock() - begin)
    return (times[1] - times[0]) / iterations


def matrix_rate(size: int = LARGE, device: str = "cpu") -> float:
    """Operations per second of a large float32 matrix product: what the arithmetic limit is taken to be."""
    a, clock = torch.rand(size, size, device=device), clock_of(device)
    torch.mm(a, a)[0, 0].item()  # read, since an accelerator works on behind one's back
    begin = clock()
    for _ in range(5):
        last = torch.mm(a, a)
    last[0, 0].item()
    return 5 * 2 * size**3 / (clock() - begin)


def operations_per_iteration(spec: ModelSpec, batch: int) -> int:
    """Multiplications and additions of one restart's matrix products; element-wise work is not counted."""
    total = 0
    for index, (outputs, inputs) in enumerate(layer_shapes(spec)):
        product, gram = 2 * batch * inputs * outputs, 2 * batch * batch
        layer = Affine(torch.zeros(1, outputs, inputs), torch.zeros(1, 1, outputs))
        through = 2 * product if index else 0  # the backward pass and its reversal stop at the rows
        if isinstance(matching_layer(layer, layer, 1, batch), GramLayer):
            total += through + 4 * product + 2 * gram * (inputs + outputs)
        else:
            total += through + 5 * product
    return total


def widths(spec: ModelSpec) -> str:
    return "-".join(map(str, (spec.inputs, *spec.hidden, spec.outputs)))


class Plain:
    """TabLeak as it is written down: one restart, autograd through everything, Adam on signs."""

    def __init__(self, spec: ModelSpec, prior: StructuralPrior, update: ObservedUpdate) -> None:
        self.spec, self.prior, self.update = spec, prior, update
        self.weights = {n: w.requires_grad_() for n, w in as_tensors(update.weights).items()}
        self.observed = as_tensors(update.gradient)
        self.labels = torch.tensor(update.labels)
        tensors = (prior.spread, prior.centre, prior.matrix, prior.offset)
        self.spread, self.centre, self.matrix, self.offset = (torch.tensor(t, dtype=torch.float32) for t in tensors)

    def optimise(self, restart: int, iterations: int) -> np.ndarray:
        """Units (B, size) that restart ends at."""
        shape = self.update.rows, self.prior.size
        first = initial_variables(0, self.update, shape, range(restart, restart + 1)).T
        z = torch.tensor(first.copy(), dtype=torch.float32, requires_grad=True)
        adam = torch.optim.Adam([z], lr=0.06)
        for _ in range(iterations):
            adam.zero_grad()
            (z.grad,) = torch.autograd.grad(self.loss(self.units(z) @ self.matrix + self.offset), [z])
            z.grad.sign_()
            adam.step()
        return self.units(z).detach().numpy().astype(np.float64)

    def best(self, restarts: range, iterations: int) -> Rows:
        """The projected rows of the restart that they bring nearest to the gradient."""
        ends = [self.prior.project(self.optimise(i, iterations)) for i in restarts]
        encoded = [torch.tensor(self.prior.encode(rows), dtype=torch.float32) for rows in ends]
        return ends[int(np.argmin([self.loss(x).item() for x in encoded]))]

    def units(self, z: Tensor) -> Tensor:
        logits = self.spread * z + self.centre
        parts: dict[int, Tensor] = {int(p): torch.sigmoid(logits[:, [p]]) for p in self.prior.positions}
        parts |= {s.start: torch.softmax(logits[:, s], 1) for s in self.prior.choices}
        return torch.cat([parts[k] for k in sorted(parts)], 1)

    def loss(self, rows: Tensor) -> Tensor:
        outputs = forward(self.spec, self.weights, rows)
        mean = mean_loss(self.spec, outputs, self.labels)
        gradient = torch.autograd.grad(mean, list(self.weights.values()), create_graph=True)
        pairs = list(zip(gradient, (self.observed[n] for n in self.weights), strict=True))
        inner = torch.stack([(g * s).sum() for g, s in pairs]).sum()
        squares = (torch.stack([t.square().sum() for t in column]).sum() for column in zip(*pairs, strict=True))
        return 1 - inner / torch.stack(list(squares)).sqrt().prod()
