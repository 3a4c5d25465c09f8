"""Which columns an update moves says which values its rows have, also of one that was taken out of what hid it."""

import pytest

from leakledger.attacks import ATTACKS
from leakledger.attacks.base import AuxiliaryKnowledge
from leakledger.attacks.observed.columns import observed_columns
from leakledger.audit.play import view_of
from tests.audit.example import truth


@pytest.mark.parametrize("algorithm", ["fedsgd", "fedavg"])
@pytest.mark.parametrize("aggregation", ["plain", "secure-aggregation", "he-aggregation"])
def test_columns_that_an_update_moves_are_those_of_its_rows_and_sizes_from_them_are_true(aggregation, algorithm):
    found = truth(
        data={"source": "fair", "rows": 60},
        partition={"kind": "dirichlet-labels", "parties": 3, "minimum": 5, "beta": 2.0},
        preprocessing=[{"encoder": "dh-psi", "scaler": "local"}],
        model={"hidden": [4]},
        training={"algorithm": algorithm, "rounds": 2, "batch_size": None, "aggregation": aggregation},
    )
    view = view_of(["server", "P1", "P2"], found)
    (columns,) = [c for c in observed_columns(view) if c.party == "P3"]
    blocks = view.public.layout.categorical
    moved = [columns.active[b.start : b.start + b.size].sum() for b in blocks]
    held = [found.statistic("P3", b.feature, "size") for b in blocks]
    assert all(m <= h for m, h in zip(moved, held, strict=True))
    assert sum(moved) >= sum(held) - 1  # a batch may not have all values
    ring_size = ATTACKS["ring_size"]()
    claims = ring_size.run(view.restricted(ring_size.accepts), AuxiliaryKnowledge())
    exact = {c.feature: c.estimate for c in claims if c.low == c.high}
    assert exact == {"": sum(held)} | {b.feature: h for b, h in zip(blocks, held, strict=True)}
