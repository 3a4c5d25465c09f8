"""How often verdicts and intervals are right, on simulated cluster scores: no federation runs, the deciding is real.

*coverage*: how often the 95 % interval of a mean holds it, for attacks of the kinds that Student-t alone gets wrong.
*null*: audits in which every attack only guesses; the share that is called "leaks" must stay at alpha or below.
*partial*: audits in which one party of four, one batch in ten or one column of eight leaks everything and the rest
nothing; the share that is called "no leak" must stay at alpha or below. All clusters and controls are as good as an
audit's can be, so that nothing but the statistics stands between the scores and the verdict.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from leakledger.audit.benchmarks.base import Options, Row
from leakledger.audit.clusters import mean_interval
from leakledger.audit.intervals import interval
from leakledger.audit.records import CaseRecord, CellDetail, Control, FeatureShare, Setting, Trial
from leakledger.audit.verdicts.policy import Policy
from leakledger.audit.verdicts.rulings import rulings

AUDITS, QUICK = 2_000, 100
BASELINE, SPREAD, DRAWS = 0.55, 0.06, 20  # of the prior: its mean, how its draws scatter, how many there were
PARTIES = 4

Floats = NDArray[np.float64]
Coins = np.random.Generator
Draw = Callable[[Coins, int], Floats]


def _guessing(coins: Coins, count: int) -> Floats:
    return BASELINE + SPREAD * coins.standard_normal(count)


def _failing(share: float) -> Draw:
    return lambda coins, count: np.where(coins.random(count) < share, 0.0, 1.0)


SCORES: Mapping[str, tuple[float, Draw]] = {
    "near the prior": (BASELINE, _guessing),
    "accuracy 0.90, skewed": (0.9, lambda coins, count: coins.beta(2.7, 0.3, count)),
    "perfect but for 5 % of batches": (0.95, _failing(0.05)),
    "perfect but for 10 % of batches": (0.9, _failing(0.1)),
    "one batch in ten perfect": (
        BASELINE + 0.1 * (1 - BASELINE),
        lambda coins, count: np.where(coins.random(count) < 0.1, 1.0, _guessing(coins, count)),
    ),
}
CLUSTERS = (5, 8, 16, 40)
GROUPS = ((2, 4), (2, 10), (5, 4), (10, 4))  # seeds, clusters of each
CORRELATION = 0.3  # of clusters of one seed


def run(options: Options) -> Iterator[Row]:
    """Coverage, then null audits, then partial leaks."""
    audits = QUICK if options.quick else AUDITS
    yield from _coverage(10 * audits if options.quick else 2 * audits)
    for settings in (1, 4, 10, 20):
        yield _share("null", {"settings": settings}, "leaks", audits, partial(_null, settings))
    for name in PARTIAL:
        for seeds in (2, 10, 40):
            setting = {"leak": name, "seeds": seeds}
            for verdict in ("leaks", "no leak"):
                yield _share("partial", setting, verdict, audits, partial(_partial, name, seeds))


def _coverage(times: int) -> Iterator[Row]:
    coins = np.random.default_rng(0)
    for name, (mean, draw) in SCORES.items():
        for n in CLUSTERS:
            found = [np.clip(draw(coins, n), 0, 1) for _ in range(times)]
            yield from _covered({"scores": name, "clusters": n}, mean, [(x, None) for x in found])
    for seeds, each in GROUPS:
        which = np.repeat(np.arange(seeds), each)
        shared = coins.standard_normal((times, seeds)) * np.sqrt(CORRELATION)
        own = coins.standard_normal((times, seeds * each)) * np.sqrt(1 - CORRELATION)
        found = list(BASELINE + SPREAD * (shared[:, which] + own))
        setting = {"scores": f"correlation {CORRELATION:g} within a seed", "clusters": f"{seeds} seeds x {each}"}
        yield from _covered(setting, BASELINE, [(x, which.tolist()) for x in found])


def _covered(
    setting: Mapping[str, object], mean: float, found: Sequence[tuple[Floats, Sequence[int] | None]]
) -> Iterator[Row]:
    """By Student-t over clusters alone, and by the interval that audits state."""
    ways = {
        "Student-t": [interval(x) for x, _ in found],
        "stated": [mean_interval(x, seeds, (0.0, 1.0)) for x, seeds in found],
    }
    for way, limits in ways.items():
        held = [low - 1e-12 <= mean <= high + 1e-12 for low, high in (x or (0.0, 0.0) for x in limits)]
        yield proportion("verdicts", {"part": "coverage", **setting, "interval": way}, "coverage", held)


def _share(
    part: str, setting: Mapping[str, object], verdict: str, audits: int, audit: Callable[[Coins], set[str]]
) -> Row:
    """In how many audits some ruling has this verdict."""
    held = [verdict in audit(np.random.default_rng([k, len(part)])) for k in range(audits)]
    return proportion("verdicts", {"part": part, **setting}, f'called "{verdict}"', held)


def proportion(benchmark: str, setting: Mapping[str, object], metric: str, held: Sequence[bool]) -> Row:
    """A share in percent with its exact interval (Clopper and Pearson 1934)."""
    low, high = stats.binomtest(int(sum(held)), len(held)).proportion_ci(method="exact")
    measured = 100 * float(np.mean(held))
    return Row(benchmark, "simulated", setting, metric, measured, 100 * low, 100 * high, None, "%", len(held))


def _null(settings: int, coins: Coins) -> set[str]:
    """Two seeds with four parties each, as configurations have by default; clusters of a seed are correlated."""
    records = []
    for name in range(settings):
        for seed in range(2):
            shift = SPREAD * np.sqrt(CORRELATION) * coins.standard_normal()
            values = BASELINE + shift + SPREAD * np.sqrt(1 - CORRELATION) * coins.standard_normal(PARTIES)
            records.append(_case(coins, f"s{name}", seed, values))
    return _verdicts(records)


COLUMNS = 8


def _leaking(whole: NDArray[np.bool_], coins: Coins) -> tuple[Floats, Floats]:
    """(parties,) accuracies of batches, some of them perfect; and by column, (parties, 8)."""
    values = np.where(whole, 1.0, _guessing(coins, PARTIES))
    return values, np.repeat(values[:, None], COLUMNS, 1)


def _one_column(coins: Coins) -> tuple[Floats, Floats]:
    columns = BASELINE + SPREAD * coins.standard_normal((PARTIES, COLUMNS))
    columns[:, 0] = 1.0
    return columns.mean(1), columns


PARTIAL: Mapping[str, Callable[[Coins], tuple[Floats, Floats]]] = {
    "one party of four": lambda coins: _leaking(np.arange(PARTIES) == 0, coins),
    "one batch in ten": lambda coins: _leaking(coins.random(PARTIES) < 0.1, coins),
    "one column of eight": _one_column,
}


def _partial(name: str, seeds: int, coins: Coins) -> set[str]:
    records = []
    for seed in range(seeds):
        values, columns = PARTIAL[name](coins)
        records.append(_case(coins, "s", seed, values, columns))
    return _verdicts(records)


def _verdicts(records: Sequence[CaseRecord]) -> set[str]:
    return {r.verdict for r in rulings(records, Policy())}


def _case(coins: Coins, name: str, seed: int, values: Floats, columns: Floats | None = None) -> CaseRecord:
    """A case in which one attack made claims about every party, and everything else held."""
    setting = Setting(name, "simulated", "iid", PARTIES, name, name, "none", "fedsgd", False)
    spreads = SPREAD * np.sqrt(coins.chisquare(DRAWS - 1, PARTIES) / (DRAWS - 1))
    baselines = BASELINE + SPREAD / np.sqrt(DRAWS) * coins.standard_normal(PARTIES)
    trials = tuple(
        Trial(
            "simulated",
            ("server",),
            "records",
            "accuracy",
            f"P{k + 1}",
            0,
            "scored",
            float(values[k]),
            float(baselines[k]),
            detail=None if columns is None else _detail(columns[k]),
            spread=float(spreads[k]),
            draws=DRAWS,
        )
        for k in range(PARTIES)
    )
    return CaseRecord(f"{name}-{seed}", setting, seed, trials, HELD)


HELD = tuple(Control("simulated", kind, 1.0, 0.0, 1.0, True, "simulated") for kind in ("leaky", "power"))


def _detail(columns: Floats) -> CellDetail:
    return CellDetail(tuple(FeatureShare(f"c{k}", "categorical", float(x), BASELINE) for k, x in enumerate(columns)))
