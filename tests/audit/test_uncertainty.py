from dataclasses import replace

import numpy as np
import pytest
from pydantic import TypeAdapter

from leakledger.attacks.base import RecordsClaim
from leakledger.audit.benchmarks.base import Options
from leakledger.audit.benchmarks.entropy import BUCKETS, MEANS, OF_128, measure, within
from leakledger.audit.records import Bucket, RecoveredRecord
from leakledger.audit.scoring.cells import bounds
from leakledger.audit.uncertainty import SUREST, surest
from tests.audit.example import truth

T = truth()
VICTIM = T.parties[0]
BATCH = T.batch(VICTIM, 0)


def claim(doubt, verified=None, rows=BATCH):
    each = np.asarray(doubt, float)[:, None]
    entropy = [np.repeat(each, cells.shape[1], 1) for cells in (rows.categories, rows.numbers)]
    return RecordsClaim(VICTIM, 0, rows.categories, rows.numbers, *entropy, (), None, verified)


def kept(claim):
    return surest("a", ("server",), [claim], T)


def doubts(records):
    return [r.cells[0].entropy for r in records]


def test_the_surest_rows_are_kept_whether_right_or_wrong():
    wrong = replace(claim([0.9, 0.1, 0.5, 0.3]), categories=np.zeros_like(BATCH.categories))
    assert doubts(kept(wrong)) == doubts(kept(claim([0.9, 0.1, 0.5, 0.3]))) == [0.1, 0.3, 0.5]


def test_proven_rows_are_kept_first_and_marked():
    records = kept(claim([0.0, 0.1, 0.2, 0.9], np.array([False, False, False, True])))
    assert doubts(records) == [0.9, 0.0, 0.1]
    assert [r.verified for r in records] == [True, False, False]


def test_rows_without_an_entropy_come_last_and_can_be_stored():
    records = kept(claim([np.nan, 0.4, np.nan, 0.2]))
    assert doubts(records) == [0.2, 0.4, None]
    keeper = TypeAdapter(tuple[RecoveredRecord, ...])
    assert keeper.validate_json(keeper.dump_json(records)) == records


def test_a_claim_of_fewer_rows_than_are_kept_keeps_them_all():
    rows = BATCH.take(np.array([2]))
    (record,) = kept(claim([0.3], rows=rows))
    assert all(cell.correct for cell in record.cells)
    assert SUREST > 1
    assert kept(claim([], rows=BATCH.take(np.array([], int)))) == ()


def test_a_claimed_cell_keeps_the_true_one_beside_it_and_they_agree_where_it_is_right():
    wrong = replace(claim([0.1] * len(BATCH.categories)), categories=1 - BATCH.categories.clip(0, 1))
    for record in (*kept(wrong), *kept(claim([0.1] * len(BATCH.categories)))):
        categorical = [c for c in record.cells if c.kind == "categorical"]
        assert all(c.truth for c in record.cells)
        assert all((c.truth == c.value) == c.correct for c in categorical)


def test_a_claimed_row_beyond_the_true_ones_has_no_truth():
    rows = BATCH.take(np.array([*range(len(BATCH.categories)), 0]))
    records = kept(claim([0.1] * (len(rows.categories) - 1) + [0.0], rows=rows))
    twice = [r for r in records if not r.cells[0].truth]
    assert len(twice) <= 1
    assert all(not c.correct for r in twice for c in r.cells)


def test_rows_are_judged_in_the_order_in_which_they_are_claimed():
    around = np.array([1, 2, 0, 3])  # its own inverse it is not
    rows = BATCH.take(around)
    assert all(cell.correct for record in kept(claim([0.1, 0.2, 0.3, 0.4], rows=rows)) for cell in record.cells)
    wrong = replace(rows, categories=np.where(np.arange(4)[:, None] == 0, -1, rows.categories))
    first, second, third = kept(claim([0.1, 0.2, 0.3, 0.4], rows=wrong))
    assert not any(c.correct for c in first.cells if c.kind == "categorical")
    assert all(c.correct for record in (second, third) for c in record.cells)


def test_rows_of_numbers_alone_are_ranked_by_the_entropy_of_numbers():
    numeric = truth(data={"source": "breast_cancer", "rows": 60}, training={"rounds": 1})
    batch = numeric.batch(numeric.parties[0], 0)
    assert batch.categories.shape[1] == 0
    made = replace(claim([0.9, 0.1, 0.5, 0.3], rows=batch), victim=numeric.parties[0])
    assert doubts(surest("a", ("server",), [made], numeric)) == [0.1, 0.3, 0.5]


@pytest.mark.parametrize("kind", BUCKETS)
def test_every_bucket_of_the_audit_lies_in_exactly_one_of_the_paper(kind):
    for low, high in bounds(kind):
        bucket = Bucket(kind, low, high, 1, 1, 0.5)
        assert sum(within(bucket, *ends) for ends in BUCKETS[kind]) == 1


@pytest.mark.parametrize("dataset", OF_128)
@pytest.mark.parametrize("kind", BUCKETS)
def test_published_buckets_add_up_to_the_published_whole(dataset, kind):
    rows = OF_128[dataset][kind]
    whole = sum(share for _, share in rows)
    assert whole == pytest.approx(100, abs=1)  # as printed: 99.1 for numeric cells of german
    mean = sum(accuracy * share for accuracy, share in rows) / whole
    assert mean == pytest.approx(MEANS[dataset][kind][128][0], abs=0.1)


@pytest.mark.slow
def test_the_entropy_benchmark_measures_buckets_that_hold_every_cell():
    rows = {r.metric: r for r in measure(Options(jobs=1), "breast_cancer", "default", 2, seeds=1)}
    shares = [r.measured for name, r in rows.items() if name.startswith("numeric cells, entropy")]
    assert len(shares) == len(BUCKETS["numeric"])
    assert sum(shares) == pytest.approx(100)
    assert rows["numeric entropy"].unit == "nats"
    surest, everything = rows["numeric accuracy, surest 10%"], rows["numeric accuracy"]
    assert surest.n == everything.n == 4
    assert surest.published is everything.published is None  # no figure of the paper belongs to this table
