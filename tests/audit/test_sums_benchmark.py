from leakledger.audit.benchmarks.base import Options
from leakledger.audit.benchmarks.sums import measured


def test_rows_of_sums_say_over_how_many_clients_and_how_often_the_owner_is_right():
    rows = {r.metric: r for r in measured(Options(jobs=1), "fair", "span", 2, 2)}
    assert rows["identical_rows"].setting["clients"] == 2
    assert rows["identical_rows"].n == 2
    assert rows["owner"].measured >= 0
    assert rows["owner, by chance"].measured == 50.0
    assert rows["false_verified"].measured == 0.0


def test_a_sum_without_an_identical_row_says_nothing_of_owners():
    rows = {r.metric: r for r in measured(Options(jobs=1), "breast_cancer", "linear_layer", 12, 1)}
    assert rows["identical_rows"].measured == 0.0
    assert "owner" not in rows
