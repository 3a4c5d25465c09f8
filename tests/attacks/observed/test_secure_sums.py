"""Which secure sums a view holds whole, and what their numbers are about."""

from dataclasses import replace

from leakledger.attacks.observed.secure_sums import Slot, secure_sums
from leakledger.preprocess.messages import SECURE_SUMS
from leakledger.preprocess.scalers.zscore_sac import ZScoreSac
from leakledger.preprocess.views import CategoricalBlock, FeatureLayout, NumericBlock
from tests.attacks.statistics_example import public, tables, view_of

PARTS = tables(features=4)
PART = SECURE_SUMS["zscore-sac.mean"].part


def without(view, sender, recipient):
    """The view less the part that one client told another of the first sum."""
    dropped = list(view.on(PART, sender=sender, recipient=recipient))
    assert len(dropped) == 1
    return replace(view, messages=tuple(m for m in view.messages if m not in dropped))


def test_the_sums_of_a_pass_are_found_whole_and_in_order():
    found, problems = secure_sums(view_of(PARTS, ["P1"], ZScoreSac(route="direct")))
    assert [(r.base, r.stage) for r in found] == [("zscore-sac", "mean"), ("zscore-sac", "variance")]
    assert problems == []
    assert found[0].clients == ("P1", "P2", "P3", "P4")
    assert set(found[0].parts) == {pair for o in ("P2", "P3", "P4") for pair in (("P1", o), (o, "P1"))}


def test_a_part_that_the_observer_sent_or_received_must_be_there():
    view = view_of(PARTS, ["P1"], ZScoreSac(route="direct"))
    for sender, recipient in (("P1", "P3"), ("P3", "P1")):
        found, problems = secure_sums(without(view, sender, recipient))
        assert [r.stage for r in found] == ["variance"]
        assert len(problems) == 1
        assert f"the part of {sender} to {recipient} is missing" in problems[0]


def test_an_open_relay_must_have_passed_on_every_part_and_a_sealed_one_none():
    view = view_of(PARTS, ["server"], ZScoreSac(route="relay"))
    assert len(secure_sums(view)[0]) == 2
    assert "the part of P2 to P4 is missing" in secure_sums(without(view, "P2", "P4"))[1][0]
    found, problems = secure_sums(view_of(PARTS, ["server", "P1"], ZScoreSac(route="sealed")))
    assert ([r.stage for r in found], problems) == (["mean", "variance"], [])


def test_where_numbers_fit_two_sets_of_columns_the_announced_means_decide():
    """Eight numbers: a count and seven sums, or four counts and four sums."""
    parts = tables(features=7)
    numeric, values = ("f0", "f1", "f2", "f3"), ("x", "y", "z")
    blocks = (*(NumericBlock(n, i) for i, n in enumerate(numeric)), CategoricalBlock("ward", 4, 3, values))
    known = replace(
        public(parts), layout=FeatureLayout(blocks), schema={"numeric": list(numeric), "categorical": ["ward"]}
    )
    found, problems = secure_sums(replace(view_of(parts, ["P1"], ZScoreSac()), public=known))
    assert problems == []
    assert found[0].slots == (
        Slot("count"),
        *(Slot("sum", n) for n in numeric),
        *(Slot("sum", "ward", v) for v in values),
    )
