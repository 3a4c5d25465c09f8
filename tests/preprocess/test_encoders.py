import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakledger.preprocess.encoders import ENCODERS
from leakledger.preprocess.encoders.base import DictionaryEncoding
from tests.preprocess.example import SCHEMA, cut, simulated, table
from tests.preprocess.notes import plain

ROWS = 24
splits = st.lists(st.integers(0, 2), min_size=ROWS, max_size=ROWS).filter(lambda owners: len(set(owners)) == 3)


def parties(owners, seed=0):
    return cut(table(ROWS, seed), [[i for i, o in enumerate(owners) if o == party] for party in range(3)])


def encode(name, tables, **options):
    fed, located = simulated(tables)
    fit = ENCODERS[name](**options).fit(fed, SCHEMA, located)
    return fed, fit, {p: fed.own(fit.encodings[p]).transform(t) for p, t in tables.items()}


@given(splits)
def test_server_dictionary_encodes_every_partition_as_pooling_does(owners):
    tables = parties(owners)
    for style in ("one-hot", "label"):
        _, _, federated = encode("server-dictionary", tables, style=style)
        _, _, pooled = encode("pooled", tables, style=style)
        for p in tables:
            np.testing.assert_array_equal(federated[p], pooled[p])


@given(splits)
def test_an_encoded_value_is_named_by_the_public_block(owners):
    tables = parties(owners)
    _, fit, encoded = encode("server-dictionary", tables)
    for p, t in tables.items():
        for block in fit.blocks.value:
            numbers = encoded[p][:, block.start : block.start + block.width].argmax(1)
            assert [block.values[k] for k in numbers] == list(t.values(block.feature))


@given(splits)
def test_local_pads_every_party_to_the_largest_dictionary_and_names_nothing(owners):
    tables = parties(owners)
    _, fit, encoded = encode("local", tables)
    largest = {f: max(len(set(t.values(f))) for t in tables.values()) for f in SCHEMA.categorical}
    assert {b.feature: b.size for b in fit.blocks.value} == largest
    assert all(b.values is None for b in fit.blocks.value)
    assert all(x.shape[1] == sum(largest.values()) and (x.sum(1) == len(largest)).all() for x in encoded.values())


def test_local_numbers_the_same_value_differently_at_different_clients():
    tables = {"P1": table(8, 1, wards=("surgery", "urology")), "P2": table(8, 2, wards=("cardiology", "surgery"))}
    fed, fit, _ = encode("local", tables)
    assert fed.own(fit.encodings["P1"]).dictionaries_["ward"].index("surgery") == 0
    assert fed.own(fit.encodings["P2"]).dictionaries_["ward"].index("surgery") == 1


def test_the_declared_order_of_a_feature_is_kept():
    from dataclasses import replace

    schema = replace(SCHEMA, orders={"diet": ("none", "light", "full")})
    fed, located = simulated({"P1": table(30, 1), "P2": table(30, 2)})
    fit = ENCODERS["server-dictionary"]().fit(fed, schema, located)
    assert fit.blocks.value[1].values == ("none", "light", "full")


def test_the_server_reads_each_dictionary_and_a_client_only_the_union():
    tables = {"P1": table(8, 1, wards=("surgery",)), "P2": table(8, 2, wards=("urology",))}
    fed, _, _ = encode("server-dictionary", tables)
    to_server = [(m.sender, plain(m)["ward"]) for m in fed.ledger if m.recipient == "server"]
    assert to_server == [("P1", ["surgery"]), ("P2", ["urology"])]
    seen_by_p1 = [(m.topic, plain(m)["ward"]) for m in fed.ledger if m.recipient == "P1"]
    assert seen_by_p1 == [("dictionary.global", ["surgery", "urology"])]


def test_local_tells_the_server_sizes_and_nothing_else():
    tables = {"P1": table(8, 1, wards=("surgery",)), "P2": table(8, 2, wards=("urology", "surgery"))}
    fed, _, _ = encode("local", tables)
    assert [plain(m)["ward"] for m in fed.ledger if m.recipient == "server"] == [1, 2]
    assert not any("surgery" in str(plain(m)) for m in fed.ledger)


def test_a_value_outside_the_dictionary_is_zeros_or_an_error_that_does_not_repeat_it():
    unseen = table(5, 3, wards=("secret ward",))
    known = {"ward": ("surgery",), "diet": ("full", "light", "none")}
    sizes = {"ward": 1, "diet": 3}
    assert not DictionaryEncoding(known, sizes).transform(unseen)[:, 0].any()
    assert (DictionaryEncoding(known, sizes, style="label").transform(unseen)[:, 0] == -1).all()
    with pytest.raises(ValueError, match=r"ward: 5 rows hold a value that is not in the dictionary") as error:
        DictionaryEncoding(known, sizes, unseen="error").transform(unseen)
    assert "secret" not in str(error.value)


def test_only_the_pooled_reference_is_marked_as_no_federation():
    assert [name for name, encoder in ENCODERS.items() if not encoder.federated] == ["pooled"]


def test_every_encoder_is_named_as_it_is_registered_and_has_a_reference():
    assert all(name == encoder.name and encoder.reference for name, encoder in ENCODERS.items())
