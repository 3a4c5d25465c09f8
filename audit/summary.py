"""From trials to scores, and from scores to the verdict. Intervals are Student-t over cluster means (95 %)."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from leakledger.audit.intervals import interval, ratio_interval
from leakledger.audit.records import (
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
    Verdict,
    speaks,
)
from leakledger.audit.scoring.metrics import PERFECT

FEWEST = 3  # clusters (for utility: seeds) that say something about how far they scatter
KINDS: tuple[Kind, ...] = ("categorical", "numeric")
NOUNS = {
    "records": "cells of records",
    "vocabulary": "local vocabularies",
    "mean": "local means",
    "std": "local deviations",
    "minimum": "local minima",
    "maximum": "local maxima",
    "count": "local row counts",
    "size": "local dictionary sizes",
    "quantile": "local quartiles",
    "frequency": "local shares of values",
    "target_rate": "local rates of the outcome",
    "membership": "the ranking of who holds which value (AUC)",
}
SHARES = {metric for metric, perfect in PERFECT.items() if perfect == 1.0} | {"auroc", "r2"}
UTILITY_ORDER = ("f1", "accuracy", "auroc", "r2", "mae", "input_width", "messages", "bytes", "rounds")


def bounded(metric: str, limits: tuple[float, float] | None) -> tuple[float | None, float | None]:
    """An interval cut to the values that the metric can have: shares lie in [0, 1], errors are not negative."""
    if limits is None:
        return None, None
    low, high = limits
    return float(low if metric == "r2" else max(low, 0.0)), float(min(high, 1.0) if metric in SHARES else high)


def advantage_interval(
    values: Sequence[float], baselines: Sequence[float], perfect: float
) -> tuple[float | None, float | None, float | None]:
    """Mean advantage over clusters with its interval, at most 1: sum of gains over sum of rooms, its error linearised
    (ratio estimator), so that a perfect attack has advantage 1 with certainty however the baseline varies.

    None where the prior alone is perfect; an interval of None below two clusters.
    """
    gains, rooms = np.subtract(values, baselines), perfect - np.asarray(baselines)
    if abs(rooms.mean()) < 1e-12:
        return None, None, None
    advantage, limits = ratio_interval(gains, rooms)
    return (advantage, None, None) if limits is None else (advantage, limits[0], min(limits[1], 1.0))


def scores(records: Sequence[CaseRecord]) -> tuple[Score, ...]:
    """One score per setting x attack x observers x asset x metric; what made no claim has a row that says so."""
    groups: dict[tuple[str, ...], list[Trial]] = defaultdict(list)
    settings = {r.setting.id: r.setting for r in records}
    failed = {(r.setting.id, c.attack) for r in records for c in r.controls if not c.passed}
    for record in records:
        for t in record.trials:
            groups[record.setting.id, t.attack, "+".join(t.observers), t.asset, t.metric, t.status, t.reason].append(t)
    return tuple(_score(settings[key[0]], trials, (key[0], key[1]) in failed) for key, trials in groups.items())


def _score(setting: Setting, trials: Sequence[Trial], control_failed: bool) -> Score:
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
        "reason": "a control of this attack failed" if control_failed else first.reason,
        "knowledge": first.knowledge,
    }
    if first.status != "scored":
        empty = dict.fromkeys(("value", "low", "high", "baseline", "advantage", "advantage_low", "advantage_high"))
        return Score(**common, **empty, status=first.status)  # type: ignore[arg-type]
    values = [t.value for t in trials if t.value is not None]
    baselines = [t.baseline for t in trials if t.baseline is not None]
    return Score(
        **common,  # type: ignore[arg-type]
        **_estimate(first.metric, values, baselines),
        status="inconclusive" if control_failed else "scored",
        detail=cell_scores([t.detail for t in trials if t.detail is not None]),
    )


def _estimate(metric: str, values: Sequence[float], baselines: Sequence[float]) -> dict[str, Any]:
    """The fields that say how far an attack gets: its mean over clusters, the prior's, the advantage, intervals."""
    low, high = bounded(metric, interval(values))
    gain, gain_low, gain_high = advantage_interval(values, baselines, PERFECT[metric])
    return {
        "value": float(np.mean(values)),
        "low": low,
        "high": high,
        "baseline": float(np.mean(baselines)),
        "advantage": gain,
        "advantage_low": gain_low,
        "advantage_high": gain_high,
    }


def cell_scores(details: Sequence[CellDetail]) -> CellScores | None:
    """The details of one attack's clusters, summed up; None without any."""
    if not details:
        return None
    columns, buckets, surest = defaultdict(list), defaultdict(list), defaultdict(list)
    for detail in details:
        for f in detail.features:
            columns[f.kind, f.feature].append(f)
        for b in detail.buckets:
            buckets[b.kind, b.low, b.high].append(b)
        for s in detail.surest:
            surest[s.kind, s.share].append(s)
    whole = {kind: sum(b.cells for key, found in buckets.items() if key[0] == kind for b in found) for kind in KINDS}
    features = [_feature_score(found) for found in columns.values()]
    return CellScores(
        tuple(sorted(features, key=lambda f: (f.advantage is None, -(f.advantage or 0.0), f.feature))),
        tuple(_bucket_score(buckets[key], whole[key[0]]) for key in sorted(buckets, key=_by_entropy)),
        tuple(_surest_score(surest[key]) for key in sorted(surest)),
    )


def _feature_score(found: Sequence[FeatureShare]) -> FeatureScore:
    estimate = _estimate("accuracy", [f.value for f in found], [f.baseline for f in found])
    return FeatureScore(feature=found[0].feature, kind=found[0].kind, clusters=len(found), **estimate)


def _surest_score(found: Sequence[SurestShare]) -> SurestScore:
    estimate = _estimate("accuracy", [s.value for s in found], [s.baseline for s in found])
    entropies = [s.entropy for s in found if s.entropy is not None]
    entropy = float(np.mean(entropies)) if entropies else None
    cells = float(np.mean([s.cells for s in found]))
    first, n = found[0], len(found)
    return SurestScore(kind=first.kind, share=first.share, cells=cells, entropy=entropy, clusters=n, **estimate)


def _bucket_score(found: Sequence[Bucket], whole: int) -> BucketScore:
    """`whole`: cells of this kind in all buckets. Two clusters may agree by chance on a few cells: no interval."""
    cells = sum(b.cells for b in found)
    value, limits = ratio_interval([b.correct for b in found], [b.cells for b in found])
    low, high = bounded("accuracy", limits if len(found) >= FEWEST else None)
    prior = sum(b.prior for b in found) / cells
    first = found[0]
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
        low, high = bounded(metric, interval(values) if len(values) >= FEWEST else None)
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


def verdict(records: Sequence[CaseRecord], all_scores: Sequence[Score], rows: Sequence[UtilityScore]) -> Verdict:
    """One sentence each. A failed control is said first; the reference settings do not count as leaks."""
    reference = {r.setting.id for r in records if r.setting.reference}
    decisive = [s for s in headline(all_scores) if s.setting not in reference]
    failed = [(r.setting.method, c) for r in records for c in r.controls if not c.passed]
    unread = sorted({u.topic for r in records if not r.setting.reference for u in r.unread})
    leaks = [s for s in decisive if s.status == "scored" and (s.advantage_low or 0.0) > 0]
    if leaks:
        status, leakage = "leaks", _leak_sentence(leaks, len({r.setting.id for r in records} - reference), failed)
    elif failed or not decisive or unread:
        status, leakage = "inconclusive", _doubt_sentence(failed, unread)
    else:
        worst = decisive[0]
        status = "no leak found"
        leakage = f"No declared attack is distinguishable from the prior; the nearest is {_effect(worst)}."
    return Verdict(status, leakage, _utility_sentence(rows, reference))  # type: ignore[arg-type]


def _leak_sentence(leaks: Sequence[Score], settings: int, failed: Sequence[object]) -> str:
    """The worst leak of records in full (or the worst of all), then the worst of every other kind in short."""
    worst: dict[str, Score] = {}
    for s in leaks:
        worst.setdefault(_noun(s), s)
    first, *others = sorted(worst.values(), key=lambda s: s.asset != "records")
    rest = ", ".join(f"{s.value:.0%} of {_noun(s)} under {s.method}" for s in others)
    places = len({s.setting for s in leaks})
    doubt = f" {_failures(failed)}: see the control panel." if failed else ""
    return f"Leaks in {places} of {settings} settings: {_effect(first)}{'; also ' if rest else ''}{rest}.{doubt}"


def _effect(s: Score) -> str:
    spread = "" if s.advantage_low is None else f", {s.advantage_low:.2f} to {s.advantage_high:.2f}"
    where = s.method if s.defense == "none" else f"{s.method} with {s.defense}"
    return (
        f"{s.attack} by {'+'.join(s.observers)} gets {s.value:.1%} of {_noun(s)} under {where}"
        f" (prior alone {s.baseline:.1%}; advantage {s.advantage:.2f}{spread})"
    )


def _noun(s: Score) -> str:
    return NOUNS.get(s.asset) or NOUNS[s.metric]


def _doubt_sentence(failed: Sequence[tuple[str, object]], unread: Sequence[str]) -> str:
    if unread and not failed:
        kinds = f"{len(unread)} kind{'' if len(unread) == 1 else 's'} of message"
        return f"Inconclusive: {kinds} reached somebody and no attack read {_them(unread)}: {', '.join(unread)}."
    if not failed:
        return "Inconclusive: no attack made a claim that could be scored."
    return f"Inconclusive: {_failures(failed)}, first under {failed[0][0]}; see the control panel."


def _them(things: Sequence[object]) -> str:
    return "it" if len(things) == 1 else "them"


def _failures(failed: Sequence[object]) -> str:
    return f"{len(failed)} control{'' if len(failed) == 1 else 's'} failed"


def _utility_sentence(rows: Sequence[UtilityScore], reference: set[str]) -> str:
    main = next((m for m in ("f1", "r2") if any(u.metric == m for u in rows)), None)
    if main is None:
        return "No model was evaluated."
    chosen = [u for u in rows if u.metric == main]
    name = {"f1": "F1", "r2": "R²"}[main]
    best = max((u for u in chosen if u.setting not in reference), key=lambda u: u.value, default=None)
    yardstick = max((u for u in chosen if u.setting in reference), key=lambda u: u.value, default=None)
    parts = []
    if best is not None:
        defense = "" if best.defense == "none" else f" with {best.defense}"
        parts.append(f"best {name} {best.value:.3f} by {best.method}{defense}, {best.training}")
    if yardstick is not None:
        parts.append(f"pooled reference {yardstick.value:.3f}")
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."
