from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from leakledger.reports.plane import planes
from tests.reports.example import METHODS, example, scored, scores, setting, utility

unit = st.sampled_from([i / 8 for i in range(9)])
places = st.lists(st.tuples(unit, unit, st.booleans()), min_size=1, max_size=8)


def plane(points):
    """The plane of settings at (F1, advantage, reference)."""
    settings, found, useful = {}, [], []
    for i, (f1, advantage, reference) in enumerate(points, 1):
        settings[i] = replace(setting(1), id=str(i), reference=reference)
        found.append(replace(scores(1, settings[i])[0], **scored(advantage, 0.0, 0.0)))
        useful.append(replace(utility(1, settings[i])[0], value=f1))
    return planes(settings, found, useful)[0]


@given(places)
def test_exactly_the_settings_that_none_beats_are_on_the_front(points):
    runnable = [(f1, leak) for f1, leak, reference in points if not reference]
    for point, (f1, leak, reference) in zip(plane(points).points, points, strict=True):
        beaten = any(u >= f1 and v <= leak and (u, v) != (f1, leak) for u, v in runnable)
        assert point.kind == ("reference" if reference else "dominated" if beaten else "on the front")


@given(places)
def test_along_the_front_more_utility_never_leaks_less(points):
    front = [(p.utility.value, p.leakage) for p in plane(points).front]
    assert front == sorted(front)
    assert [leak for _, leak in front] == sorted(leak for _, leak in front)


def test_each_asset_has_a_plane_of_its_own():
    record = example()
    settings = {i: setting(i) for i in range(len(METHODS))}
    drawn = planes(settings, record.scores, record.utility)
    assert [p.asset for p in drawn] == ["records", "statistics"]
    assert all(p.metric == "f1" and len(p.points) == len(METHODS) and p.absent == () for p in drawn)


def test_a_setting_without_a_score_or_a_utility_is_absent_and_not_at_zero():
    settings = {1: setting(1), 2: setting(2), 3: setting(4)}
    drawn = planes(
        settings, scores(1, setting(1)) + scores(2, setting(2)), utility(1, setting(1)) + utility(4, setting(4))
    )
    assert [p.number for p in drawn[0].points] == [1]
    assert drawn[0].absent == (setting(2), setting(4))


def test_costs_alone_make_no_plane():
    costs = [u for u in utility(1, setting(1)) if u.metric in {"bytes", "rounds"}]
    assert planes({1: setting(1)}, scores(1, setting(1)), costs) == ()
