"""Which features each party sees, and under which names (FedLLM-Align, section 4.2).

A share of the features is seen by all parties, "and the remaining features [are] partitioned into client-specific
subsets": each of the others goes to exactly one party. Names are drawn independently for each party and feature. The
paper gives ratios ("approximately 60 %") and not how they round: here to the nearest number of features, at least one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leakledger.preprocess.alignment.aliases import Aliases
from leakledger.preprocess.data.errors import DataError

OVERLAP = {3: 0.6, 5: 0.5, 10: 0.4}  # of the paper, by the number of clients


def published_overlap(parties: int) -> float:
    """That of the largest federation of the paper that has no more clients, or of its smallest."""
    return OVERLAP[max((n for n in OVERLAP if n <= parties), default=min(OVERLAP))]


@dataclass(frozen=True)
class PartySchema:
    """The features that a party sees, in its order, and the name that it has for each."""

    features: tuple[str, ...]
    names: tuple[str, ...]


def draw_schemas(
    features: Sequence[str], parties: Sequence[str], overlap: float, aliases: Aliases, coins: np.random.Generator
) -> dict[str, PartySchema]:
    """A schema for each party; features in the order of the table. Raises DataError for an overlap outside (0, 1]."""
    if not 0 < overlap <= 1:
        raise DataError(f"overlap is {overlap}; it is the share of features that all parties see, above 0, at most 1")
    shared = max(1, round(overlap * len(features)))
    order = [features[i] for i in coins.permutation(len(features))]
    seen = {p: set(order[:shared]) for p in parties}
    owners = coins.permutation(len(parties))
    for i, feature in enumerate(order[shared:]):
        seen[parties[owners[i % len(parties)]]].add(feature)
    return {p: _named([f for f in features if f in own], aliases, coins) for p, own in seen.items()}


def common_features(schemas: Sequence[PartySchema]) -> list[str]:
    """The features that all parties see, in the order of the table."""
    return [f for f in schemas[0].features if all(f in s.features for s in schemas)]


def _named(features: Sequence[str], aliases: Aliases, coins: np.random.Generator) -> PartySchema:
    return PartySchema(tuple(features), tuple(str(coins.choice(aliases[f])) for f in features))
