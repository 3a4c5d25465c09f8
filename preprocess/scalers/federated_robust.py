"""`federated-robust`: (x - median) / (third quartile - first) by the quartiles of all rows, which a search finds.

Source: "Bridging Local and Federated Data Normalization in Federated Learning", algorithms 2 and 3 without their
encryption: each client tells the server how many rows it has, and at every midpoint of the search how many of its
values are below and above. All columns and all three quartiles are searched at once; a round has one message each way
for each client. `quantile_search` has the readings where the algorithm leaves room.

The search begins at the global extremes (algorithm 2, line 19), for which clients send their own as under
`federated-minmax`; with `search_from = "declared"` at the declared ranges, and no extreme is sent. A value outside is
an error at its party, before that sends anything.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, Self

import numpy as np

from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.federation import At, Federation, Public
from leakledger.preprocess.messages import GlobalExtremes, GlobalRanks, LocalRows, SearchPoints, TotalRows
from leakledger.preprocess.noise.columns import Ranges, declared_ranges
from leakledger.preprocess.options import check_options, option
from leakledger.preprocess.scalers.base import (
    Matrix,
    PublicScaling,
    Scaler,
    ScalerFit,
    check_ranges,
    shared_fit,
)
from leakledger.preprocess.scalers.federated_minmax import global_extremes, local_extremes
from leakledger.preprocess.scalers.one_party import check_columns, of_quartiles
from leakledger.preprocess.scalers.quantile_search import Search, local_ranks, searched, start, summed
from leakledger.preprocess.views import Mechanism


@dataclass(frozen=True)
class FederatedRobust(Scaler):
    """`ranges` are set by `under` where the bounds are declared ones."""

    search_from: Literal["extremes", "declared"] = option(
        "extremes", help='where the search begins: at global extremes, which clients tell, or at declared "ranges"'
    )
    search_precision: float = option(1e-4, above=0, help="the epsilon of the search, in raw units")
    at_points: Literal["counted", "left-out"] = option(
        "counted",
        help="values equal to a midpoint count as below, as printed; or as neither: exact searches end",
    )
    ranks_to: Literal["server", "everyone"] = option("server", help="who learns the global counts at midpoints")
    ranges: Ranges | None = None

    name = "federated-robust"
    reference = "Bridging Local and Federated Data Normalization in Federated Learning, algorithms 2 and 3"
    by_quartiles = True
    said_to_share = (
        "each client's rows, extremes and counts at midpoints, with the server; midpoints and quartiles, with all "
        "(ours: section V encrypts what clients send)"
    )

    def __post_init__(self) -> None:
        check_options(self)
        check_columns("robust", self.columns)

    @property
    def searched_to(self) -> float:
        return self.search_precision

    @property
    def needs_ranges(self) -> bool:
        return self.search_from == "declared"

    def under(self, schema: Schema) -> Self:
        if not self.needs_ranges:
            return self
        return replace(self, ranges=declared_ranges(schema.numeric, dict(schema.ranges), self.name, "the search"))

    def mechanisms(self, schema: Schema) -> tuple[Mechanism, ...]:
        """None. Raises ValueError for a range that is missing."""
        self.under(schema)
        return ()

    def fit(self, fed: Federation, columns: Mapping[str, At[Matrix]]) -> ScalerFit:
        """Raises ValueError, naming party and feature, for a value outside its declared range."""
        if self.search_from == "declared":
            if self.ranges is None:
                raise ValueError(f"{self.name} was not told the declared ranges: call under(schema) first")
            columns = {c: fed.local(c, check_ranges, x, self.ranges, c, self.name) for c, x in columns.items()}
        rows = fed.gather({c: fed.local(c, row_count, x) for c, x in columns.items()}, to=fed.server)
        total = fed.broadcast(fed.local(fed.server, row_total, *rows))
        ends = self.ends(fed, columns)
        points = self.search(fed, columns, total, ends)
        return shared_fit(fed, columns, fed.public(as_public, points, ends))

    def ends(self, fed: Federation, columns: Mapping[str, At[Matrix]]) -> Public[GlobalExtremes]:
        """Where the search begins, and the bounds that are public afterwards."""
        if self.ranges is not None:
            return fed.public(declared_ends, self.ranges)
        told = fed.gather({c: fed.local(c, local_extremes, x) for c, x in columns.items()}, to=fed.server)
        return fed.broadcast(fed.local(fed.server, global_extremes, *told))

    def search(
        self,
        fed: Federation,
        columns: Mapping[str, At[Matrix]],
        total: Public[TotalRows],
        ends: Public[GlobalExtremes],
    ) -> Public[SearchPoints]:
        """Algorithm 3; a round ends with the midpoints of the next, and the last one with the quartiles."""
        ordered = {c: fed.local(c, partial(np.sort, axis=0), x) for c, x in columns.items()}
        strict = self.at_points == "left-out"

        def told(points: Public[SearchPoints]) -> At[GlobalRanks]:
            ranks = {c: fed.local(c, local_ranks, x, points, strict) for c, x in ordered.items()}
            added = fed.local(fed.server, summed, *fed.gather(ranks, to=fed.server))
            if self.ranks_to == "everyone":
                fed.broadcast(added)
            return added

        return searched(fed, fed.local(fed.server, begun, total, ends), told, self.search_precision)


def row_count(columns: Matrix) -> LocalRows:
    return LocalRows(len(columns))


def row_total(*parts: LocalRows) -> TotalRows:
    return TotalRows(sum(p.count for p in parts))


def declared_ends(ranges: Ranges) -> GlobalExtremes:
    return GlobalExtremes(ranges.low, ranges.high)


def begun(total: TotalRows, ends: GlobalExtremes) -> Search:
    return start(total.count, ends.minimum, ends.maximum)


def as_public(points: SearchPoints, ends: GlobalExtremes) -> PublicScaling:
    return of_quartiles(points.point, ends.minimum, ends.maximum)
