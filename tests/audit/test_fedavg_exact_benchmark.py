from leakledger.audit.benchmarks.base import Options
from leakledger.audit.benchmarks.fedavg import PUBLISHED
from leakledger.audit.benchmarks.fedavg_exact import BEYOND, CELLS, FULL_ROW_SPACE, Experiment, measure, plays


def test_the_portfolio_plays_every_published_cell_and_span_goes_beyond():
    cells = {(batches, epochs) for epochs, row in PUBLISHED["adult"].items() for batches in row}
    assert {s.cell for s in CELLS} == cells
    assert {(s.attack, s.rows, s.rate, s.before) for s in CELLS} == {("portfolio", 32, 0.01, 0)}
    assert plays("adult") == CELLS + BEYOND
    assert plays("bank_churn") == FULL_ROW_SPACE + BEYOND
    assert plays("bank_churn", quick=True) == CELLS[:1]


def test_rows_count_every_client_and_name_what_differs():
    what = Experiment("span", (2, 2), rows=4, rate=0.05, before=2)
    rows = {r.metric: r for r in measure(Options(jobs=1), "breast_cancer", what, 1)}
    assert {r.setting["learning rate"] for r in rows.values()} == {0.05}
    assert {r.setting["rounds trained"] for r in rows.values()} == {2}
    assert rows["identical_rows"].n == 4
    assert rows["identical_rows"].measured > 50
    assert rows["false_verified"].measured == 0
    assert rows["accuracy"].published is None


def test_a_client_about_whom_nothing_is_claimed_counts_as_not_recovered():
    rows = {r.metric: r for r in measure(Options(jobs=1), "breast_cancer", Experiment("span", (4, 1), rows=64), 1)}
    assert (rows["identical_rows"].measured, rows["identical_rows"].n) == (0, 4)
