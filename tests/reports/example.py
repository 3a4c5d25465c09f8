"""A made-up audit with all that a report must cope with: hostile names, abstentions, a failed control, few seeds."""

from dataclasses import replace
from itertools import pairwise, product
from random import Random

from leakledger.audit.records import (
    ASSETS,
    AuditRecord,
    BucketScore,
    CaseRecord,
    Cell,
    CellScores,
    Control,
    DataFacts,
    FeatureScore,
    Finding,
    FrontierPoint,
    Leakage,
    Observation,
    PrivacyAccount,
    PrivacyPart,
    RecoveredRecord,
    Ruling,
    RunFacts,
    Score,
    Setting,
    SurestScore,
    Trial,
    Unread,
    UtilityRow,
    UtilityScore,
    Verdict,
)

SCRIPT = '<script>alert("x")</script>'
QUOTES = 'O\'Brien & "Söhne" onclick=alert(1)'
RIGHT_TO_LEFT = "مستشفى القدس"
OVERRIDE = "Klinik\u202eNord"  # turns the direction of what follows
SERVER = "server"
PARTIES = (SCRIPT, QUOTES, RIGHT_TO_LEFT, OVERRIDE)
SECRETS = ("secret-divorced-7731", "secret-oncology-4410", "83771.25")  # values of recovered cells
TRUTH = "secret-truth-5520"  # beside a wrong one
SEEDS = (0, 1, 2)

METHODS = (  # encoder, scaler, defense, leakage of records, of statistics, F1
    ("pooled", "pooled", "none", 0.86, 0.97, 0.861),
    ("server_dictionary", "federated_zscore", "none", 0.83, 0.94, 0.858),
    ("server_dictionary", "federated_zscore", "gaussian(0.01)", 0.41, 0.94, 0.842),
    ("server_dictionary", "federated_minmax", "gaussian(0.1)", 0.06, 0.90, 0.731),
    ("uhe", "federated_zscore", "none", 0.52, 0.71, 0.849),
    ("local", "local", "none", 0.47, 0.12, 0.802),
    ("hash(256)", "threshold_ckks", "none", 0.55, -0.01, 0.826),
)


def privacy() -> tuple[PrivacyAccount, ...]:
    """A unit with an epsilon, and one without."""
    part = PrivacyPart("statistics", f"{QUOTES}.noised: 7 numbers, discrete noise", 0.75)
    stated = PrivacyAccount("record", "add-remove", 1e-5, 1.25, "composed", (part,), (), (f"rows of {QUOTES}",))
    return stated, PrivacyAccount("client", "replace", 1e-5, None, "", (), (f"scaler: {SCRIPT} adds no noise",))


def setting(i: int) -> Setting:
    encoder, scaler, defense, *_ = METHODS[i]
    name = f"{encoder}+{scaler}" + ("" if defense == "none" else f"+{defense}")
    said = () if encoder == "local" else (f"sums of {SCRIPT} (table 5)", "nothing (ours)")
    return Setting(name, "adult", "iid-4", 4, encoder, scaler, defense, "fedsgd", encoder == "pooled", *said)


def example() -> AuditRecord:
    """Seven settings, three seeds, four parties and a server. One null control failed, and two cases are missing."""
    settings = [setting(i) for i in range(len(METHODS))]
    return AuditRecord(
        run=run_facts(),
        cases=tuple(case(i, s, seed) for i, s in enumerate(settings) for seed in SEEDS),
        scores=tuple(score for i, s in enumerate(settings) for score in scores(i, s)),
        utility=tuple(row for i, s in enumerate(settings) for row in utility(i, s)),
        verdict=Verdict(
            "inconclusive",
            "tableak recovers up to 86 % of what the prior left unknown of the records, but a null control failed.",
            "The best setting that a federation can run loses 0.003 F1 against pooled preprocessing.",
        ),
        missing=2,
        created="2025-03-14 09:26 UTC",
        leakage=tuple(row for i, s in enumerate(settings) for row in leakage(i, s)),
        frontier=tuple(frontier_point(i, settings[i]) for i in (1, 2)),
        rulings=tuple(ruling(f) for i, s in enumerate(settings) if not s.reference for f in leakage(i, s)),
    )


def frontier_point(i: int, s: Setting) -> FrontierPoint:
    """One defense of a method, as if both were of the same."""
    return FrontierPoint(
        setting=s.id,
        method=setting(1).method,
        training=s.training,
        partition=s.partition,
        defense=s.defense,
        family=s.defense,
        parameter="gaussian-noise sigma" if i > 1 else "",
        strength=0.01 if i > 1 else None,
        asset="records",
        metric="exact_rows",
        attack="tableak",
        observers=(SERVER,),
        leakage=METHODS[i][3],
        leakage_low=METHODS[i][3] - 0.05,
        leakage_high=METHODS[i][3] + 0.05,
        clusters=12,
        bound=0.7 if i > 1 else None,
        utility_metric="f1",
        utility=METHODS[i][5],
        utility_low=METHODS[i][5] - 0.01,
        utility_high=METHODS[i][5] + 0.01,
        seeds=3,
        open=False,
        front=True,
    )


def empty() -> AuditRecord:
    """The audit before its first case."""
    data = replace(run_facts().data, sensitive=(), party_rows={})
    facts = replace(run_facts(), data=data, adversaries=(), not_tested=(), seeds=(), versions={})
    return AuditRecord(facts, (), (), (), Verdict("inconclusive", "Nothing has run yet.", "Nothing was measured."))


def run_facts() -> RunFacts:
    rows = dict(zip(PARTIES, (1203, 987, 1450, 360), strict=True))
    return RunFacts(
        id="2025-03-14-adult-7c1e",
        config={
            "data": {"name": "adult", "file": f"{SCRIPT}.csv"},
            "seeds": list(SEEDS),
            "attacks": ["tableak", "readout"],
        },
        command=f"leakledger run audit.toml --data '{SCRIPT}.csv' --seeds 0,1,2",
        seeds=SEEDS,
        versions={"leakledger": "0.1.0", "torch": "2.13.0", "numpy": "2.4.6"},
        device="cpu",
        data=DataFacts(
            name="adult",
            rows=4000,
            features=5,
            categorical=3,
            numeric=2,
            target="income",
            task="binary",
            sensitive=("race", SCRIPT),
            fingerprint="9f2c4b7d10aa5e33c8f1",
            party_rows={"iid-4": rows},
        ),
        adversaries=((SERVER,), (SERVER, SCRIPT), (QUOTES,)),
        not_tested=("active deviations from the protocol", f"collusion of all parties but {RIGHT_TO_LEFT}", "timing"),
    )


def case(i: int, s: Setting, seed: int) -> CaseRecord:
    random = Random(f"{s.id} {seed}")
    return CaseRecord(
        id=f"{s.id}-s{seed}",
        setting=s,
        seed=seed,
        trials=(Trial("tableak", (SERVER,), "records", "accuracy", SCRIPT, 0, "scored", 0.9, 0.4),),
        controls=controls(i, seed, random),
        findings=tuple(
            Finding("sac_audit", (SERVER,), party, "parts-not-hiding", "12 parts have one sign", tuple(range(3, 15)))
            for party in PARTIES[:2]
        ),
        unread=(Unread((SERVER,), f"{QUOTES}.hint", "control", 8, "no attack that was played reads this kind"),),
        observations=tuple(observations(s)),
        recovered=tuple(recovered(random)),
        utility=(UtilityRow("f1", METHODS[i][5]),),
        privacy=privacy(),
        transcript_head=f"{random.getrandbits(256):064x}",
        seconds={"protocol": 1.5 + seed, "attack": 20.25},
    )


def controls(i: int, seed: int, random: Random) -> tuple[Control, ...]:
    noise = random.uniform(-0.02, 0.02)
    broken = (i, seed) == (2, 1)
    null = 0.71 if broken else 0.41 + noise
    return (
        Control("tableak", "leaky", 0.99 + noise / 4, 0.41, 0.98 + noise / 2, True, "advantage of at least 0.9"),
        Control("tableak", "null", null, 0.41, (null - 0.41) / 0.59, not broken, "interval around 0"),
        Control("readout", "leaky", 1.0, 0.2, 1.0, True, "every planted value"),
    )


def detail(attack_gets: float) -> CellScores:
    """Three categorical columns and two numeric ones, one of them constant; surer cells are right more often."""
    kinds = ("categorical", "categorical", "categorical", "numeric", "numeric")
    names = ("marital-status", "ward", SCRIPT, "income", RIGHT_TO_LEFT)
    features = [
        FeatureScore(feature=name, kind=kind, clusters=12, **scored(attack_gets - 0.1 * i, 0.3 + 0.1 * i, 0.05))
        for i, (name, kind) in enumerate(zip(names, kinds, strict=True))
    ]
    nothing = dict.fromkeys(("advantage", "advantage_low", "advantage_high"))
    features[-1] = replace(features[-1], value=1.0, low=1.0, high=1.0, baseline=1.0, **nothing)
    return CellScores(tuple(features), tuple(buckets()), tuple(surest()))


def buckets() -> list[BucketScore]:
    edges = {"categorical": (0.0, 0.2, 0.4, 0.6, 0.8, 1.0), "numeric": (None, -1.0, 0.72, None)}
    return [
        BucketScore(kind, low, high, 1200 - 250 * b, 0.2, 0.97 - 0.1 * b, 0.9 - 0.1 * b, 1.0 - 0.05 * b, 0.4, 12)
        for kind, bounds in edges.items()
        for b, (low, high) in enumerate(pairwise(bounds))
    ]


def surest() -> list[SurestScore]:
    return [
        SurestScore(kind=kind, share=share, cells=40 * share, entropy=share / 2, clusters=12, **scored(0.9, 0.6, 0.04))
        for kind in ("categorical", "numeric")
        for share in (0.1, 0.2, 0.5, 1.0)
    ]


def observations(s: Setting) -> list[Observation]:
    """Dictionary and z-scores through the server, a sealed peer exchange that it relays, and 100 rounds of training."""
    rows = [
        *up("dictionary.local", "encode", "list of 3 lists of text", 1840),
        *down("dictionary.global", "encode", "list of 3 lists of text", 5210),
        *up("zscore.mean", "scale", "float64 (2,) and a count", 96),
        *down("zscore.global-mean", "scale", "float64 (2,)", 64),
        *peers("psi.blinded", "align"),
        *down("training.model", "train", "12 float32 arrays, 21,302 numbers", 85_400, 99),
        *up("training.gradient", "train", "12 float32 arrays, 21,302 numbers", 85_400, 99),
    ]
    if s.encoder == "local":
        rows = [o for o in rows if not o.topic.startswith("dictionary")]
    rows.sort(key=lambda o: (SERVER, *PARTIES).index(o.observer))  # per observer, in order of first message
    return [passed(o) for o in rows]


def passed(o: Observation) -> Observation:
    """With its transmissions, each with a header of 100 bytes: a relay sees a message twice."""
    times = 2 if o.role == "relayed" else 1
    return replace(o, hops=times * o.messages, wire_size=times * (o.size + 100 * o.messages))


def up(topic: str, step: str, content: str, size: int, last: int = 0) -> list[Observation]:
    n = last + 1
    sent = [Observation(p, topic, step, p, "sent", "plaintext", content, n, n * size, 0, last) for p in PARTIES]
    return [*sent, *(replace(o, observer=SERVER, role="received") for o in sent)]


def down(topic: str, step: str, content: str, size: int, last: int = 0) -> list[Observation]:
    n = last + 1
    sent = Observation(SERVER, topic, step, SERVER, "sent", "plaintext", content, 4 * n, 4 * n * size, 0, last)
    return [sent, *(replace(sent, observer=p, role="received", messages=n, size=n * size) for p in PARTIES)]


def peers(topic: str, step: str) -> list[Observation]:
    rows = []
    for a in PARTIES:
        sent = Observation(a, topic, step, a, "sent", "plaintext", "bytes (32,) per value", 3, 9600, 0, 0)
        rows += [sent, replace(sent, observer=SERVER, role="relayed", form="ciphertext", content="sealed")]
        rows += [replace(sent, observer=b, role="received", messages=1, size=3200) for b in PARTIES if b != a]
    return rows


def recovered(random: Random) -> list[RecoveredRecord]:
    """Two rows, the surer one first. Their values are the page's secrets."""
    return [
        RecoveredRecord("tableak", (SERVER,), SCRIPT, r, cells(random, 0.05 + 0.2 * r), verified=r == 0)
        for r in range(2)
    ]


def cells(random: Random, entropy: float) -> tuple[Cell, ...]:
    unsure = entropy + random.uniform(0, 0.1)
    return (
        Cell("marital-status", "categorical", SECRETS[0], True, unsure),
        Cell("ward", "categorical", SECRETS[1], random.random() < 0.7, unsure / 2),
        Cell(SCRIPT, "categorical", SCRIPT, True, unsure / 3),
        Cell("income", "numeric", SECRETS[2], random.random() < 0.5, unsure - 1.5),
        Cell(RIGHT_TO_LEFT, "numeric", "secret-17", False, unsure + 1, TRUTH),
    )


def score(
    s: Setting, attack: str, observers: tuple[str, ...], asset: str, metric: str, status: str, **found: object
) -> Score:
    nothing = dict.fromkeys(("value", "low", "high", "baseline", "advantage", "advantage_low", "advantage_high"))
    names = (s.id, s.method, s.encoder, s.scaler, s.defense, s.training)
    return Score(*names, attack, observers, asset, metric, status=status, **{**nothing, "clusters": 12, **found})


def scored(advantage: float, baseline: float, width: float) -> dict[str, float]:
    low, high = advantage - width, min(1.0, advantage + width)
    value, below, above = (baseline + a * (1 - baseline) for a in (advantage, low, high))
    return {
        "value": value, "low": below, "high": above, "baseline": baseline,
        "advantage": advantage, "advantage_low": low, "advantage_high": high,
    }  # fmt: skip


def scores(i: int, s: Setting) -> list[Score]:
    records, statistics = METHODS[i][3:5]
    granted = ("labels", "bounds", "marginals")
    found = [
        score(
            s,
            "tableak",
            (SERVER,),
            "records",
            "accuracy",
            "scored",
            **scored(records, 0.41, 0.04),
            knowledge=granted,
            detail=detail(records),
        ),
        score(
            s,
            "tableak",
            (SERVER,),
            "records",
            "exact_rows",
            "scored",
            **scored(records / 2, 0.0, 0.06),
            knowledge=granted,
        ),
        score(s, "readout", (SERVER, SCRIPT), "statistics", "hit_rate", "scored", **scored(statistics, 0.1, 0.03)),
        score(
            s,
            "span",
            (SERVER,),
            "records",
            "accuracy",
            "not_applicable",
            reason=f"the encoder of {SCRIPT} is no one-hot",
        ),
        score(s, "spear", (SERVER,), "records", "accuracy", "abstained", reason="no batch of full rank", clusters=0),
    ]
    if s.encoder == "local":
        reason = "3 clusters, and at least 5 are needed"
        found.append(score(s, "frequency", (QUOTES,), "vocabulary", "f1", "inconclusive", clusters=3, reason=reason))
    return found


def leakage(i: int, s: Setting) -> list[Leakage]:
    """The server and a client learn of every asset, the less the later it stands; pairs make no claim."""
    rows = []
    for k, (asset, observers) in enumerate(product(ASSETS, ((SERVER,), (QUOTES,), (SCRIPT, QUOTES)))):
        gets = scored(METHODS[i][3] - 0.03 * k, 0.2, 0.4)
        one = score(s, "readout", observers, asset, "f1", "scored", **{**gets, "clusters": 9})
        if asset == "maximum":
            one = replace(one, advantage=None, advantage_low=None, advantage_high=None)
        kind = (SERVER, "one client", "2 clients")[k % 3]
        empty = Leakage(s.id, kind, asset, 12, None)
        rows.append(empty if k % 3 == 2 else replace(empty, score=one, among=4, low=gets["advantage_low"], high=1.0))
    return sorted(rows, key=lambda f: (SERVER, "one client", "2 clients").index(f.adversary))


def ruling(f: Leakage) -> Ruling:
    """Leaks where the interval lies above 0, none above the ceiling where it lies below, else inconclusive."""
    if f.score is None or f.low is None or f.score.advantage is None:
        return Ruling(f.setting, f.adversary, f.asset, "inconclusive", 0.1, missing=(f"{SCRIPT} made no claim",))
    if f.low > 0:
        return Ruling(f.setting, f.adversary, f.asset, "leaks", 0.1, reasons=(f"{SCRIPT} gets more",), p=0.001)
    verdict = "no leak" if f.asset == "frequency" else "inconclusive"
    return Ruling(f.setting, f.adversary, f.asset, verdict, 0.1)


def utility(i: int, s: Setting) -> list[UtilityScore]:
    names = (s.id, s.method, s.encoder, s.scaler, s.defense, s.training)
    f1 = METHODS[i][5]
    rows = [
        UtilityScore(*names, "f1", f1, f1 - 0.011, f1 + 0.011, 3),
        UtilityScore(*names, "auroc", f1 + 0.05, None, None, 3),
    ]
    costs = {"messages": 3212.0, "bytes": 68_345_612.0 + i, "rounds": 100.0, "seconds": 21.8 + i, "input_width": 108.0}
    return rows + [UtilityScore(*names, metric, value, None, None, 3) for metric, value in costs.items()]
