from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from leakledger.audit.records import Ruling
from leakledger.reports.html import render
from leakledger.reports.plane import planes
from tests.reports.example import METHODS, example, scored, scores, setting, utility
from tests.reports.page import parse

unit = st.sampled_from([i / 8 for i in range(9)])
places = st.lists(st.tuples(unit, unit, st.booleans()), min_size=1, max_size=8)


def plane(points):
    """The plane of settings at (F1, advantage, reference)."""
    settings, found, useful = {}, [], []
    for i, (f1, advantage, reference) in enumerate(points, 1):
        settings[i] = replace(setting(1), id=str(i), reference=reference)
        found.append(replace(scores(1, settings[i])[0], **scored(advantage, 0.0, 0.0)))
        useful.append(replace(utility(1, settings[i])[0], value=f1))
    return planes(settings, found, useful, ())[0]


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
    drawn = planes(settings, record.scores, record.utility, ())
    assert [p.asset for p in drawn] == ["records", "statistics"]
    assert all(p.metric == "f1" and len(p.points) == len(METHODS) and p.absent == () for p in drawn)


def test_a_setting_without_a_score_or_a_utility_is_absent_and_not_at_zero():
    settings = {1: setting(1), 2: setting(2), 3: setting(4)}
    drawn = planes(
        settings, scores(1, setting(1)) + scores(2, setting(2)), utility(1, setting(1)) + utility(4, setting(4)), ()
    )
    assert [p.number for p in drawn[0].points] == [1]
    assert drawn[0].absent == (setting(2), setting(4))


def test_costs_alone_make_no_plane():
    costs = [u for u in utility(1, setting(1)) if u.metric in {"bytes", "rounds"}]
    assert planes({1: setting(1)}, scores(1, setting(1)), costs, ()) == ()


def test_levels_of_records_are_never_compared():
    settings = {1: setting(1), 2: setting(4)}
    by_value, by_code = (next(s for s in scores(i, setting(i)) if s.asset == "records") for i in (1, 4))
    found = [replace(by_value, level="value"), replace(by_code, level="code")]
    drawn = planes(settings, found, utility(1, setting(1)) + utility(4, setting(4)), ())
    assert [(p.asset, p.level, [x.number for x in p.points]) for p in drawn] == [
        ("records", "value", [1]),
        ("records", "code", [2]),
    ]


def test_the_page_says_at_which_level_a_setting_without_a_point_was_not_scored():
    """It may well be scored at another one, and have its point in the next figure."""
    record = example()
    other = record.scores[-1].setting
    levels = {True: "code", False: "value"}
    found = tuple(replace(s, level=levels[s.setting == other]) for s in record.scores if s.asset == "records")
    words = parse(render(replace(record, scores=found))).by_id("plane").words
    for known in ("by their values", "by the codes that a method makes of values"):
        assert f"because a utility or a scored attack on cells of rows known {known} is missing" in words


def test_a_setting_whose_verdict_is_open_neither_is_on_the_front_nor_dominates():
    settings = {1: setting(1), 2: setting(3)}  # the second leaks less, at a lower utility
    found = scores(1, setting(1)) + [replace(s, advantage=-0.2) for s in scores(3, setting(3))]
    useful = utility(1, setting(1)) + [replace(u, value=0.99) for u in utility(3, setting(3))]
    rulings = [
        Ruling(setting(1).id, "server", "records", "leaks", 0.1),
        Ruling(setting(3).id, "server", "records", "inconclusive", 0.1),
    ]
    drawn = planes(settings, found, useful, rulings)[0]
    assert [p.kind for p in drawn.points] == ["on the front", "inconclusive"]
    assert drawn.points[1].leakage == 0  # worse than the prior is as good as none
    decided = planes(settings, found, useful, [replace(r, verdict="no leak") for r in rulings])[0]
    assert [p.kind for p in decided.points] == ["dominated", "on the front"]
