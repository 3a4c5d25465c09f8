"""The numbers that parties gave observers of values that both hold, whatever intersection told them.

A label is a number of the ring as its sender was allotted it, so it lies in the sender's range, and labels of a feature
rise in the order in which parties number their values.
"""

from collections.abc import Iterator, Mapping
from itertools import chain

from leakledger.attacks.transcript.holdings.labelled import labels_of_answers
from leakledger.attacks.transcript.holdings.pairwise import Labels, labels_of_pairs
from leakledger.attacks.transcript.holdings.positions import labels_of_positions
from leakledger.preprocess.messages import (
    ApsiAnswer,
    ApsiEvaluation,
    ApsiRequest,
    DhAnswer,
    DhRequest,
    OtmpAnswer,
    OtmpMatches,
    OtmpNumbers,
    OtmpPositions,
    OtmpRequest,
    OtmpShares,
)
from leakledger.preprocess.views import View

INTERSECTED = (
    *(DhRequest, DhAnswer, ApsiRequest, ApsiEvaluation, ApsiAnswer),
    *(OtmpRequest, OtmpAnswer, OtmpShares, OtmpMatches),
)
"""The kinds of message by which a party learns which of its values another one holds."""
LABELLED = (*INTERSECTED, OtmpPositions, OtmpNumbers)


def labels_of(view: View, candidates: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, Labels, frozenset[int]]]:
    """(sender, its labels of values that are known to be its own, messages), for every sender outside."""
    for one in chain(labels_of_pairs(view, candidates), labels_of_answers(view, candidates)):
        yield one.sender, one.labels, frozenset(m.sequence for m in one.behind)
    yield from labels_of_positions(view, candidates)
