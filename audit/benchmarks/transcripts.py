"""What every encoder and every scaler tells whom: the advantage of the best attack per asset and kind of adversary.

An encoder is measured with the `local` scaler and a scaler with the `target` encoder, neither of which sends anything:
what is learnt is learnt from the other one. Five parties hold the table under the `divergent` partition; FedSGD runs
one round of batches of 8. Adversaries are the server, each client and each pair of clients, granted the values that
exist and the labels of the attacked batches. All attacks of the audit are played by all of them (`ATTACKS`).

What evaluation tells of held-out rows is left out: it is the same under all of them. A row is `audit.leakage`'s: one
asset under one kind of adversary, by the single adversary of that kind that learns most, with an interval that allows
for choosing it.
`n` are the clusters (victim x seed) that it makes claims about, `of` those that there are; a kind without any claim has
one row that says so. Beside it stands what the methods share by their own account. What scores
leave out of single clients' claims has rows of its own (`transcripts_claims`): "count bounds" is the mean ratio of the
upper to the lower end of their 90 % intervals, "count bounds that hold" the share of them with the truth inside, "signs
of means" the share of claims about means whose whole interval has the sign of the truth, and "who holds values that it
lacks" the AUC over values that the client does not hold.

`pooled` is the yardstick: there the rows themselves are handed over. `fasttext` is the seeded model.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from leakledger.audit.benchmarks.base import Options, Row, data_of, dataset_name, partial_note
from leakledger.audit.benchmarks.transcripts_claims import client_rows
from leakledger.audit.benchmarks.transcripts_tables import SILENT_ENCODER, SILENT_SCALER, markdown
from leakledger.audit.case import cases
from leakledger.audit.config import Config
from leakledger.audit.leakage import adversary, leakage_table
from leakledger.audit.pool import each
from leakledger.audit.records import ASSETS, HELD_OUT, CaseRecord, Leakage
from leakledger.audit.run import run_case
from leakledger.audit.summary import scores
from leakledger.preprocess.encoders import ENCODERS
from leakledger.preprocess.scalers import ENCRYPTED, SCALERS
from leakledger.preprocess.secret import PUBLIC_MASTER

__all__ = ["markdown", "run"]

NOTHING = "nothing"  # the metric of a kind of adversary that makes no claim
ATTACKS = ("plaintext", "statistics", "ring_size", "vocabulary", "membership", "sac_audit", "portfolio")
PARTIES, ROWS, SEEDS, BATCH = 5, 3_000, 3, 8
ADVERSARIES = ("server", "clients", "coalitions of 2")


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


def run(options: Options) -> Iterator[Row]:
    """Rows for each table and method, as they are measured."""
    for source in options.data or ("fair",):
        for method in methods():
            yield from measure(options, source, method)


def measure(options: Options, source: str, method: Mapping[str, str]) -> Iterator[Row]:
    """Rows of one encoder and scaler, over all seeds."""
    config = settings(options, source, method)
    with TemporaryDirectory() as folder:
        work = partial(run_case, config, folder=Path(folder), master=PUBLIC_MASTER)
        records = list(each(work, cases(config), options.jobs))
    dataset = dataset_name(source)
    all_scores = scores(records)
    table = leakage_table(records, all_scores)
    for kind in dict.fromkeys(adversary(s.observers) for s in all_scores):
        rows = [f for f in table if f.adversary == kind and f.score is not None and f.asset not in HELD_OUT]
        yield from (row(dataset, records, f) for f in rows)
        if not rows:
            where = {**setting(records), "adversary": kind}
            yield Row("transcripts", dataset, where, NOTHING, 0.0, None, None, None, "claims", 0)
    yield from client_rows(options, config, dataset, setting(records))


def settings(options: Options, source: str, method: Mapping[str, str]) -> Config:
    """The configuration of one method."""
    seeds = options.seeds or (1 if options.quick else SEEDS)
    return Config.model_validate(
        {
            "data": data_of(options, source, ROWS // 6 if options.quick else ROWS),
            "partition": {"kind": "divergent", "parties": PARTIES},
            "preprocessing": method,
            "training": {"rounds": 1, "batch_size": BATCH},
            "attacks": {"use": [*(ATTACKS[:-1] if options.quick else ATTACKS)], "dictionaries": "known"},
            "audit": {"seeds": list(range(seeds)), "device": options.device, "observers": list(ADVERSARIES)},
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
