"""Made-up audits for tests of the gate: advantages in, a record out."""

from dataclasses import replace

import numpy as np

from leakledger.audit.gate.baseline import moved
from leakledger.audit.gate.decide import gate
from leakledger.audit.gate.policy import policy_of
from leakledger.audit.gate.snapshot import snapshot
from leakledger.audit.records import (
    AuditRecord,
    CaseRecord,
    Control,
    DataFacts,
    Finding,
    RunFacts,
    Setting,
    Trial,
    Unread,
    UtilityRow,
    Verdict,
)

PRIOR = 0.5
SEEDS = tuple(range(12))
DATA = DataFacts("made", 100, 3, 2, 1, "y", "classification", ("diagnosis",), "f1", {"iid": {"P1": 50, "P2": 50}})
CONFIG = {
    "data": {"source": "made.csv", "rows": 100},
    "attacks": {"use": ["made"], "labels": "public"},
    "preprocessing": [{"encoder": "e", "sharing": "ring"}],
    "audit": {"seeds": list(SEEDS), "observers": ["server"], "jobs": 1},
}


def controls(attack="made", **failed):
    """Those of an attack; `leaky=False` fails that one."""
    kinds = ("leaky", "null", "shuffled", "power")
    return tuple(Control(attack, k, 1.0, 0.0, 1.0, failed.get(k, True), "expected") for k in kinds)


def trial(advantage, attack="made", observers=("server",), asset="records", metric="accuracy", victim="P1", **more):
    value = PRIOR + advantage * (1 - PRIOR)
    return Trial(attack, observers, asset, metric, victim, 0, "scored", value, PRIOR, level="value", **more)


def silent(attack="made", observers=("server",), asset="records", reason="the messages say nothing"):
    return Trial(attack, observers, asset, "", "", 0, "abstained", reason=reason)


def noise(seed, scale=0.02):
    return scale * np.random.default_rng(seed).standard_normal(len(SEEDS))


def record(
    advantages,
    *,
    seeds=SEEDS,
    auroc=None,
    findings=(),
    unread=(),
    held=None,
    setting="s1",
    config=None,
    data=DATA,
    missing=0,
    more=lambda seed: (),
    parties=2,
):
    """An audit with one cluster per seed; an advantage of None is a silent attack. `more` has other trials."""
    s = Setting(setting, "made", "iid", parties, "e", "s", "none", "fedsgd B=8", False)
    cases = []
    for k, seed in enumerate(seeds):
        own = trial(float(advantages[k])) if advantages is not None else silent()
        utility = () if auroc is None else (UtilityRow("auroc", float(auroc[k])),)
        fired = tuple(f for f in findings if not isinstance(f, tuple) or seed in f[1])
        cases.append(
            CaseRecord(
                f"{setting}-{seed}",
                s,
                seed,
                (own, *more(seed)),
                controls() if held is None else held,
                tuple(f[0] if isinstance(f, tuple) else f for f in fired),
                tuple(unread),
                utility=utility,
            )
        )
    versions = {"leakledger": "0.1.0", "torch": "2"}
    facts = RunFacts(
        "made",
        config or CONFIG,
        "leakledger run made.toml",
        tuple(seeds),
        versions,
        "cpu",
        data,
        (),
        (),
        instrument="code",
    )
    verdict = Verdict("inconclusive", "", "")
    return AuditRecord(facts, tuple(cases), (), (), verdict, missing, "2026-11-01", head="ab" * 32)


def finding(check="plaintext-told", party="P1"):
    return Finding("sac_audit", ("server",), party, check, f"{party}'s numbers travel in the clear")


def unread(topic):
    return Unread(("server",), topic, "value", 3, "no attack reads it")


def baseline(made):
    return moved(snapshot(made), "A. Person", "first", now="2026-11-01")


def decided(now, before=None, waivers=(), **policy):
    """What the gate says under a policy."""
    return gate(now, policy_of(policy), None if before is None else ("b.json", baseline(before)), waivers)


def only(outcome, kind):
    """The one check of a kind."""
    (found,) = [c for c in outcome.checks if c.kind == kind]
    return found


def with_seeds(made, seeds):
    return replace(made, run=replace(made.run, seeds=tuple(seeds)))
