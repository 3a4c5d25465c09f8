"""All mechanisms that audits are run on: of statistics and of updates."""

from collections.abc import Iterator

from leakledger.audit.dp_audit import statistics, updates
from leakledger.audit.dp_audit.audited import Audited


def mechanisms() -> Iterator[Audited]:
    yield from statistics.mechanisms()
    yield from updates.mechanisms()
