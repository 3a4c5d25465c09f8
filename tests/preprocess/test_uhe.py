from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakledger.preprocess.encoders import ENCODERS
from leakledger.preprocess.encoders.ring_ids import allot
from leakledger.preprocess.federation import FederationError
from leakledger.preprocess.messages import RingHighest
from tests.preprocess.contract import assert_same_views
from tests.preprocess.example import SCHEMA, simulated, table
from tests.preprocess.notes import plain
from tests.preprocess.psi import Tampering, numbers_of, odd_tables, splits_of

CLIENTS = ("P1", "P2", "P3")


def encode(tables, **options):
    fed, located = simulated(tables)
    fit = ENCODERS["uhe"](**options).fit(fed, SCHEMA, located)
    return fed, fit, numbers_of(fed, fit)


@settings(max_examples=25)
@given(splits_of(3))
def test_no_two_parties_share_a_number_and_no_value_of_a_party_has_two(tables):
    _, fit, numbers = encode(tables)
    for block in fit.blocks.value:
        taken = [k for own in numbers.values() for k in own[block.feature].values()]
        assert sorted(taken) == list(range(block.size))


@settings(max_examples=25)
@given(splits_of(3), st.permutations(CLIENTS))
def test_numbers_follow_the_ring_whatever_its_order(tables, ring):
    _, _, numbers = encode(tables, ring=tuple(ring))
    for feature in SCHEMA.categorical:
        assert [k for p in ring for k in numbers[p][feature].values()] == sorted(
            k for own in numbers.values() for k in own[feature].values()
        )


@settings(max_examples=25)
@given(splits_of(3), st.integers(1, 5), st.integers(0, 4))
def test_padded_ranges_are_multiples_hold_the_values_and_do_not_overlap(tables, pad_to, noise):
    fed, fit, numbers = encode(tables, pad_to=pad_to, noise=noise)
    told = [-1, *(plain(m)["ward"] for m in fed.ledger if m.topic == "ring.highest")]
    for p, before, after in zip(CLIENTS, told[:-1], told[1:], strict=True):
        own = numbers[p]["ward"].values()
        assert before < min(own, default=before + 1)
        assert max(own, default=before) <= after
        assert (after - before) % pad_to == 0
        assert len(own) <= after - before < len(own) + noise + pad_to
    assert fit.blocks.value[0].size == told[-1] + 1


@pytest.mark.parametrize(
    ("name", "options", "routes"),
    [
        ("uhe", {}, "direct"),
        ("uhe", {"ring_route": "relay"}, "relay"),
        ("dh-psi", {"ring_route": "sealed"}, "sealed, relay"),
        ("otmp-psi", {}, "direct, direct"),
    ],
)
def test_a_fixed_size_without_a_sealed_route_would_do_nothing_and_is_refused(name, options, routes):
    with pytest.raises(ValueError, match=f"sealed_bytes is 900, and messages go {routes}: ") as error:
        ENCODERS[name](sealed_bytes=900, **options)
    assert "\n" not in str(error.value)


def test_noise_differs_between_runs_of_different_seeds_only():
    tables = {"P1": table(20, 1), "P2": table(20, 2)}

    def size(seed):
        fed, located = simulated(tables, seed)
        return ENCODERS["uhe"](noise=1000).fit(fed, SCHEMA, located).blocks.value[0].size

    assert size(1) == size(1) != size(2)


def test_rows_are_one_hot_in_the_columns_of_their_own_party_and_unseen_values_are_zeros():
    tables = {"P1": table(20, 1, wards=("a", "b")), "P2": table(20, 2, wards=("b", "c"))}
    fed, fit, _ = encode(tables)
    rows = fed.own(fit.encodings["P2"]).transform(tables["P2"])
    assert rows[:, :2].sum() == 0
    assert (rows[:, 2:4].sum(1) == 1).all()
    assert (
        fed.own(fit.encodings["P2"]).transform(tables["P1"])[:, 2].sum() == (tables["P1"].values("ward") == "b").sum()
    )
    other, label, _ = encode(tables, style="label")
    assert set(other.own(label.encodings["P2"]).transform(tables["P2"])[:, 0]) == {2, 3}
    strict, fit, _ = encode(tables, unseen="error")
    with pytest.raises(ValueError, match="ward: 20 rows hold a value that is not in the dictionary"):
        strict.own(fit.encodings["P2"]).transform(table(20, 3, wards=("z",)))


def test_the_declared_order_of_a_feature_is_kept():
    schema = replace(SCHEMA, orders={"diet": ("none", "light", "full")})
    fed, located = simulated({"P1": table(30, 1), "P2": table(30, 2)})
    fit = ENCODERS["uhe"]().fit(fed, schema, located)
    assert numbers_of(fed, fit)["P2"]["diet"] == {"none": 3, "light": 4, "full": 5}


@pytest.mark.parametrize("n", [2, 3, 5])
def test_the_parties_exchange_2n_minus_1_messages_and_the_server_is_told_the_sizes(n):
    fed, _, _ = encode({f"P{i}": table(12, i) for i in range(n)})
    among = [m for m in fed.ledger if m.recipient != "server"]
    assert len(among) == 2 * n - 1
    assert [(m.topic, m.sender) for m in fed.ledger if m.recipient == "server"] == [("ring.maximum", "P0")]


def test_each_party_reads_the_highest_number_of_its_predecessor_and_the_maximum_and_nothing_else():
    fed, _, _ = encode({"P1": table(30, 1, wards=("x",)), "P2": table(30, 2, wards=("y", "z")), "P3": table(30, 3)})
    seen = {
        p: [(m.topic, m.sender, plain(m)["ward"]) for m in fed.ledger if m.recipient == p] for p in (*CLIENTS, "server")
    }
    assert seen == {
        "P1": [("ring.highest", "P3", 7)],
        "P2": [("ring.highest", "P1", 0), ("ring.maximum", "P1", 7)],
        "P3": [("ring.highest", "P2", 2), ("ring.maximum", "P1", 7)],
        "server": [("ring.maximum", "P1", 7)],
    }
    assert all(type(h) is int for m in fed.ledger for h in plain(m).values())


@pytest.mark.parametrize(("route", "readable"), [("direct", 0), ("relay", 3), ("sealed", 0)])
def test_the_server_reads_ring_messages_only_where_it_relays_them_in_the_clear(route, readable):
    fed, _, _ = encode({p: table(12, i) for i, p in enumerate(CLIENTS)}, ring_route=route)
    at_server = [m.as_seen_by({"server"}) for m in fed.ledger if m.involves({"server"}) and m.topic == "ring.highest"]
    assert sum(m.content is not None for m in at_server) == readable
    assert len(at_server) == (0 if route == "direct" else 3)


def test_odd_texts_and_parties_without_rows_have_numbers_like_others():
    tables = odd_tables()
    _, fit, numbers = encode(tables)
    assert numbers["P3"]["ward"] == {}
    assert fit.blocks.value[0].size == sum(len(set(t.values("ward"))) for t in tables.values())


@pytest.mark.parametrize(
    "highest", [{"ward": 3}, {"ward": -2, "diet": 0}, {"ward": True, "diet": 0}, {"ward": 2**40, "diet": 1}, [1, 2]]
)
def test_a_changed_ring_message_is_refused_by_party_and_step(highest):
    tables = {p: table(12, i) for i, p in enumerate(CLIENTS)}
    fed = Tampering(CLIENTS, "ring.highest", lambda payload: highest)
    located = {p: fed.at(p, t) for p, t in tables.items()}
    with (
        fed.scope("encode", 4),
        pytest.raises(FederationError, match=r"P2 refuses (a message of P1|message 0): .*step encode, r"),
    ):
        ENCODERS["uhe"]().fit(fed, SCHEMA, located)


def test_a_changed_maximum_is_refused_by_all():
    tables = {p: table(12, i) for i, p in enumerate(CLIENTS)}
    fed = Tampering(CLIENTS, "ring.maximum", lambda payload: {"ward": 3})
    located = {p: fed.at(p, t) for p, t in tables.items()}
    with pytest.raises(FederationError, match=r"all refuse a message of P1: it does not name the categorical features"):
        ENCODERS["uhe"]().fit(fed, SCHEMA, located)


@pytest.mark.parametrize("options", [{"pad_to": 0}, {"noise": -1}])
def test_padding_out_of_range_is_refused(options):
    with pytest.raises(ValueError, match=r"(pad_to is 0|noise is -1); it must be at least"):
        ENCODERS["uhe"](**options)


def test_a_ring_must_name_every_client_once():
    with pytest.raises(ValueError, match="must name each of"):
        encode({p: table(12, i) for i, p in enumerate(CLIENTS)}, ring=("P1", "P2"))


@pytest.mark.slow
def test_a_process_per_party_gives_the_same_views_with_every_option():
    inputs = {p: table(12, i).to_plain() for i, p in enumerate(CLIENTS)}
    params = {
        "encoder": "uhe",
        "options": {"ring": ["P2", "P1", "P3"], "ring_route": "sealed", "noise": 3, "pad_to": 2},
    }
    assert_same_views("tests.preprocess.psi:fit_encoder", CLIENTS, inputs, params)


def test_allot_starts_after_the_highest_number():
    assert allot((1, 0), {"f": ["a", "b"]}, RingHighest({"f": 6}), None).ids == {"f": {"a": 7, "b": 8}}
