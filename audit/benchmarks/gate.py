"""How often a gate is wrong, on simulated audits: no federation runs; from records to the exit code all is real.

*unchanged*: baseline and candidate are drawn alike; the share of gates that fail anywhere must stay at alpha or below,
for 5 to 64 clusters and 1 to 100 checks. *other seeds*: the same, where each run has seeds of its own and the prior has
other luck in each: how often a gate fails, and how often it passes a leak that grew by the margin, where every cluster
tells a share and where each tells everything or nothing. *power*: with as many clusters as `validate` plans, the share
of gates that pass when nothing changed, and that fail when the leak has grown by the margin. *few*: below five clusters
nothing passes, whatever they show.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product

import numpy as np
from numpy.typing import NDArray

from leakledger.audit.benchmarks.base import Options, Row
from leakledger.audit.benchmarks.verdicts import proportion
from leakledger.audit.gate.baseline import moved
from leakledger.audit.gate.decide import gate
from leakledger.audit.gate.differences import clusters_needed
from leakledger.audit.gate.policy import policy_of
from leakledger.audit.gate.snapshot import snapshot
from leakledger.audit.records import AuditRecord, CaseRecord, Control, DataFacts, RunFacts, Setting, Trial, Verdict

GATES, QUICK = 1_000, 60
PRIOR, ADVANTAGE, SPREAD = 0.5, 0.4, 0.1  # of a cluster: what the prior has right, what is got beyond it, its scatter
CORRELATION = 0.3  # of clusters of one seed
MARGIN, ALPHA, POWER = 0.05, 0.05, 0.8

Floats = NDArray[np.float64]
Coins = np.random.Generator
Draw = Callable[[Coins, tuple[int, ...]], Floats]


def _heavy(coins: Coins, shape: tuple[int, ...]) -> Floats:
    values: Floats = coins.standard_t(3, shape) / 3**0.5
    return values


def _rare(coins: Coins, shape: tuple[int, ...]) -> Floats:
    values: Floats = (np.asarray(coins.random(shape) < 0.1, np.float64) - 0.1) / 0.3
    return values


SHAPES: Mapping[str, Draw] = {  # of a cluster's advantage, with mean 0 and standard deviation 1
    "normal": lambda coins, shape: coins.standard_normal(shape),
    "heavy tails (t, 3 degrees)": _heavy,
    "one in ten stands out": _rare,
}
CLUSTERS = ((5, 1), (8, 1), (16, 1), (64, 1), (2, 8))  # seeds, clusters of each
CHECKS = (1, 10, 100)
LUCK = 0.3  # of a prior: how often it knows by itself what there is to know
SHARES = (0.0, 0.1, 0.4, 0.6, 0.9, 1.0)  # of what the prior leaves, that an attack gets in the mean
FORMS = {"a share": 20.0, "all or nothing": 0.0}  # of a cluster, and the sureness of its beta distribution
WIDE = 0.1  # margin of that part
PLANS = ((0.1, 0.05), (0.1, 0.1), (0.05, 0.05))  # scatter of a difference, margin
HELD = tuple(Control("simulated", kind, 1.0, 0.0, 1.0, True, "simulated") for kind in ("leaky", "power"))


def run(options: Options) -> Iterator[Row]:
    """Unchanged systems, then planned power, then too few clusters."""
    times = QUICK if options.quick else GATES
    for shape in SHAPES:
        for clusters in CLUSTERS:
            for checks in CHECKS:
                setting = {"part": "unchanged", "shape": shape, "clusters": _words(clusters), "checks": checks}
                few = max(times // checks, 100) if not options.quick else max(times // checks, 5)
                yield share(setting, "fail", few, partial(unchanged, shape, clusters, checks))
    for form, shares, seeds in product(FORMS, SHARES, (5, 10, 32)):
        setting = {"part": "other seeds", "of a cluster": form, "share": shares, "clusters": seeds}
        yield share(setting, "fail", times, partial(other_seeds, form, shares, 0.0, seeds))
        if shares <= 1 - WIDE:
            grown = {**setting, "grown by": WIDE}
            yield share(grown, "pass", times, partial(other_seeds, form, shares, WIDE, seeds))
    for scatter, margin in PLANS:
        for shift, status in ((0.0, "pass"), (margin, "fail")):
            planned = clusters_needed(scatter, margin, ALPHA, POWER) or 0
            setting = {"part": "power", "scatter": scatter, "margin": margin, "grown by": shift, "clusters": planned}
            yield share(setting, status, times, partial(changed, scatter, margin, shift, planned))
    for clusters in ((1, 1), (4, 1), (1, 4), (2, 2)):
        yield share({"part": "few", "clusters": _words(clusters)}, "pass", times, partial(identical, clusters))


def _words(clusters: tuple[int, int]) -> str:
    return f"{clusters[0]} seeds" if clusters[1] == 1 else f"{clusters[0]} seeds x {clusters[1]}"


def share(setting: Mapping[str, object], status: str, times: int, ends: Callable[[Coins], str]) -> Row:
    """How many of so many gates end with this status, in percent with its exact interval."""
    held = [ends(np.random.default_rng([k, 77])) == status for k in range(times)]
    return proportion("gate", setting, f"ends with {status}", held)


def unchanged(shape: str, clusters: tuple[int, int], checks: int, coins: Coins) -> str:
    """The status of a gate of a system that did not change, measured twice with other coins."""
    pair = [_advantages(SHAPES[shape], clusters, checks, coins) for _ in range(2)]
    return decided(pair[0], pair[1], MARGIN)


def changed(scatter: float, margin: float, shift: float, clusters: int, coins: Coins) -> str:
    """The status of a gate with one check, of a system whose advantage grew by `shift`."""
    before = np.full((1, clusters, 1), ADVANTAGE)
    return decided(before + shift + scatter * coins.standard_normal(before.shape), before, margin)


def other_seeds(form: str, got: float, growth: float, clusters: int, coins: Coins) -> str:
    """The status of a gate with one check, of an attack that gets this share of what lucky priors leave, and `growth`
    more in the candidate; each run has seeds of its own.
    """
    runs = [_lucky(form, q, clusters, first, coins) for q, first in ((got + growth, 0), (got, clusters))]
    return _status(runs[0], runs[1], WIDE)


def _lucky(form: str, got: float, clusters: int, first: int, coins: Coins) -> AuditRecord:
    """A record from the seed `first` on, of one cluster for each seed."""
    priors = (coins.random(clusters) < LUCK).astype(np.float64)
    if got in (0.0, 1.0):
        shares = np.full(clusters, got)
    elif sure := FORMS[form]:
        shares = coins.beta(sure * got, sure * (1 - got), clusters)
    else:
        shares = (coins.random(clusters) < got).astype(np.float64)
    seeds = range(first, first + clusters)
    values = priors + shares * (1 - priors)
    cases = [_case(0, seed, [v], p) for seed, v, p in zip(seeds, values, priors, strict=True)]
    return _run_of(cases, tuple(seeds))


def identical(clusters: tuple[int, int], coins: Coins) -> str:
    """The status where candidate and baseline agree to the last digit."""
    values = _advantages(SHAPES["normal"], clusters, 1, coins)
    return decided(values, values, MARGIN)


def _advantages(draw: Draw, clusters: tuple[int, int], checks: int, coins: Coins) -> Floats:
    """(checks, seeds, clusters of each) advantages; those of one seed are correlated."""
    seeds, each = clusters
    shared = draw(coins, (checks, seeds, 1)) * np.sqrt(CORRELATION if each > 1 else 0.0)
    own = draw(coins, (checks, seeds, each)) * np.sqrt(1 - CORRELATION if each > 1 else 1.0)
    advantages: Floats = ADVANTAGE + SPREAD * (shared + own)
    return advantages


def decided(candidate: Floats, baseline: Floats, margin: float) -> str:
    """What the gate says of these (checks, seeds, clusters) advantages."""
    return _status(_record(candidate), _record(baseline), margin)


def _status(candidate: AuditRecord, baseline: AuditRecord, margin: float) -> str:
    policy = policy_of({"gate": {"alpha": ALPHA, "power": POWER}, "leakage": [{"margin": margin}]})
    before = moved(snapshot(baseline), "simulation", "simulated", now="2026-01-01")
    return gate(candidate, policy, ("simulated", before)).status


def _record(advantages: Floats) -> AuditRecord:
    """One setting for each check, with a case for each seed."""
    checks, seeds, _ = advantages.shape
    values = PRIOR + (1 - PRIOR) * advantages
    cases = [_case(k, seed, values[k, seed], PRIOR) for k in range(checks) for seed in range(seeds)]
    return _run_of(cases, tuple(range(seeds)))


def _run_of(cases: Sequence[CaseRecord], seeds: tuple[int, ...]) -> AuditRecord:
    data = DataFacts("simulated", 1, 1, 1, 0, "y", "classification", (), "simulated", {})
    run_facts = RunFacts("simulated", {}, "", seeds, {"leakledger": "0"}, "cpu", data, (), (), instrument="simulated")
    return AuditRecord(run_facts, tuple(cases), (), (), Verdict("inconclusive", "", ""))


def _case(check: int, seed: int, values: Sequence[float] | Floats, prior: float) -> CaseRecord:
    setting = Setting(f"s{check:03}", "simulated", "iid", len(values), "e", "s", "none", "fedsgd", False)
    trials = tuple(
        Trial("simulated", ("server",), "records", "accuracy", f"P{k + 1}", 0, "scored", float(x), prior, level="value")
        for k, x in enumerate(values)
    )
    return CaseRecord(f"{setting.id}-{seed}", setting, seed, trials, HELD)
