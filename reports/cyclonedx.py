"""A CycloneDX 1.6 model card: what was measured of a model's leakage, with intervals, and what it is worth."""

import hashlib
from typing import Any
from uuid import UUID

from leakledger.audit.records import AuditRecord, Score, UtilityScore, at_least, at_most, metric_title, speaks
from leakledger.reports.text import plural, visible
from leakledger.reports.words import asset_of, nothing_said, noun, unplayed

UTILITY = ("f1", "accuracy", "auroc", "r2", "mae")


def model_card(record: AuditRecord) -> dict[str, Any]:
    """A bill of materials with one machine-learning model per federated setting of which a case has begun."""
    settings = dict.fromkeys(c.setting for c in (*record.cases, *record.aborted) if not c.setting.reference)
    components = []
    for s in settings:
        leaks = [_leak(x) for x in record.scores if x.setting == s.id and _counts(x)]
        worth = [_worth(u) for u in record.utility if u.setting == s.id and u.metric in UTILITY]
        components.append(
            {
                "type": "machine-learning-model",
                "bom-ref": visible(s.id),
                "name": visible(s.id),
                "description": visible(f"{s.method}, {s.defense}, {s.training}"),
                "modelCard": {
                    "quantitativeAnalysis": {"performanceMetrics": [*leaks, *worth]},
                    "considerations": {"technicalLimitations": [visible(t) for t in _limits(record, s.id)]},
                },
            }
        )
    tool = {"type": "application", "name": "leakledger", "version": record.run.versions.get("leakledger", "")}
    metadata: dict[str, Any] = {"tools": {"components": [tool]}}
    if record.created:
        metadata["timestamp"] = record.created
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{UUID(bytes=hashlib.sha256(record.head.encode()).digest()[:16], version=4)}",
        "version": 1,
        "metadata": metadata,
        "components": components,
    }


def _counts(s: Score) -> bool:
    return s.status == "scored" and s.advantage is not None and speaks(s.asset, s.metric)


def _leak(s: Score) -> dict[str, Any]:
    """Advantage over the prior: 0 nothing beyond it, 1 everything."""
    metric: dict[str, Any] = {
        "type": visible(f"leakage advantage: {noun(asset_of(s))}"),
        "value": f"{s.advantage:.4f}",
        "slice": visible(f"{s.attack} by {'+'.join(s.observers)}, {plural(s.clusters, 'cluster')}"),
    }
    return _with_interval(metric, s.advantage_low, s.advantage_high)


def _worth(u: UtilityScore) -> dict[str, Any]:
    metric = {
        "type": metric_title(u.metric),
        "value": f"{u.value:.4f}",
        "slice": f"held-out rows of all parties, {plural(u.seeds, 'seed')}",
    }
    return _with_interval(metric, u.low, u.high)


def _with_interval(metric: dict[str, Any], low: float | None, high: float | None) -> dict[str, Any]:
    if low is None or high is None:
        return metric
    return {**metric, "confidenceInterval": {"lowerBound": at_least(low, 4), "upperBound": at_most(high, 4)}}


def _limits(record: AuditRecord, setting: str) -> list[str]:
    """What leaks, also what facts alone show and no score has, what keeps the rest open, and what was not tested."""
    rulings = [r for r in record.rulings if r.setting == setting]
    leaks = [f"leaks to {r.adversary}, {noun(r.asset)}: {r.reasons[0]}" for r in rulings if r.verdict == "leaks"]
    missing = dict.fromkeys(m for r in rulings for m in r.missing)
    left = record.missing + len(record.aborted)
    unfinished = f"{plural(left, 'case')} of the audit did not run to the end: figures are provisional" if left else ""
    others = [unfinished, record.other_code, nothing_said(unplayed(r.asset for r in record.rulings))]
    return [*leaks, *filter(None, others), *record.run.not_tested, *missing]
