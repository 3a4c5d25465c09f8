from dataclasses import replace

import numpy as np
import pytest

from leakledger.attacks.base import Abstained, AuxiliaryKnowledge, NotApplicable
from leakledger.attacks.observed.secure_sums import secure_sums
from leakledger.attacks.transcript.sac_audit import SacAudit
from leakledger.preprocess.messages import SumPart
from leakledger.preprocess.scalers.federated_zscore import FederatedZScore
from leakledger.preprocess.scalers.zscore_sac import ZScoreSac
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.transport.simulated import Simulated
from leakledger.preprocess.views import Method
from leakledger.preprocess.wire import encode
from tests.attacks.statistics_example import public, tables, view_of

PARTS = tables(features=4)


def run(view):
    return SacAudit().run(view, AuxiliaryKnowledge())


def fired(view, check):
    outcome = run(view)
    return [] if isinstance(outcome, Abstained | NotApplicable) else [c for c in outcome if c.check == check]


def with_parts(view, change):
    """The view with every part changed by `change(part, message)`."""
    messages = []
    for m in view.messages:
        if issubclass(m.kind, SumPart):
            body = encode(change(m.payload.numbers, m))
            m = replace(m, body=body, content=body)
        messages.append(m)
    return replace(view, messages=tuple(messages))


def test_parts_in_proportion_are_recognised_and_name_the_parts():
    view = view_of(PARTS, ["P1", "P2"], ZScoreSac(route="direct"))
    found = fired(view, "parts-not-hiding")
    assert [c.party for c in found] == ["P3", "P4"]
    topics = {m.sequence: (m.topic[-5:], m.sender) for m in view.messages}
    assert all({topics[n] for n in c.evidence} == {(".part", c.party)} for c in found)


def test_elements_of_a_ring_are_not_taken_for_parts_in_proportion():
    assert not fired(view_of(PARTS, ["P1", "P2"], ZScoreSac(sharing="ring", route="direct")), "parts-not-hiding")


def test_one_part_of_another_sign_and_the_check_does_not_fire():
    view = view_of(PARTS, ["P1", "P2"], ZScoreSac(route="direct"))
    signed = with_parts(view, lambda p, m: p * np.where((np.arange(len(p)) == 1) & (m.recipient == "P1"), -1, 1))
    assert not fired(signed, "parts-not-hiding")


@pytest.mark.parametrize("sharing", ["proportional", "ring"])
def test_fresh_masks_do_not_fire(sharing):
    view = view_of(PARTS, ["server"], *[ZScoreSac(sharing=sharing)] * 2)
    assert not fired(view, "masks-reused")


def test_two_numbers_split_by_the_same_proportions_fire():
    share = {"P1": 0.2, "P2": 0.3, "P3": 0.1, "P4": 0.4}
    view = with_parts(
        view_of(PARTS, ["P1", "P2"], ZScoreSac(route="direct")), lambda p, m: np.full(len(p), 3.0) * share[m.recipient]
    )
    assert {c.party for c in fired(view, "masks-reused")} == {"P3", "P4"}
    assert all(len(c.evidence) == 2 for c in fired(view, "masks-reused"))


@pytest.mark.parametrize("sharing", ["proportional", "ring"])
def test_of_tables_without_numbers_only_the_rows_are_summed_up_and_the_checks_still_run(sharing):
    view = view_of(tables(features=0), ["P1"], ZScoreSac(sharing=sharing, route="direct"))
    assert {len(r.slots) for r in secure_sums(view)[0]} == {0, 1}  # the second sum has no number
    assert {c.check for c in run(view)} == {"coalition"}


def test_numbers_split_by_nearly_the_same_proportions_do_not_fire():
    def split(part, m):
        number = np.arange(len(part)) + 10 * ("variance" in m.topic)
        return 1 + 1e-8 * number if m.recipient == "P2" else np.full(len(part), 0.5)

    view = with_parts(view_of(PARTS, ["P1", "P2"], ZScoreSac(route="direct")), split)
    assert not fired(view, "masks-reused")


def test_an_element_of_a_ring_given_twice_fires():
    view = view_of(PARTS, ["P1"], ZScoreSac(sharing="ring", route="direct"))
    again = with_parts(view, lambda p, m: p[[0, *range(len(p) - 1)]] if m.sender == "P2" else p)
    assert [c.party for c in fired(again, "masks-reused")] == ["P2"]


def test_an_element_of_zero_is_no_mask():
    view = view_of(PARTS, ["P1"], ZScoreSac(sharing="ring", route="direct"))
    assert not fired(with_parts(view, lambda p, m: np.zeros_like(p)), "masks-reused")


def test_the_same_coins_in_two_rounds_fire():
    fed = Simulated(["P1", "P2", "P3"], secret=pinned(0))
    again = Simulated(["P1", "P2", "P3"], secret=pinned(0))
    for f in (fed, again):
        ZScoreSac(route="direct").fit(f, {c: f.at(c, x) for c, x in zip(f.clients, PARTS, strict=False)})
    shown = public(PARTS[:3])
    first, second = (f.ledger.view(["P1"], shown).messages for f in (fed, again))
    both = (*first, *(replace(m, sequence=m.sequence + 1000) for m in second))
    assert {c.party for c in fired(replace(fed.ledger.view(["P1"], shown), messages=both), "masks-reused")} == {
        "P2",
        "P3",
    }


@pytest.mark.parametrize("sharing", ["proportional", "ring"])
@pytest.mark.parametrize(
    ("parties", "route", "words", "victims"),
    [
        (4, "relay", "server can", ["P2", "P3", "P4"]),
        (3, "sealed", "P1 and P2 can", ["P3"]),
        (4, "direct", "P1 and P2 and P3 can", ["P4"]),
        (5, "sealed", "", []),
    ],
)
def test_the_smallest_coalition_is_the_reading_relay_or_all_but_one_client(sharing, parties, route, words, victims):
    view = view_of(tables((9, 8, 7, 6, 5)[:parties]), ["P1"], ZScoreSac(sharing=sharing, route=route))
    found = fired(view, "coalition")
    assert [c.party for c in found] == victims
    assert all(c.text.startswith(words) for c in found)


@pytest.mark.parametrize("observer", ["P1", "P2", "P4"])
def test_whoever_a_coalition_determines_behind_seals_a_reading_relay_does_too(observer):
    parties = tables((9, 8, 7, 6))
    sealed, read = (
        {c.party for c in fired(view_of(parties, [observer], ZScoreSac(sharing="ring", route=r)), "coalition")}
        for r in ("sealed", "relay")
    )
    assert sealed
    assert sealed < read


def test_where_somebody_leaves_between_rounds_one_party_suffices():
    fed = Simulated(["P1", "P2", "P3", "P4", "P5"], secret=pinned(0))
    at = {c: fed.at(c, x) for c, x in zip(fed.clients, tables((9, 8, 7, 6, 5)), strict=True)}
    scaler = ZScoreSac(sharing="ring", route="direct")
    scaler.fit(fed, at)
    scaler.fit(fed, {c: x for c, x in at.items() if c != "P5"})
    (found,) = fired(fed.ledger.view(["P1"], public(tables((9, 8, 7, 6, 5)))), "coalition")
    assert found.party == "P5"
    assert found.text.startswith("P1 can")  # the server is told no sum


def test_statistics_told_in_the_clear_fire_for_each_sender():
    found = fired(view_of(PARTS[:2], ["server"], FederatedZScore()), "plaintext-told")
    assert {c.party for c in found} == {"P1", "P2"}
    assert all(c.evidence for c in found)


def test_values_that_pass_an_open_relay_fire_as_relayed_and_sealed_ones_do_not():
    view = view_of(PARTS[:2], ["server"], FederatedZScore())
    relayed = replace(view, messages=tuple(replace(m, relay="server", recipient="P2") for m in view.messages))
    assert {c.party for c in fired(relayed, "plaintext-relayed")} == {"P1", "P2"}
    sealed = replace(relayed, messages=tuple(replace(m, sealed=True, content=None) for m in relayed.messages))
    assert isinstance(run(sealed), Abstained)


@pytest.mark.parametrize(("encoder", "fires"), [("rolling-hash", True), ("mod-norm", True), ("dh-psi", False)])
def test_codes_that_anyone_can_compute_fire_by_the_public_facts(encoder, fires):
    view = view_of(PARTS, ["P1"], ZScoreSac(sharing="ring", route="sealed"))
    known = replace(view.public, encoder=Method(encoder), schema={**view.public.schema, "categorical": ["ward"]})
    assert bool(fired(replace(view, public=known), "codes-without-key")) == fires


def test_a_sealed_relay_gives_the_server_nothing_to_find():
    assert isinstance(run(view_of(PARTS, ["server"], ZScoreSac(route="sealed"))), Abstained)


def test_a_view_with_a_message_missing_is_refused_by_name():
    view = view_of(PARTS, ["P1"], ZScoreSac(route="direct"))
    kept = tuple(m for m in view.messages if not (m.topic == "zscore-sac.mean.part" and m.sender == "P2"))
    short = replace(view, messages=tuple(m for m in kept if not m.topic.startswith("zscore-sac.variance")))
    outcome = run(short)
    assert isinstance(outcome, NotApplicable)
    assert "part of P2 to P1 is missing" in outcome.reason
