"""What every encoder and every scaler tells whom: the advantage of the best attack per asset and kind of adversary.

An encoder is measured with the `local` scaler and a scaler with the `target` encoder, neither of which sends anything:
what is learnt is learnt from the other one. Five parties hold the table under the `divergent` partition; FedSGD runs
one round of batches of 8. Adversaries are the server, each client and each pair of clients, granted the values that
exist and the labels of the attacked batches. All of them play every attack on transcripts (`ATTACKS`), and the server
plays `portfolio` on the clients' gradients. Clients are told the mean of these, which `sums` attacks.

What evaluation tells of held-out rows is left out: it is the same under all of them. A row is `audit.leakage`'s: one
asset under one kind of adversary, by the single adversary of that kind that learns most, with an interval that allows
for choosing it. `n` are the clusters (victim x seed) that it makes claims about, `of` those that there are, `proven`
those where it has a claim that it vouches for, if none of these is wrong; a kind without any claim has one row that
says so. Beside it stands what the methods share by their own account.

What scores leave out of single clients' claims has rows of its own (`transcripts_claims`): "count bounds" is the mean
ratio of the upper to the lower end of their 90 % intervals, "count bounds that hold" the share of them with the truth
inside, "signs of means" the share of claims about means whose whole interval has the sign of the truth, and "who holds
values that it lacks" the AUC over values that the client does not hold.

`pooled` is the yardstick: there the rows themselves are handed over. `fasttext` is the seeded model.
`--only encoder=uhe` and `--only scaler=zscore-sac` keep to some methods.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from leakledger.audit.benchmarks.base import Options, Row, data_of, dataset_name, partial_note
from leakledger.audit.benchmarks.finished import each_unfinished
from leakledger.audit.benchmarks.transcripts_claims import ClientClaims, client_rows, told_to_clients
from leakledger.audit.benchmarks.transcripts_tables import SILENT_ENCODER, SILENT_SCALER, markdown
from leakledger.audit.case import Case, cases
from leakledger.audit.config import Config
from leakledger.audit.leakage import adversary, leakage_table
from leakledger.audit.records import ASSETS, HELD_OUT, CaseRecord, Leakage, Score
from leakledger.audit.run import run_case
from leakledger.audit.summary import scores
from leakledger.preprocess.encoders import ENCODERS
from leakledger.preprocess.scalers import ENCRYPTED, SCALERS
from leakledger.preprocess.secret import PUBLIC_MASTER

__all__ = ["markdown", "run"]

NOTHING = "nothing"  # the metric of a kind of adversary that makes no claim
ATTACKS = ("plaintext", "statistics", "ring_size", "vocabulary", "membership", "sac_audit")
PARTIES, ROWS, SEEDS, BATCH = 5, 3_000, 3, 8
ADVERSARIES = ("server", "clients", "coalitions of 2")
ONLY = ("encoder", "scaler")  # what `Options.only` may name
RESUMES = True  # from cases that are finished


def methods() -> Iterator[dict[str, str]]:
    """Every encoder with the scaler that sends nothing, and every other scaler in the clear with such an encoder."""
    for encoder in ENCODERS:
        yield {"encoder": encoder, "scaler": SILENT_SCALER}
    yield {"encoder": "target", "exchange": "shared", "scaler": SILENT_SCALER}
    for scaler in SCALERS:
        if scaler not in (SILENT_SCALER, "zscore-sac", *ENCRYPTED):
            yield {"encoder": SILENT_ENCODER, "scaler": scaler}
    for sharing, route in product(("proportional", "ring"), ("relay", "sealed", "direct")):
        yield {"encoder": SILENT_ENCODER, "scaler": "zscore-sac", "sharing": sharing, "route": route}


class Played(NamedTuple):
    """One case of one method, as its transcript is attacked, and as its gradients are, unless these are left out."""

    config: Config
    case: Case
    training: Config | None


class Found(NamedTuple):
    """Its record, and what single clients claim."""

    record: CaseRecord
    told: ClientClaims


def run(options: Options) -> Iterator[Row]:
    """Rows for each table and method, as they are measured."""
    kept = [m for m in methods() if options.wants(encoder=m["encoder"], scaler=m["scaler"])]
    if not kept:
        raise ValueError(f"no method is like that: {' '.join(f'--only {part}' for part in options.only)}")
    for source in options.data or ("fair",):
        yield from measure(options, source, kept)


def measure(options: Options, source: str, of: Sequence[Mapping[str, str]]) -> Iterator[Row]:
    """Rows of some methods in their order, over all seeds. Cases of all of them share one pool."""
    played = [
        Played(config, case, None if options.quick else on_gradients(config))
        for m in of
        for config in [settings(options, source, m)]
        for case in cases(config)
    ]
    waiting = {item.case.setting.id: len(item.config.audit.seeds) for item in played}
    parts = defaultdict[str, list[Found]](list)
    for item, found in each_unfinished(one_case, played, Found, options):
        parts[item.case.setting.id].append(found)
        while waiting and len(parts[first := next(iter(waiting))]) == waiting[first]:
            del waiting[first]
            yield from of_method(dataset_name(source), sorted(parts[first], key=lambda f: f.record.seed))


def one_case(item: Played) -> tuple[Played, Found]:
    """What is found in one case, which comes back with it: cases end in any order."""
    with TemporaryDirectory() as folder:
        record = run_case(item.config, item.case, Path(folder), PUBLIC_MASTER)
        if item.training is not None:
            more = run_case(item.training, item.case, Path(folder), PUBLIC_MASTER)
            record = replace(record, trials=record.trials + more.trials, controls=record.controls + more.controls)
    return item, Found(record, told_to_clients(item.config, item.case))


def of_method(dataset: str, parts: Sequence[Found]) -> Iterator[Row]:
    """Rows of one encoder and scaler, from what is found under each seed."""
    records = [part.record for part in parts]
    all_scores = scores(records)
    table = leakage_table(records, all_scores)
    for kind in dict.fromkeys(adversary(s.observers) for s in all_scores):
        rows = [f for f in table if f.adversary == kind and f.score is not None and f.asset not in HELD_OUT]
        yield from (row(dataset, records, f) for f in rows)
        if not rows:
            where = {**setting(records), "adversary": kind}
            yield Row("transcripts", dataset, where, NOTHING, 0.0, None, None, None, "claims", 0)
    yield from client_rows(dataset, setting(records), [part.told for part in parts])


def settings(options: Options, source: str, method: Mapping[str, str]) -> Config:
    """The configuration of one method."""
    seeds = options.seeds or (1 if options.quick else SEEDS)
    return Config.model_validate(
        {
            "data": data_of(options, source, ROWS // 6 if options.quick else ROWS),
            "partition": {"kind": "divergent", "parties": PARTIES},
            "preprocessing": method,
            "training": {"rounds": 1, "batch_size": BATCH},
            "attacks": {
                "use": [*ATTACKS],
                "dictionaries": "known",
                "held_out": "none",  # what evaluation tells is no matter of a method
            },
            "audit": {"seeds": list(range(seeds)), "device": options.device, "observers": list(ADVERSARIES)},
        }
    )


def on_gradients(config: Config) -> Config:
    """The same federations, of which the server attacks the gradients."""
    plain = config.in_force()
    return Config.model_validate(
        {
            **plain,
            "attacks": {**plain["attacks"], "use": ["portfolio"]},
            "audit": {**plain["audit"], "observers": ["server"]},
        }
    )


def setting(records: Sequence[CaseRecord]) -> dict[str, Any]:
    """What was run, and what its methods are said to share."""
    one = records[0].setting
    said = {"encoder said": one.encoder_said, "scaler said": one.scaler_said}
    return {"encoder": one.encoder, "scaler": one.scaler, "parties": one.parties, "seeds": len(records), **said}


def row(dataset: str, records: Sequence[CaseRecord], of: Leakage) -> Row:
    """The row of an asset that there is a claim about. Where the prior alone is right nothing is left to gain: 0."""
    s = of.score
    assert s is not None
    who = {"adversary": of.adversary, "observers": "+".join(s.observers), "attack": s.attack, "of": of.possible}
    who["proven"] = proven(records, s)
    where = {**setting(records), **who, "value": s.value, "prior": s.baseline}
    notes = ["the prior alone is right"] if s.advantage is None else []
    notes += [s.reason] if s.status != "scored" else []
    notes += [partial_note(dataset)] if partial_note(dataset) else []
    gain = 0.0 if s.advantage is None else s.advantage
    return Row(
        "transcripts",
        dataset,
        where,
        ASSETS[of.asset],
        gain,
        of.low,
        of.high,
        None,
        "advantage",
        s.clusters,
        "; ".join(notes),
    )


def proven(records: Sequence[CaseRecord], score: Score) -> int:
    """In how many clusters the attack vouches for claims behind the `score`; 0 where any of these is wrong."""
    name = (score.attack, score.observers, score.asset, score.metric)
    own = [t for r in records for t in r.trials if (t.attack, t.observers, t.asset, t.metric) == name]
    return 0 if any(t.certain_wrong for t in own) else sum(t.certain > 0 for t in own)
