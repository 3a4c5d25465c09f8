"""How long the attacks on transcripts take where everybody may collude: all sets of up to three of twenty parties.

A made-up federation of twenty parties and thirty features, half of them categorical: parties differ in their rows,
means, deviations and values. It is encoded and scaled by `zscore-sac` with the paper's proportional parts, in two
settings. The server, each party, and all coalitions of two and three are played (1,351 sets), each by every attack on
transcripts.

Seconds are of processor time, of all processes together: of building the views, and of each attack; `membership` uses
what `vocabulary` has found in the same view. Wall time is that of all views and all attacks in `jobs` processes, their
start included, the federation's own run not. The paper has no such figures. The target is ours: all attacks on one
federation within 60 s on two cores, the start of processes not counted. Figures of 2026-11-21 are without `plaintext`.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from leakledger.attacks import ATTACKS
from leakledger.attacks.base import AuxiliaryKnowledge
from leakledger.audit.adversaries import Observers, observer_sets
from leakledger.audit.benchmarks.base import Options, Row
from leakledger.audit.federate import Federated, public_options, public_schema
from leakledger.audit.play import view_of
from leakledger.audit.pool import each
from leakledger.audit.truth import Truth
from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.encoders import ENCODERS
from leakledger.preprocess.pipeline import prepare
from leakledger.preprocess.scalers.zscore_sac import ZScoreSac
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.transport.simulated import Simulated
from leakledger.preprocess.views import Method, PublicFacts

PARTIES, FEATURES, ROWS = 20, 30, 60
TECHNIQUES = ("plaintext", "statistics", "ring_size", "vocabulary", "membership", "sac_audit")
SETTINGS: tuple[dict[str, Any], ...] = (
    {"encoder": "uhe", "route": "relay"},
    {"encoder": "dh-psi", "route": "sealed"},
)
PIECES = 8  # per process: pieces of equal work for processes of unequal speed
VIEWS = "views"


@dataclass(frozen=True)
class Spent:
    """Processor seconds by what they were spent on, and how many sets of observers made claims, by technique."""

    seconds: Mapping[str, float]
    claimed: Mapping[str, int]


def run(options: Options) -> Iterator[Row]:
    """Rows of both settings; `quick`: eight parties and eight features."""
    parties, features = (8, 8) if options.quick else (PARTIES, FEATURES)
    for setting in SETTINGS:
        yield from measure(options, parties, features, setting)


def measure(options: Options, parties: int, features: int, setting: Mapping[str, Any]) -> Iterator[Row]:
    """Rows of one setting: processor seconds of the views and of each attack, and the wall time of all of it."""
    truth = Truth(federation(parties, features, **setting))
    names = [truth.federated.public.server, "clients", "coalitions of 2", "coalitions of 3"]
    sets = observer_sets(names, truth.federated.public)
    order = np.random.default_rng(0).permutation(len(sets))
    jobs = options.jobs or 2
    pieces = [[sets[i] for i in piece] for piece in np.array_split(order, min(jobs * PIECES, len(sets)))]
    start = time.perf_counter()
    spent = list(each(partial(play, truth), pieces, jobs))
    wall = time.perf_counter() - start

    where = {**setting, "parties": parties, "features": features, "observer sets": len(sets)}
    for what in (VIEWS, *TECHNIQUES):
        told = f"{sum(s.claimed[what] for s in spent)} sets make claims" if what != VIEWS else ""
        seconds = sum(s.seconds[what] for s in spent)
        yield _row({**where, "attack": what}, "processor time", seconds, told)
    yield _row({**where, "attack": "all"}, "processor time", sum(sum(s.seconds.values()) for s in spent))
    yield _row({**where, "attack": "all", "jobs": jobs}, "wall time", wall)


def _row(setting: Mapping[str, Any], metric: str, seconds: float, note: str = "") -> Row:
    return Row("coalitions", "made up", setting, metric, seconds, None, None, None, "s", 1, note)


def play(truth: Truth, sets: Sequence[Observers]) -> Spent:
    """What views of these sets of observers, and all attacks on them, cost."""
    seconds = dict.fromkeys((VIEWS, *TECHNIQUES), 0.0)
    claimed, knowledge = dict.fromkeys(TECHNIQUES, 0), AuxiliaryKnowledge()
    for observers in sets:
        start = time.process_time()
        view = view_of(observers, truth)
        seconds[VIEWS] += time.process_time() - start
        for technique in TECHNIQUES:
            start = time.process_time()
            outcome = ATTACKS[technique]().run(view, knowledge)
            seconds[technique] += time.process_time() - start
            claimed[technique] += isinstance(outcome, Sequence)
    return Spent(seconds, claimed)


def federation(parties: int, features: int, encoder: str, route: str) -> Federated:
    """The federation after encoding and scaling; nothing is trained."""
    tables = made_up(parties, features)
    fed = Simulated(list(tables), secret=pinned("coalitions", parties, features, encoder, route))
    located = {c: fed.at(c, t) for c, t in tables.items()}
    schema = next(iter(tables.values())).schema
    method, scaler = ENCODERS[encoder](), ZScoreSac(route=route)  # type: ignore[arg-type]
    prepared = prepare(fed, schema, located, located, method, scaler)
    public = PublicFacts(
        fed.clients,
        fed.server,
        Method(encoder, public_options(method)),
        Method(scaler.name, public_options(scaler)),
        schema=public_schema(schema),
        layout=prepared.layout.value,
    )
    train = {c: fed.own(x) for c, x in prepared.train.items()}
    return Federated(fed.ledger, fed.party_secrets(), public, schema, tables, train, {}, {}, {}, 0)


def made_up(parties: int, features: int) -> dict[str, Table]:
    """Tables of about `ROWS` rows, half the features categorical with 4 to 12 values: a party holds most."""
    coins = np.random.default_rng(0)
    numeric = tuple(f"number {k}" for k in range(features // 2))
    categorical = tuple(f"word {k}" for k in range(features - features // 2))
    schema = Schema("target", categorical, numeric, "binary", ("no", "yes"))
    means, scales = coins.normal(0, 3, len(numeric)), np.exp(coins.normal(0, 1, len(numeric)))
    words = {f: np.array([f"{f} {chr(97 + v)}" for v in range(4 + k % 9)]) for k, f in enumerate(categorical)}

    def table(name: str) -> Table:
        rows = int(ROWS * np.exp(coins.normal(0, 0.5))) + 2
        own = scales * (means + 0.5 * coins.standard_normal(len(numeric)))
        numbers = coins.normal(own, scales, (rows, len(numeric)))
        held = {f: coins.choice(w, len(w) - len(w) // 4, replace=False) for f, w in words.items()}
        frame = pd.DataFrame(
            {**{f: pd.Series(coins.choice(h, rows), dtype="str") for f, h in held.items()}},
        )
        frame["target"] = pd.Series(np.where(coins.random(rows) < 0.5, "yes", "no"), dtype="str")
        for k, f in enumerate(numeric):
            frame[f] = numbers[:, k]
        return Table(frame, schema, name)

    return {f"P{i + 1}": table(f"P{i + 1}") for i in range(parties)}
