"""Federations whose sizes and statistics are drawn as a cell of the grid says, after the real protocol.

Party sizes are log-normal around `rows` with the standard deviation `spread` of their logarithms; one outlying party
has `OUTLYING` times as many rows, and its numbers lie elsewhere. Secrets are pinned: a federation is always the same.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from leakledger.attacks.base import Attack, AuxiliaryKnowledge, StatisticClaim
from leakledger.attacks.transcript.ring_size import RingSize
from leakledger.attacks.transcript.statistics import Statistics
from leakledger.audit.federate import public_options
from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.encoders import ENCODERS
from leakledger.preprocess.scalers.zscore_sac import ZScoreSac
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.transport.simulated import Simulated
from leakledger.preprocess.views import FeatureLayout, Method, NumericBlock, PublicFacts, View

Floats = NDArray[np.float64]
Coins = np.random.Generator
Values = Literal["zipf", "uniform", "disjoint", "identifier"]
Numbers = Literal["normal", "binary", "skewed", "heavy"]

OUTLYING = 20
CANDIDATES = {"few": 25, "some": 60, "many": 200}
RING_SCHEMA = Schema("t", tuple(CANDIDATES), (), "binary", ("n", "y"))
FEATURES = 4
MEANS, SCALES, RATES = 0.3, 0.2, 0.7  # how far parties' means (in deviations), log deviations and logits are apart
FEWEST = 2


@dataclass(frozen=True)
class RingCell:
    """One kind of federation for `ring_size`: what values the parties hold, and how unlike their sizes are."""

    values: Values = "zipf"
    spread: float = 1.0
    parties: int = 5
    encoder: str = "uhe"
    outlying: bool = False
    granted: bool = False
    rows: int = 120
    server: bool = False

    attack = "ring_size"

    @property
    def observers(self) -> tuple[str, ...]:
        """The third party of the ring, which knows two sums; of three parties the first, which knows one; or the
        server, which knows one and has no rows.
        """
        if self.server:
            return ("server",)
        return ("P1",) if self.parties == 3 else ("P3",)

    @property
    def text(self) -> str:
        more = ", dictionaries granted" if self.granted else ""
        return f"{self.encoder}, {self.values}{more}" + (", seen by the server" if self.server else "")


@dataclass(frozen=True)
class StatisticsCell:
    """One kind of federation for `statistics`: how numbers are distributed, how far parties' means are apart in their
    deviations (binary columns always by `RATES`), and who sees which parts of them.
    """

    numbers: Numbers = "normal"
    spread: float = 1.0
    parties: int = 5
    observers: tuple[str, ...] = ("P1",)
    route: Literal["relay", "sealed"] = "sealed"
    passes: Literal[1, 2] = 2
    outlying: bool = False
    rows: int = 60
    apart: float = MEANS

    attack = "statistics"

    @property
    def text(self) -> str:
        one_pass = ", one pass" if self.passes == 1 else ""
        few = f", {self.rows} rows" if self.rows < 60 else ""
        far = f", means {self.apart:g} deviations apart" if self.apart != MEANS else ""
        return f"{self.route}{one_pass}, {self.numbers}{few}{far}"


Cell = RingCell | StatisticsCell


@dataclass(frozen=True)
class Federation:
    """A view with the knowledge granted, the attack, and the truth of a claim beside the size of its unit."""

    view: View
    knowledge: AuxiliaryKnowledge
    attack: Attack
    truth: Callable[[StatisticClaim], tuple[float, float]]


def federation(cell: Cell, seed: int) -> Federation:
    """The federation of that number."""
    return _ring(cell, seed) if isinstance(cell, RingCell) else _statistics(cell, seed)


def party_rows(cell: Cell, coins: Coins) -> list[int]:
    """How many rows each party has; of an outlying one, the last, `OUTLYING` times as many."""
    rows = cell.rows * np.exp(cell.spread * coins.normal(size=cell.parties))
    rows[-1] *= OUTLYING if cell.outlying else 1
    return [max(FEWEST, round(float(r))) for r in rows]


def _ring(cell: RingCell, seed: int) -> Federation:
    tables = ring_tables(cell, seed)
    fed = Simulated(list(tables), secret=pinned(seed))
    encoder = ENCODERS[cell.encoder]()
    encoder.fit(fed, RING_SCHEMA, {p: fed.at(p, t) for p, t in tables.items()})
    sizes = {(p, f): len(set(t.values(f))) for p, t in tables.items() for f in CANDIDATES}
    dictionaries = {f: tuple(sorted({v for t in tables.values() for v in t.values(f)})) for f in CANDIDATES}

    def truth(claim: StatisticClaim) -> tuple[float, float]:
        every = [f for f in CANDIDATES if f == claim.feature or not claim.feature]
        usual = np.mean([sum(sizes[p, f] for f in every) for p in fed.clients])
        return float(sum(sizes[claim.party, f] for f in every)), float(usual)

    agreed = Method(cell.encoder, public_options(encoder))
    public = PublicFacts(fed.clients, fed.server, agreed, schema=RING_SCHEMA.to_plain())
    view = fed.ledger.view(cell.observers, public, inputs={p: t.to_plain() for p, t in tables.items()})
    granted = AuxiliaryKnowledge(dictionaries=dictionaries if cell.granted else {})
    return Federation(view, granted, RingSize(), truth)


def ring_tables(cell: RingCell, seed: int) -> dict[str, Table]:
    """Party -> its table in the federation of that number."""
    coins = np.random.default_rng((1, seed, cell.parties))
    return {f"P{i + 1}": _table(cell, f"P{i + 1}", n, coins) for i, n in enumerate(_shuffled(cell, coins))}


def _shuffled(cell: RingCell, coins: Coins) -> list[int]:
    """The numbers of rows; the outlying party is any but an observer."""
    rows = party_rows(cell, coins)
    if cell.outlying:
        others = [i for i in range(cell.parties) if f"P{i + 1}" not in cell.observers]
        place = int(coins.choice(others))
        rows[place], rows[-1] = rows[-1], rows[place]
    return rows


def value_chances(cell: RingCell, values: int) -> Floats:
    """(values,) how likely each is in a row."""
    chances = 1.0 / np.arange(1, values + 1) if cell.values in ("zipf", "disjoint") else np.ones(values)
    found: Floats = chances / chances.sum()
    return found


def _table(cell: RingCell, party: str, rows: int, coins: Coins) -> Table:
    columns: dict[str, list[str]] = {}
    for feature, k in CANDIDATES.items():
        drawn = coins.choice(k, rows, p=value_chances(cell, k))
        drawn = np.arange(rows) if cell.values == "identifier" else drawn
        own = party if cell.values in ("disjoint", "identifier") else ""
        columns[feature] = [f"v{own}x{int(i):05}" for i in drawn]
    frame = pd.DataFrame({**columns, "t": (["n", "y"] * rows)[:rows]})
    return Table(frame.astype("str"), RING_SCHEMA, "made up")


def _statistics(cell: StatisticsCell, seed: int) -> Federation:
    coins = np.random.default_rng((2, seed, cell.parties))
    fed = Simulated([f"P{i + 1}" for i in range(cell.parties)], secret=pinned(seed))
    parts = dict(zip(fed.clients, _numbers(cell, coins), strict=True))
    scaler = ZScoreSac(sharing="proportional", route=cell.route, passes=cell.passes)
    scaler.fit(fed, {p: fed.at(p, x) for p, x in parts.items()})
    names = [f"f{k}" for k in range(FEATURES)]
    layout = FeatureLayout(tuple(NumericBlock(n, k, integer=False) for k, n in enumerate(names)))
    public = PublicFacts(fed.clients, fed.server, layout=layout, schema={"numeric": names, "categorical": []})
    inputs = {p: {"columns": {n: x[:, k] for k, n in enumerate(names)}} for p, x in parts.items()}
    view = fed.ledger.view(cell.observers, public, inputs=inputs)
    return Federation(view, AuxiliaryKnowledge(), Statistics(), lambda claim: _figure(parts, claim))


def _numbers(cell: StatisticsCell, coins: Coins) -> list[Floats]:
    """(rows, FEATURES) of each party."""
    centre, scale = coins.normal(0, 2, FEATURES), np.exp(coins.normal(0, 1, FEATURES))
    base = coins.normal(0, 1.2, FEATURES)
    found = []
    for party, rows in enumerate(party_rows(cell, coins)):
        away = 3.0 if cell.outlying and party == cell.parties - 1 else 0.0
        if cell.numbers == "binary":
            rate = 1 / (1 + np.exp(-(base + RATES * coins.normal(size=FEATURES) + away)))
            found.append((coins.random((rows, FEATURES)) < rate).astype(np.float64))
            continue
        mean = centre + cell.apart * coins.normal(size=FEATURES) + away
        spread = np.exp(SCALES * coins.normal(size=FEATURES) + away / 3)
        found.append(scale * (mean + spread * _standard(cell.numbers, rows, coins)))
    return found


def _standard(numbers: Numbers, rows: int, coins: Coins) -> Floats:
    """(rows, FEATURES) of mean 0 and deviation 1: normal, log-normal or Student's t with three degrees of freedom."""
    if numbers == "skewed":
        drawn = np.exp(coins.normal(size=(rows, FEATURES)))
        skewed: Floats = (drawn - np.exp(0.5)) / np.sqrt((math.e - 1) * math.e)
        return skewed
    if numbers == "heavy":
        heavy: Floats = coins.standard_t(3, (rows, FEATURES)) / np.sqrt(3)
        return heavy
    return coins.normal(size=(rows, FEATURES))


def _figure(parts: Mapping[str, Floats], claim: StatisticClaim) -> tuple[float, float]:
    """The statistic of a party, and what it is measured in: the mean number of rows, or the pooled deviation."""
    own = parts[claim.party]
    if claim.statistic == "count":
        return float(len(own)), float(np.mean([len(x) for x in parts.values()]))
    k = int(claim.feature[1:])
    pooled, column = np.concatenate([x[:, k] for x in parts.values()]), own[:, k]
    level = float(claim.value or 0.5)
    figures = {"mean": column.mean(), "std": column.std(), "quantile": np.quantile(column, level)}
    figures |= {"minimum": column.min(), "maximum": column.max()}
    return float(figures[claim.statistic]), float(pooled.std())
