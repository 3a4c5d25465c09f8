"""What a policy asks otherwise than the one that a baseline was accepted under, in words: old value, new value.

Who changes a system can change the policy with it: a higher ceiling lets the leak of the same change pass. So a
baseline keeps the policy that it was saved with, and a gate names what differs. Whether less is asked for now its
reader sees; nothing fails by it. Entries of `[[leakage]]` are compared by what they come to for each kind of adversary
and each thing to learn, since the first that names both judges, wherever it stands.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from leakledger.audit.gate.baseline import Baseline
from leakledger.audit.gate.policy import LeakageGate, Policy
from leakledger.audit.records import ASSETS, metric_title

OTHERS = "any"  # of an entry: adversaries of every kind; here those that no entry names
RULE = ("ceiling", "regression", "floor", "margin")
ANOTHER = "The policy is another than the baseline's: "
UNKNOWN = (
    "The baseline keeps no policy, so whether this one asks for less than before is not said; "
    "`leakledger baseline save --policy` keeps one"
)


def policy_notes(policy: Policy, baseline: Baseline) -> Iterator[str]:
    """A sentence for each thing that the policy says otherwise than the baseline's; one where that has none."""
    if baseline.policy is None:
        yield UNKNOWN
        return
    for text in policy_differences(baseline.policy, policy):
        yield f"{ANOTHER}{text}"


def policy_differences(before: Policy, now: Policy) -> Iterator[str]:
    """What differs, in words; nothing of names, which decide nothing."""
    yield from _changed("[gate] ", before.gate.model_dump(), now.gate.model_dump())
    yield from _of_leakage(before, now)
    for metric in dict.fromkeys(u.metric for u in (*before.utility, *now.utility)):
        old, new = (
            [u.model_dump(include={"floor", "margin"}) for u in p.utility if u.metric == metric] for p in (before, now)
        )
        if old != new:
            yield f"utility, {metric_title(metric)}: {_several(old)} -> {_several(new)}"
    yield from _changed("[findings] ", before.findings.model_dump(), now.findings.model_dump())


def _of_leakage(before: Policy, now: Policy) -> Iterator[str]:
    named = dict.fromkeys(g.adversary for g in (*before.leakage, *now.leakage) if g.adversary != OTHERS)
    others = "any other adversary" if named else "any adversary"
    found: dict[tuple[str, ...], dict[str, list[str]]] = {}
    for kind in (*named, OTHERS):
        of_assets: dict[str, list[str]] = {}
        for asset in ASSETS:
            for text in _of_cell(_rule(before, kind, asset), _rule(now, kind, asset)):
                of_assets.setdefault(text, []).append(asset)
        for text, assets in of_assets.items():
            found.setdefault(tuple(assets), {}).setdefault(text, []).append(others if kind == OTHERS else kind)
    for about, changes in found.items():
        what = "everything" if len(about) == len(ASSETS) else ", ".join(about)
        for text, kinds in changes.items():
            yield f"leakage, {what} by {', '.join(kinds)}: {text}"


def _rule(policy: Policy, kind: str, asset: str) -> dict[str, Any] | None:
    """What the policy asks of one adversary about one thing to learn; None where no entry judges it."""
    judge: LeakageGate | None = next((g for g in policy.leakage if g.judges(kind, asset)), None)
    return None if judge is None else judge.model_dump(include={*RULE})


def _of_cell(old: dict[str, Any] | None, new: dict[str, Any] | None) -> Iterator[str]:
    if old is not None and new is not None:
        yield from _changed("", old, new)
    elif old != new:
        yield f"{_several([old] if old else [])} -> {_several([new] if new else [])}"


def _changed(where: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for name in dict.fromkeys((*old, *new)):
        if old.get(name) != new.get(name):
            yield f"{where}{name} {_value(name, old.get(name))} -> {_value(name, new.get(name))}"


def _value(name: str, value: Any) -> str:
    if name == "regression" and value is None:
        return "where there is a baseline"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(value) or "none"
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _several(asked: list[dict[str, Any]]) -> str:
    """Entries about one metric, in words."""
    return "; ".join(", ".join(f"{k} {_value(k, v)}" for k, v in one.items()) for one in asked) or "not asked"
