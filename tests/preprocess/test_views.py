from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from leakledger.preprocess.messages import SecureSum, SumPart
from leakledger.preprocess.views import (
    Block,
    CategoricalBlock,
    FeatureLayout,
    Mechanism,
    Message,
    Method,
    ModelSpec,
    NumericBlock,
    PublicFacts,
    TrainingSpec,
    View,
)
from leakledger.preprocess.wire import decode, encode
from tests.preprocess.notes import Noted, noted

finite = st.floats(allow_nan=False, allow_infinity=False)
numeric = st.builds(
    NumericBlock,
    st.text(),
    st.integers(0, 99),
    shift=st.none() | finite,
    scale=st.none() | finite,
    low=st.none() | finite,
    high=st.none() | finite,
    integer=st.booleans(),
)


@st.composite
def categorical(draw: st.DrawFn) -> CategoricalBlock:
    size = draw(st.integers(1, 4))
    values = draw(st.none() | st.lists(st.text(), min_size=size, max_size=size).map(tuple))
    shape = st.tuples(st.just(size), st.integers(1, 3))
    dtypes = st.sampled_from([np.float32, np.float64])
    codes = draw(st.none() | dtypes.flatmap(lambda d: npst.arrays(d, shape, elements={"allow_nan": False})))
    width = size if codes is None else codes.shape[1]
    row = st.lists(st.floats(0.1, 9), min_size=width, max_size=width).map(tuple)
    return CategoricalBlock(
        draw(st.text()), draw(st.integers(0, 9)), size, values, codes, draw(st.none() | row), draw(st.none() | row)
    )


blocks: st.SearchStrategy[Block] = st.one_of(numeric, categorical())
layouts = st.lists(blocks, max_size=4).map(lambda b: FeatureLayout(tuple(b)))
models = st.builds(ModelSpec, st.integers(1, 9), st.integers(1, 3), st.lists(st.integers(1, 9)).map(tuple))
facts = st.builds(
    PublicFacts,
    st.lists(st.text(min_size=1), min_size=2, max_size=4, unique=True).map(tuple),
    st.just(""),
    encoder=st.builds(Method, st.text(), st.dictionaries(st.text(), st.integers() | finite | st.text())),
    mechanisms=st.lists(st.builds(Mechanism, st.text(), st.dictionaries(st.text(), finite)), max_size=2).map(tuple),
    schema=st.dictionaries(st.text(), st.lists(st.text())),
    layout=st.none() | layouts,
    model=st.none() | models,
    training=st.none() | st.builds(TrainingSpec, patience=st.none() | st.integers(1, 9)),
    held_out=st.none() | st.floats(0.01, 0.99),
)


@given(layouts)
@settings(deadline=None)
def test_a_layout_survives_the_wire(layout: FeatureLayout) -> None:
    again = FeatureLayout.from_plain(decode(encode(layout.to_plain())))
    assert again == layout
    assert hash(again) == hash(layout)
    assert again.width == layout.width


@given(facts)
@settings(deadline=None)
def test_public_facts_survive_the_wire(public: PublicFacts) -> None:
    assert PublicFacts.from_plain(decode(encode(public.to_plain()))) == public


@pytest.mark.parametrize("share", [0.0, 1.0, 1, "0.2", float("nan"), [0.2]])
def test_a_share_of_held_out_rows_that_is_none_is_refused(share: object) -> None:
    plain = PublicFacts(("P1",), "server").to_plain()
    with pytest.raises(ValueError, match="held_out is no share between 0 and 1"):
        PublicFacts.from_plain({**plain, "held_out": share})


def test_a_block_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="a block of kind 'text' is neither numeric nor categorical"):
        FeatureLayout.from_plain([{"kind": "text", "feature": "x", "start": 0}])


def test_blocks_with_other_codes_differ() -> None:
    one = CategoricalBlock("ward", 0, 2, codes=np.eye(2))
    assert one == CategoricalBlock("ward", 0, 2, codes=np.eye(2))
    assert one != CategoricalBlock("ward", 0, 2, codes=np.eye(2) + 1)
    assert one != CategoricalBlock("ward", 0, 2)


def test_a_block_whose_parts_disagree_is_refused() -> None:
    with pytest.raises(ValueError, match="ward: 3 values for 2 candidates"):
        CategoricalBlock("ward", 0, 2, values=("a", "b", "c"))
    with pytest.raises(ValueError, match=r"ward: a codebook of shape \(3, 2\) for 2 candidates"):
        CategoricalBlock("ward", 0, 2, codes=np.zeros((3, 2)))


def test_a_codebook_is_one_hot_unless_given_and_includes_scaling() -> None:
    assert CategoricalBlock("ward", 0, 2).codebook().tolist() == [[1, 0], [0, 1]]
    scaled = CategoricalBlock(
        "ward", 0, 2, codes=np.array([[1.0, 5.0], [3.0, 9.0]]), shift=(1.0, 5.0), scale=(2.0, 4.0)
    )
    assert scaled.codebook().tolist() == [[0, 0], [1, 1]]


def test_a_layout_finds_its_blocks() -> None:
    age, ward = NumericBlock("age", 0, shift=1.0, scale=2.0), CategoricalBlock("ward", 1, 3)
    layout = FeatureLayout((age, ward))
    assert (layout.width, layout.numeric, layout.categorical, layout.block("ward")) == (4, (age,), (ward,), ward)
    assert age.scaled
    assert not NumericBlock("age", 0, shift=1.0).scaled
    assert FeatureLayout(()).width == 0
    with pytest.raises(KeyError, match=r"'dose' is not among \['age', 'ward'\]"):
        layout.block("dose")


def message(sequence: int = 0, **changes: Any) -> Message:
    body = encode({"total": 3})
    return replace(Message(sequence, "fit", 2, "moments", "a", "server", None, False, body, body), **changes)


def test_a_message_says_its_route_size_and_payload() -> None:
    open_one = message()
    assert (open_one.route, open_one.size, open_one.payload.value) == ("direct", len(open_one.body), {"total": 3})
    assert message(relay="server", recipient="b").route == "relay"
    assert "total" not in repr(open_one)


def test_a_relayed_message_is_two_transmissions_and_each_observer_sees_its_own() -> None:
    direct, relayed = message(recipient="b"), message(recipient="b", relay="server")
    assert direct.hops == (("a", "b"),)
    assert relayed.hops == (("a", "server"), ("server", "b"))
    assert [relayed.hops_seen(who) for who in ({"a"}, {"b"}, {"server"}, {"a", "b"}, {"c"}, ())] == [1, 1, 2, 2, 0, 0]
    assert [direct.hops_seen(who) for who in ({"a"}, {"a", "b"}, {"server"})] == [1, 1, 0]


def test_a_transmission_is_as_long_as_its_encoded_header_and_its_body() -> None:
    assert message().wire_size == len(encode(message().header())) + message().size
    assert message(topic="longer-topic").wire_size > message().wire_size


@pytest.mark.parametrize(("observers", "involved"), [({"a"}, True), ({"b"}, True), ({"r"}, True), ({"c", "d"}, False)])
def test_a_message_involves_its_sender_recipient_and_relay(observers: set[str], involved: bool) -> None:
    assert message(recipient="b", relay="r").involves(observers) is involved
    assert not message().involves(set())


def test_only_ends_read_a_sealed_message_and_whoever_is_involved_an_open_one() -> None:
    sealed = message(recipient="b", relay="r", sealed=True, body=b"ciphertext")
    assert sealed.as_seen_by({"r"}) == replace(sealed, content=None)
    assert sealed.as_seen_by({"a"}) == sealed.as_seen_by({"r", "b"}) == sealed
    passed_on = message(recipient="b", relay="r")
    assert passed_on.as_seen_by({"r"}) == passed_on


def test_a_view_finds_messages_by_topic_sender_and_recipient() -> None:
    messages = (message(0), message(1, sender="b"), message(2, topic="mean", sender="server", recipient="a"))
    view = View(frozenset({"server"}), messages, PublicFacts(("a", "b"), "server"))
    assert view.topics == {"moments", "mean"}
    assert [m.sequence for m in view.on(noted("moments"))] == [0, 1]
    assert [m.sequence for m in view.on(noted("moments"), sender="b")] == [1]
    assert [m.sequence for m in view.on(noted("mean"), recipient="b")] == []
    assert [m.sequence for m in view.received(noted("moments"))] == [0, 1]
    assert list(view.received(noted("mean"))) == []  # sent by the observer itself


def test_a_view_lists_messages_of_a_kind_and_of_kinds_derived_from_it_and_no_others() -> None:
    topics = ("moments", "mean", "moments", "zscore-sac.mean.part", "zscore-sac.mean.partial", "mod-norm.unique.share")
    messages = tuple(message(i, topic=topic) for i, topic in enumerate(topics))
    view = View(frozenset({"server"}), messages, PublicFacts(("a", "b"), "server"))
    for kind, numbers in (
        (noted("moments"), [0, 2]),
        (Noted, [0, 1, 2]),
        (SecureSum, [3, 4, 5]),
        (SumPart, [3, 5]),
        (noted("done"), []),
    ):
        assert [m.sequence for m in view.on(kind)] == numbers, kind
        assert view.has(kind) == bool(numbers)


def test_a_restricted_view_has_the_kinds_asked_for_and_all_that_is_no_message() -> None:
    messages = (message(0), message(1, topic="mean"), message(2))
    public = PublicFacts(("a", "b"), "server")
    view = View(frozenset({"server"}), messages, public, {"server": 1}, {"server": 2})
    only = view.restricted(lambda kind: kind is noted("moments"))
    assert only == View(frozenset({"server"}), (messages[0], messages[2]), public, {"server": 1}, {"server": 2})
    assert view.restricted(lambda kind: False).messages == ()
    assert only.topics == {"moments"}


def test_a_view_has_not_received_what_it_cannot_read() -> None:
    messages = (message(0, recipient="b", relay="server", sealed=True, content=None), message(1))
    view = View(frozenset({"server"}), messages, PublicFacts(("a", "b"), "server"))
    assert [m.sequence for m in view.received(noted("moments"))] == [1]


def test_a_view_shows_no_inputs_or_coins_when_printed() -> None:
    view = View(frozenset({"a"}), (), PublicFacts(("a", "b"), "server"), inputs={"a": "record"}, coins={"a": "seed"})
    assert "record" not in repr(view)
    assert "seed" not in repr(view)
