from hypothesis import given
from hypothesis import strategies as st

from leakledger.attacks.gradient.tableak_fedavg.memory import bytes_per_restart, chunks
from leakledger.attacks.observed.tabular import StructuralPrior
from leakledger.attacks.observed.update import Schedule
from leakledger.preprocess.views import FeatureLayout, ModelSpec, NumericBlock


@given(st.integers(1, 6), st.integers(0, 4), st.integers(0, 9), st.integers(1, 30))
def test_every_restart_of_every_victim_runs_once_and_no_more_than_fit_run_together(victims, first, count, capacity):
    parts = [(range(victims)[some], part) for some, part in chunks(victims, range(first, first + count), capacity)]
    assert all(len(some) * len(part) <= capacity for some, part in parts)
    runs = [(v, r) for some, part in parts for v in some for r in part]
    assert sorted(runs) == [(v, r) for v in range(victims) for r in range(first, first + count)]


def test_a_restart_occupies_more_the_more_rows_and_steps_there_are():
    spec, prior = ModelSpec(1, 2, (8,)), StructuralPrior(FeatureLayout((NumericBlock("age", 0),)), {})
    schedules = [Schedule(4, 1, 4, 0.1), Schedule(4, 1, 2, 0.1), Schedule(4, 2, 2, 0.1)]
    sizes = [bytes_per_restart(spec, prior, s, 4) for s in schedules]
    assert sizes == sorted(set(sizes))
    assert bytes_per_restart(spec, prior, schedules[0], 8) == 2 * sizes[0]
