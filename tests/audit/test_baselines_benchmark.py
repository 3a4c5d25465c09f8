import pytest

from leakledger.audit.benchmarks import baselines
from leakledger.audit.benchmarks.base import Options
from leakledger.audit.benchmarks.know_nothing import LIBRARY


@pytest.fixture(scope="module")
def rows():
    return list(baselines.run(Options(quick=True, seeds=1, jobs=1)))


@pytest.mark.slow
def test_every_adversary_is_measured_against_both_baselines(rows):
    for baseline in (baselines.OLD, baselines.NEW):
        who = [
            r.setting.get("adversary") for r in rows if r.setting.get("baseline") == baseline and "accuracy" in r.metric
        ]
        assert who == [None, *LIBRARY]
    assert {r.n for r in rows} == {4}


@pytest.mark.slow
def test_the_page_has_the_strongest_adversary_against_each_baseline(rows):
    gains = {
        r.setting["adversary"]: r.measured
        for r in rows
        if r.metric == "advantage, accuracy" and r.setting["baseline"] == baselines.OLD
    }
    strongest = max(gains, key=gains.get)
    _, _, first, *_ = baselines.markdown(rows).splitlines()
    assert f"{strongest} {gains[strongest]:+.2f}" in first
