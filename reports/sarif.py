"""A gate's checks as SARIF 2.1.0 (OASIS), as plain data: one rule per attack, protocol check or utility metric.

Two variants. The full one has every check: passed (`kind` pass), open, failed and waived, the last with
`suppressions`, which are then present on all results, as the standard's readers expect. The one for GitHub has failed
and open checks alone: GitHub shows what is suppressed as an open alert. Every result has a physical location, the line
of the configuration that declares the method, since GitHub refuses a whole file for one result without.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leakledger.audit.gate_records import Check, GateOutcome, worst_first
from leakledger.audit.records import AuditRecord, Observation, metric_title
from leakledger.reports.taxonomy import places
from leakledger.reports.text import plural, visible
from leakledger.reports.wording import said, slug, title, uri
from leakledger.reports.words import noun

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"
INFORMATION = "https://pypi.org/project/leakledger/"
FINGERPRINT = "leakledgerCheck/v1"
MOST_STEPS = 20  # messages of a path that a viewer shows
KINDS = {"pass": "pass", "fail": "fail", "inconclusive": "open", "waived": "fail"}


@dataclass(frozen=True)
class Source:
    """The configuration: its path in the repository, and its text, in which methods are looked up."""

    path: str = "audit.toml"
    text: str = ""

    def line(self, check: Check) -> int:
        """The first line that names the setting's encoder, else the first that names its defense, else 1."""
        for word in _words(check):
            for number, line in enumerate(self.text.split("\n"), 1):
                if f'"{word}"' in line.partition("#")[0]:
                    return number
        return 1


def _words(check: Check) -> list[str]:
    return [w.strip(",()") for w in check.subject.split() if w not in ("+", "then")] if check.subject else []


def sarif(outcome: GateOutcome, record: AuditRecord, source: Source, *, github: bool = False) -> dict[str, Any]:
    """The log of one run of the gate."""
    checks = [c for c in worst_first(outcome.checks) if not github or c.status in ("fail", "inconclusive")]
    rules = _rules(checks)
    index = {rule["id"]: k for k, rule in enumerate(rules)}
    results = [_result(c, index, outcome, record, source, github) for c in checks]
    driver = {
        "name": "LeakLedger",
        "informationUri": INFORMATION,
        "semanticVersion": record.run.versions.get("leakledger", "0.0.0"),
        "rules": rules,
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "automationDetails": {"id": f"leakledger/{slug(record.run.id)}"},
        "artifacts": [{"location": {"uri": uri(source.path)}, "roles": ["analysisTarget"]}],
        "invocations": [_invocation(outcome)],
        "results": results,
        "properties": {"run": visible(outcome.run), "recordHead": outcome.head, "policy": outcome.policy},
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _invocation(outcome: GateOutcome) -> dict[str, Any]:
    """The gate ran to its end, whatever it found; what voids a waiver or a comparison is a notification."""
    stale = outcome.baseline.stale if outcome.baseline else ()
    told = [("warning", text) for text in (*outcome.notes, *(f"stale baseline: {s}" for s in stale))]
    for w in (w for w in outcome.waivers if w.fate != "used"):
        told.append(("error" if w.void else "warning", f"waiver {w.id}, {w.words}"))
    notes = [{"level": level, "message": {"text": visible(text)}} for level, text in told]
    return {
        "executionSuccessful": True,
        "exitCode": outcome.exit_code,
        "toolConfigurationNotifications": notes,
    }


def rule_id(check: Check) -> str:
    """What stays the same over runs, settings and adversaries."""
    return f"{check.kind}/{slug(check.asset if check.kind in ('finding', 'utility') else check.attack or 'gate')}"


def _rules(checks: Sequence[Check]) -> list[dict[str, Any]]:
    groups: dict[str, list[Check]] = {}
    for c in checks:
        groups.setdefault(rule_id(c), []).append(c)
    return [_rule(name, found) for name, found in groups.items()]


def _rule(name: str, checks: Sequence[Check]) -> dict[str, Any]:
    first = checks[0]
    words = _about(first)
    scores = [c.severity.score for c in checks if c.severity]
    tags = sorted({tag for c in checks for tag in places(c.asset, c.kind).tags})
    properties: dict[str, Any] = {"tags": ["privacy", "federated-learning"]}
    if scores:
        properties = {"tags": ["security", *properties["tags"], *tags], "security-severity": f"{max(scores):.1f}"}
    return {
        "id": name,
        "name": "".join(part.capitalize() for part in name.replace("/", "-").replace("_", "-").split("-")),
        "shortDescription": {"text": words},
        "fullDescription": {"text": words},
        "help": {"text": f"{words} See docs/gate.md; `leakledger report` shows who saw what."},
        "defaultConfiguration": {"level": "error" if scores else "warning"},
        "properties": properties,
    }


def _about(check: Check) -> str:
    attack = visible(check.attack or "an attack")
    return {
        "ceiling": f"What {attack} gets beyond the prior is above the policy's ceiling.",
        "regression": f"What {attack} gets beyond the prior has grown since the baseline.",
        "finding": f"The transcript shows {visible(noun(check.asset))}, without statistics.",
        "utility": f"The model has lost {visible(metric_title(check.asset))} since the baseline.",
        "precondition": "A question of the policy cannot be answered.",
    }[check.kind]


def _result(
    check: Check,
    index: Mapping[str, int],
    outcome: GateOutcome,
    record: AuditRecord,
    source: Source,
    github: bool,
) -> dict[str, Any]:
    kind = KINDS[check.status]
    level = "none" if kind != "fail" else "warning" if check.kind == "utility" else "error"
    place = {"artifactLocation": {"uri": uri(source.path), "index": 0}, "region": {"startLine": source.line(check)}}
    names = [{"name": visible(n), "kind": "member"} for n in check.observers]
    location = {"physicalLocation": place, **({"logicalLocations": names} if names else {})}
    result: dict[str, Any] = {
        "ruleId": rule_id(check),
        "ruleIndex": index[rule_id(check)],
        "kind": kind,
        "level": level,
        "message": {"text": f"{title(check)}: {said(check)}"},
        "locations": [location],
        "partialFingerprints": {FINGERPRINT: check.fingerprint},
    }
    if outcome.baseline is not None and not outcome.baseline.stale:
        result["baselineState"] = _state(check)
    if flow := _flow(check, record, place):
        result["codeFlows"] = [{"threadFlows": [{"locations": flow}]}]
    if not github:
        result["suppressions"] = _suppressions(check, outcome)
    if check.severity:
        severity = {"severity": check.severity.score, "vector": check.severity.vector}
        result["properties"] = {**severity, "setting": visible(check.setting)}
    return result


def _state(check: Check) -> str:
    if check.kind == "finding":
        return "new" if check.new else "unchanged"
    return "updated" if check.status in ("fail", "waived") else "unchanged"


def _suppressions(check: Check, outcome: GateOutcome) -> list[dict[str, Any]]:
    used = [w for w in outcome.waivers if w.id == check.waiver and w.fate == "used"]
    return [
        {
            "kind": "external",
            "status": "accepted",
            "justification": visible(f"{w.id}, {w.words}"),
        }
        for w in used
    ]


def _flow(check: Check, record: AuditRecord, place: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The path of what the observers saw: from party to party, topic by topic, of the setting's first case."""
    case = next((c for c in record.cases if c.setting.id == check.setting), None)
    if case is None or check.kind == "utility":
        return []
    seen = [o for o in case.observations if o.observer in check.observers and o.sender != o.observer]
    return [_step(o, place) for o in seen[:MOST_STEPS]]


def _step(o: Observation, place: Mapping[str, Any]) -> dict[str, Any]:
    amount = f"{plural(o.messages, 'message')}, {plural(o.size, 'byte')}"
    text = visible(f"{o.sender} → {o.observer} ({o.role}): {o.topic}, {o.form}, {amount}")
    return {"location": {"physicalLocation": dict(place), "message": {"text": text}}}
