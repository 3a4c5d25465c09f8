"""From trials to scores: means over clusters with their 95 % intervals (`audit.clusters`), and utility over seeds."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from leakledger.audit.bounds import above_bounds, mean_bound
from leakledger.audit.clusters import mean_interval, ratio_interval
from leakledger.audit.records import (
    CELLWISE,
    INFORMATION,
    Bucket,
    BucketScore,
    CaseRecord,
    CellDetail,
    CellScores,
    FeatureScore,
    FeatureShare,
    Kind,
    Score,
    Setting,
    SurestScore,
    SurestShare,
    Trial,
    UtilityScore,
    failed_controls,
    speaks,
)
from leakledger.audit.scoring.metrics import PERFECT

FEWEST = 3  # clusters (for utility: seeds) that say something about how far they scatter
KINDS: tuple[Kind, ...] = ("categorical", "numeric")
SHARES = {metric for metric, perfect in PERFECT.items() if perfect == 1.0} | {
    "auroc",
    "r2",
    "f1_without_features",
    "weighted_f1",
    "majority_f1",
    "majority_weighted_f1",
    "majority_accuracy",
    "false_verified",
    "false_exact",
    "size_coverage",
}
CORRELATIONS = {"correlation", "count_rank"}
BELOW_ZERO = {"r2", *(metric for metric in PERFECT if metric.endswith(INFORMATION))}  # what is at most 1, and no share
UTILITY_ORDER = (
    "f1",
    "weighted_f1",
    "f1_without_features",
    "features_made",
    "accuracy",
    "auroc",
    "r2",
    "mae",
    "majority_f1",
    "majority_weighted_f1",
    "majority_accuracy",
    "truncated",
    "input_width",
    "messages",
    "bytes",
    "rounds",
)


ROUNDED = 1e-6  # beyond what a figure can be


def limits_of(metric: str) -> tuple[float, float] | None:
    """What a metric can be where that is bounded on both sides."""
    if metric in CORRELATIONS:
        return -1.0, 1.0
    return (0.0, 1.0) if metric in SHARES - BELOW_ZERO else None


def cut(metric: str, limits: tuple[float, float] | None) -> tuple[float | None, float | None]:
    """An interval cut to the values that the metric can have: shares lie in [0, 1], correlations in [-1, 1], and errors
    are not negative.
    """
    if limits is None:
        return None, None
    low, high = limits
    least = -np.inf if metric in BELOW_ZERO else (limits_of(metric) or (0.0, np.inf))[0]
    return float(max(low, least)), float(min(high, 1.0) if metric in SHARES else high)


def value_interval(
    metric: str, values: Sequence[float], seeds: Sequence[int] | None = None
) -> tuple[float | None, float | None]:
    """The interval of the mean of a metric, within what the metric can be; of None below two units."""
    return cut(metric, mean_interval(values, seeds, limits_of(metric)))


def advantage_interval(
    metric: str, values: Sequence[float], baselines: Sequence[float], seeds: Sequence[int] | None = None
) -> tuple[float | None, float | None, float | None]:
    """Mean advantage over clusters with its interval: sum of gains over sum of rooms, its error linearised (ratio
    estimator), and no narrower than what an unseen cluster could change: that one is taken to lie between the prior and
    perfect, since an attack that fails there can still guess. It is at most 1, and at least what the least value of the
    metric gives, where that has one.

    None where the prior alone is perfect; an interval of None below two units.
    """
    prior, perfect = np.asarray(baselines, np.float64), PERFECT[metric]
    gains, room = np.subtract(values, prior), float(perfect - prior.mean())
    if abs(room) < 1e-12:
        return None, None, None
    advantage, limits = ratio_interval(gains, perfect - prior, seeds)
    if limits is None:
        return advantage, None, None
    low, high = limits
    bounds = limits_of(metric)
    if perfect == 1.0:
        wide = mean_interval(values, seeds, (min(float(prior.mean()), *values), 1.0))
        assert wide is not None
        low, high = min(low, (wide[0] - prior.mean()) / room), max(high, (wide[1] - prior.mean()) / room)
    if bounds is not None and bounds[1] == perfect:
        low = max(low, (bounds[0] - prior.mean()) / room)
    return advantage, float(low), float(min(high, 1.0))


def scores(records: Sequence[CaseRecord]) -> tuple[Score, ...]:
    """One score per setting x attack x observers x asset x metric x level; what made no claim has a row, too."""
    groups: dict[tuple[str, ...], list[tuple[int, Trial]]] = defaultdict(list)
    settings = {r.setting.id: r.setting for r in records}
    failed = dict.fromkeys(above_bounds(records), "more than no adversary can exceed: a failed control")
    failed |= dict.fromkeys(failed_controls(records), "a control of this attack failed")
    for record in records:
        for t in record.trials:
            who = "+".join(t.observers)
            key = (record.setting.id, t.attack, who, t.asset, t.metric, t.level, t.status, t.reason)
            groups[key].append((record.seed, t))
    return tuple(_score(settings[key[0]], trials, failed.get((key[0], key[1]), "")) for key, trials in groups.items())


def _score(setting: Setting, found: Sequence[tuple[int, Trial]], failed: str) -> Score:
    """`found`: the trials, each with its seed. `failed`: which control did; empty for none."""
    seeds, trials = [seed for seed, _ in found], [t for _, t in found]
    first = trials[0]
    common = {
        "setting": setting.id,
        "method": setting.method,
        "encoder": setting.encoder,
        "scaler": setting.scaler,
        "defense": setting.defense,
        "training": setting.training,
        "attack": first.attack,
        "observers": first.observers,
        "asset": first.asset,
        "metric": first.metric,
        "clusters": len(trials),
        "reason": failed or first.reason,
        "knowledge": first.knowledge,
        "level": first.level,
    }
    if first.status != "scored":
        empty = dict.fromkeys(("value", "low", "high", "baseline", "advantage", "advantage_low", "advantage_high"))
        return Score(**common, **empty, status=first.status)  # type: ignore[arg-type]
    values = [t.value for t in trials if t.value is not None]
    baselines = [t.baseline for t in trials if t.baseline is not None]
    return Score(
        **common,  # type: ignore[arg-type]
        **_estimate(first.metric, values, baselines, seeds),
        status="inconclusive" if failed else "scored",
        bound=mean_bound(trials),
        detail=cell_scores([(seed, t.detail) for seed, t in found if t.detail and t.asset in CELLWISE]),
    )


def _estimate(metric: str, values: Sequence[float], baselines: Sequence[float], seeds: Sequence[int]) -> dict[str, Any]:
    """The fields that say how far an attack gets: its mean over clusters, the prior's, the advantage, intervals."""
    low, high = value_interval(metric, values, seeds)
    gain, gain_low, gain_high = advantage_interval(metric, values, baselines, seeds)
    return {
        "value": float(np.mean(values)),
        "low": low,
        "high": high,
        "baseline": float(np.mean(baselines)),
        "advantage": gain,
        "advantage_low": gain_low,
        "advantage_high": gain_high,
    }


def cell_scores(details: Sequence[tuple[int, CellDetail]]) -> CellScores | None:
    """The details of one attack's clusters, each with its seed, summed up; None without any."""
    if not details:
        return None
    columns: dict[tuple[Kind, str], list[tuple[int, FeatureShare]]] = defaultdict(list)
    buckets: dict[tuple[Kind, float | None, float | None], list[tuple[int, Bucket]]] = defaultdict(list)
    surest: dict[tuple[Kind, float], list[tuple[int, SurestShare]]] = defaultdict(list)
    for seed, detail in details:
        for f in detail.features:
            columns[f.kind, f.feature].append((seed, f))
        for b in detail.buckets:
            buckets[b.kind, b.low, b.high].append((seed, b))
        for s in detail.surest:
            surest[s.kind, s.share].append((seed, s))
    whole = {kind: sum(b.cells for key, found in buckets.items() if key[0] == kind for _, b in found) for kind in KINDS}
    features = [_feature_score(found) for found in columns.values()]
    return CellScores(
        tuple(sorted(features, key=lambda f: (f.advantage is None, -(f.advantage or 0.0), f.feature))),
        tuple(_bucket_score(buckets[key], whole[key[0]]) for key in sorted(buckets, key=_by_entropy)),
        tuple(_surest_score(surest[key]) for key in sorted(surest)),
    )


def _feature_score(found: Sequence[tuple[int, FeatureShare]]) -> FeatureScore:
    seeds, first = [seed for seed, _ in found], found[0][1]
    estimate = _estimate("accuracy", [f.value for _, f in found], [f.baseline for _, f in found], seeds)
    return FeatureScore(feature=first.feature, kind=first.kind, clusters=len(found), **estimate)


def _surest_score(found: Sequence[tuple[int, SurestShare]]) -> SurestScore:
    seeds, first = [seed for seed, _ in found], found[0][1]
    estimate = _estimate("accuracy", [s.value for _, s in found], [s.baseline for _, s in found], seeds)
    entropies = [s.entropy for _, s in found if s.entropy is not None]
    entropy = float(np.mean(entropies)) if entropies else None
    cells = float(np.mean([s.cells for _, s in found]))
    return SurestScore(
        kind=first.kind, share=first.share, cells=cells, entropy=entropy, clusters=len(found), **estimate
    )


def _bucket_score(found: Sequence[tuple[int, Bucket]], whole: int) -> BucketScore:
    """`whole`: cells of this kind in all buckets. Two clusters may agree by chance on a few cells: no interval."""
    seeds, buckets = [seed for seed, _ in found], [b for _, b in found]
    cells = sum(b.cells for b in buckets)
    value, limits = ratio_interval([b.correct for b in buckets], [b.cells for b in buckets], seeds)
    low, high = cut("accuracy", limits if len(found) >= FEWEST else None)
    prior = sum(b.prior for b in buckets) / cells
    first = buckets[0]
    return BucketScore(
        first.kind, first.low, first.high, cells, cells / whole, value, low, high, prior, clusters=len(found)
    )


def _by_entropy(key: tuple[Kind, float | None, float | None]) -> tuple[Kind, float]:
    return key[0], -np.inf if key[1] is None else key[1]


def utility(records: Sequence[CaseRecord]) -> tuple[UtilityScore, ...]:
    """One row per setting and metric, over seeds; an interval from three seeds on (two say next to nothing)."""
    groups: dict[tuple[str, str], list[float]] = defaultdict(list)
    settings = {r.setting.id: r.setting for r in records}
    for record in records:
        for row in record.utility:
            groups[record.setting.id, row.metric].append(row.value)
    rows = []
    for (setting_id, metric), values in groups.items():
        s = settings[setting_id]
        low, high = value_interval(metric, values) if len(values) >= FEWEST else (None, None)
        mean = float(np.mean(values))
        rows.append(
            UtilityScore(
                s.id, s.method, s.encoder, s.scaler, s.defense, s.training, metric, mean, low, high, len(values)
            )
        )
    return tuple(sorted(rows, key=lambda u: (list(settings).index(u.setting), UTILITY_ORDER.index(u.metric))))


def headline(all_scores: Iterable[Score]) -> list[Score]:
    """The scores that decide: one metric per asset, an advantage, a federated setting or not; worst first."""
    chosen = [s for s in all_scores if s.advantage is not None and speaks(s.asset, s.metric)]
    return sorted(chosen, key=lambda s: -(s.advantage_low if s.advantage_low is not None else s.advantage or 0.0))
