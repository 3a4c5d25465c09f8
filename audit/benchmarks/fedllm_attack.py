"""Attributes of records from one gradient of the head of FedLLM-Align, as the server recorded it.

*attributes, prior* is the better of two guesses from the client's own training rows, those of the batch among them
(`prior_right`): simpler guesses than an audit's, from nearer rows. No client has more than 20 batches of rows.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from leakledger.attacks.base import AuxiliaryKnowledge, NotApplicable, RecordsClaim
from leakledger.attacks.gradient.attribute_search import AttributeSearch
from leakledger.attacks.texts import TextRecords
from leakledger.audit.benchmarks.base import Options, Row, dataset_name
from leakledger.audit.benchmarks.fedllm_data import Parties, divided, known_texts
from leakledger.audit.benchmarks.gradients import figure
from leakledger.audit.scoring.attributes import (
    Records,
    attributes_right,
    claimed_records,
    exact_rows,
    prior_right,
    tolerances,
)
from leakledger.preprocess.alignment.fedllm_align import PUBLISHED, Alignment, embedding_layout, run
from leakledger.preprocess.alignment.serialise import values_of
from leakledger.preprocess.alignment.text_encoder import open_encoder
from leakledger.preprocess.data.impute import fill, filling_of
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.training.base import Batches
from leakledger.preprocess.transport.simulated import Simulated
from leakledger.preprocess.views import Method, PublicFacts, TrainingSpec, View

CLIENTS, OVERLAP, VICTIM = 3, 0.6, "P1"


@dataclass(frozen=True)
class Setting:
    """One cell of the table: which encoder, how many rows, what is known, and the head's dropout in training."""

    encoder: str
    batch: int
    known_schema: bool = True
    dropout: float = 0.2
    published: bool = False

    @property
    def training(self) -> TrainingSpec:
        """One gradient; or one round of the published training."""
        one = TrainingSpec("fedsgd", rounds=1, batch_size=self.batch)
        return replace(PUBLISHED, rounds=1, batch_size=self.batch) if self.published else one

    def plain(self) -> dict[str, object]:
        known = "known" if self.known_schema else "unknown"
        sent = {"training": "published"} if self.published else {}
        return {"encoder": self.encoder, "B": self.batch, "schema": known, "dropout": self.dropout, **sent}


def attack(options: Options, source: str, setting: Setting, seeds: int) -> Iterator[Row]:
    """Rows of one setting over batches of one client, one per seed: another head, batch and dropout. The schemas of the
    parties are those of seed 0.
    """
    parties = divided(options, source, CLIENTS, OVERLAP, 0)
    small = _few_rows(parties, 20 * setting.batch)
    alignment = Alignment(setting.encoder, training=setting.training, dropout=setting.dropout)
    texts = known_texts(parties, VICTIM, alignment, setting.known_schema)
    figures: dict[str, list[float]] = {"attributes": [], "attributes, prior": [], "exact rows": [], "verified rows": []}
    figures |= {"false verified": [], "seconds per batch": []}
    if setting.published:
        figures = {"not applicable": [], "attributes": [], "attributes, prior": []}
    for seed in range(seeds):
        for metric, value in one_batch(small, alignment, texts, setting, seed).items():
            figures[metric].append(value)
    for metric, values in figures.items():
        unit = "s" if metric.startswith("seconds") else "%"
        yield figure("fedllm", dataset_name(source), setting.plain(), metric, values, None, unit)


def one_batch(
    parties: Parties, alignment: Alignment, texts: TextRecords, setting: Setting, seed: int
) -> dict[str, float]:
    """Runs the federation, hands the server's view to the attack, and scores its claim about the victim's batch."""
    fed = Simulated(list(parties.schemas), secret=pinned("fedllm", setting.encoder, setting.batch, seed))
    train, test = ({c: fed.at(c, t) for c, t in own.items()} for own in (parties.train, parties.test))
    with fed.running():
        aligned = run(fed, alignment, parties.schemas, train, test)
    width = open_encoder(alignment.encoder).width
    public = PublicFacts(
        fed.clients,
        fed.server,
        alignment.method(),
        layout=embedding_layout(width),
        model=alignment.head(width),
        training=alignment.training,
        aggregation=Method("plain", {"weighting": alignment.aggregation.weighting}),
    )
    view: View = fed.ledger.view([fed.server], public)
    only = replace(view, messages=tuple(m for m in view.messages if VICTIM in (m.sender, m.recipient)))
    start = time.process_time()
    outcome = AttributeSearch(seed=seed).run(only, AuxiliaryKnowledge(texts={VICTIM: texts}))
    seconds = time.process_time() - start
    batches = fed.own(aligned.trained.batches[VICTIM, 0])
    off = tolerances(parties.table)
    if setting.published:  # local epochs go through all rows several times
        true, reference = true_records(parties, [np.unique(np.concatenate(batches))[: setting.batch]])
        return {
            "not applicable": 100.0 * isinstance(outcome, NotApplicable),
            "attributes": 0.0,  # nothing is claimed
            "attributes, prior": 100 * prior_right(parties.table, reference, true, off, seed),
        }
    true, reference = true_records(parties, batches)
    claim = outcome[0] if isinstance(outcome, list) and isinstance(outcome[0], RecordsClaim) else None
    claimed = [] if claim is None else claimed_records(claim)
    verified = (
        []
        if claim is None or claim.verified is None
        else [c for c, v in zip(claimed, claim.verified, strict=True) if v]
    )
    proven = exact_rows(verified, true) if verified else 0.0
    return {
        "attributes": 100 * attributes_right(claimed, true, off) if claimed else 0.0,
        "attributes, prior": 100 * prior_right(parties.table, reference, true, off, seed),
        "exact rows": 100 * exact_rows(claimed, true),
        "verified rows": 100 * len(verified) / len(true),
        "false verified": 100 * (len(verified) - proven * len(true)) / max(1, len(verified)),
        "seconds per batch": seconds,
    }


def true_records(parties: Parties, batches: Batches) -> tuple[Records, Records]:
    """The records of the victim's batch, and all of its training rows, as it wrote them."""
    table = parties.train[VICTIM]
    table = fill(table, filling_of(table))
    features = parties.schemas[VICTIM].features
    columns = [values_of(table, f) for f in features]
    rows = [dict(zip(features, row, strict=True)) for row in zip(*columns, strict=True)]
    return [rows[i] for i in np.concatenate(batches).tolist()], rows


def _few_rows(parties: Parties, rows: int) -> Parties:
    """Parties with few rows: only a batch of them is embedded in one step, and embedding takes the time."""
    return replace(
        parties,
        train={c: t.rows(np.arange(min(rows, len(t)))) for c, t in parties.train.items()},
        test={c: t.rows(np.arange(min(8, len(t)))) for c, t in parties.test.items()},
    )
