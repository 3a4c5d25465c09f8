import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakledger.preprocess.encoders.rolling_hash import RollingHash, rolling_hash
from leakledger.preprocess.pipeline import prepare
from leakledger.preprocess.scalers import SCALERS
from leakledger.preprocess.views import CategoricalBlock, FeatureLayout
from tests.preprocess.example import SCHEMA, cut, simulated, table
from tests.preprocess.texts import ODD, runs_projected, table_of

texts = st.text(max_size=30)


def encode(tables, **options):
    fed, located = simulated(tables)
    fit = RollingHash(**options).fit(fed, SCHEMA, located)
    return fed, fit, {p: fed.own(fit.encodings[p]).transform(t) for p, t in tables.items()}


@given(texts, st.integers(2, 1000), st.integers(1, 6000))
def test_the_hash_is_the_formula_of_the_paper(text, prime, buckets):
    places = [ord(c) - 96 if c in "abcdefghijklmnopqrstuvwxyz" else 0 for c in text.lower()]
    expected = sum(s * prime**i for i, s in enumerate(places, start=1)) % buckets
    assert rolling_hash(text, prime, buckets) == expected


def test_known_hashes_by_hand():
    assert [rolling_hash(t) for t in ("a", "ab", "abc", "ABC", "")] == [31, 1953, 1326, 1326, 0]


@given(st.lists(st.integers(0, 2), min_size=24, max_size=24).filter(lambda owners: len(set(owners)) == 3))
def test_every_partition_gives_each_row_the_code_it_has_in_one_table(owners):
    whole = table(24)
    _, _, alone = encode({"P1": whole, "P2": whole})
    parts = [[i for i, o in enumerate(owners) if o == party] for party in range(3)]
    _, _, found = encode(cut(whole, parts))
    for rows, part in zip(parts, found.values(), strict=True):
        np.testing.assert_array_equal(part, alone["P1"][rows])


def test_a_row_is_one_in_the_columns_of_its_values_and_nowhere_else():
    whole = table(30)
    _, _, encoded = encode({"P1": whole, "P2": whole})
    for row, ward, diet in zip(encoded["P1"], whole.values("ward"), whole.values("diet"), strict=True):
        assert set(np.flatnonzero(row)) == {rolling_hash(ward), rolling_hash(diet)}
        assert set(row) == {0.0, 1.0}


def test_two_features_that_hit_one_column_set_it_once():
    same = table_of(["surgery"] * 3, ["SURGERY"] * 3)
    _, _, encoded = encode({"P1": same, "P2": same})
    assert (encoded["P1"].sum(1) == 1).all()


def test_signs_outside_the_alphabet_count_nothing_are_dropped_or_count_their_code_point():
    assert rolling_hash("a-b") == (31 + 2 * 31**3) % 5000
    assert rolling_hash("a-b", others="drop") == rolling_hash("ab")
    assert rolling_hash("a-b", others="code-point") == (31 + 45 * 31**2 + 2 * 31**3) % 5000
    assert rolling_hash("A11") == rolling_hash("A12") == 31
    assert rolling_hash("A11", others="code-point") != rolling_hash("A12", others="code-point")


def test_normal_forms_of_one_word_differ_unless_brought_to_one_form():
    composed, decomposed = "caf\u00e9 b", "cafe\u0301 b"
    assert rolling_hash(composed) != rolling_hash(decomposed)
    assert rolling_hash(composed, form="NFC") == rolling_hash(decomposed, form="NFC")


@pytest.mark.parametrize("value", ODD)
def test_any_text_has_a_bucket(value):
    assert 0 <= rolling_hash(value) < 5000
    odd = table_of([value, "surgery", value])
    _, _, encoded = encode({"P1": odd, "P2": odd}, dictionary={"ward": [value]})
    assert encoded["P1"].any(axis=1).all()


def test_nothing_is_sent():
    fed, _, _ = encode(cut(table(), [range(20), range(20, 40)]))
    assert len(fed.ledger) == 0


def test_blocks_of_all_features_cover_the_same_columns_and_name_no_value():
    _, fit, _ = encode({"P1": table(), "P2": table()})
    assert [(b.feature, b.start, b.width, b.values) for b in fit.blocks.value] == [
        ("ward", 0, 5000, None),
        ("diet", 0, 5000, None),
    ]
    fed, located = simulated({"P1": table(), "P2": table()})
    prepared = prepare(fed, SCHEMA, located, located, RollingHash(buckets=50), SCALERS["local"]())
    assert prepared.layout.value.width == 52


def test_a_public_dictionary_names_the_candidates_and_their_columns():
    whole = table()
    _, fit, encoded = encode({"P1": whole, "P2": whole}, dictionary={"ward": ["surgery", "urology", "surgery"]})
    block = fit.blocks.value[0]
    assert isinstance(block, CategoricalBlock)
    assert block.values == ("surgery", "urology")
    assert [int(c.argmax()) for c in block.codebook()] == [rolling_hash("surgery"), rolling_hash("urology")]
    assert (block.codebook().sum(1) == 1).all()
    surgery = whole.values("ward") == "surgery"
    assert encoded["P1"][surgery][:, rolling_hash("surgery")].all()


def test_a_table_of_numbers_alone_has_no_columns_to_hash_into():
    numbers = replace(SCHEMA, categorical=())
    tables = {p: replace(table(), schema=numbers) for p in ("P1", "P2")}
    fed, located = simulated(tables)
    prepared = prepare(fed, numbers, located, located, RollingHash(), SCALERS["local"]())
    assert prepared.layout.value.width == len(numbers.numeric)
    assert fed.own(prepared.train["P1"]).rows.shape == (40, len(numbers.numeric))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"style": "label"}, "style 'label' does not apply"),
        ({"buckets": 0}, "buckets is 0; it must be at least 1"),
        ({"prime": 1}, "prime is 1; it must be at least 2"),
        ({"others": "guess"}, "others 'guess' is unknown; choose one of zero, drop, code-point"),
        ({"normal_form": "nfc"}, "normal_form 'nfc' is unknown"),
    ],
)
def test_an_option_out_of_range_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        RollingHash(**wrong)


def test_a_dictionary_of_no_categorical_feature_is_refused():
    with pytest.raises(ValueError, match="the dictionary names 'age', which is no categorical feature"):
        encode({"P1": table(), "P2": table()}, dictionary={"age": ["1"]})


def test_the_public_codes_of_many_values_are_held_once():
    """0 or 1 in four bytes each: a column of 100,000 values is 2 GB of them, which a copy would double."""
    values, buckets = [f"ward {k}" for k in range(2000)], 500
    encoder = RollingHash(buckets=buckets, dictionary={"ward": tuple(values)}, others="code-point")
    tracemalloc.start()
    block = encoder.block(SCHEMA, "ward")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert block.codes.nbytes == 4 * len(values) * buckets
    assert peak < 1.5 * block.codes.nbytes
    assert block.codes.argmax(1).tolist() == [encoder.bucket(v) for v in values]
    assert (block.codebook().sum(1) == 1).all()
    assert FeatureLayout.from_plain(FeatureLayout((block,)).to_plain()).blocks == (block,)


def test_it_runs_with_a_process_per_party():
    runs_projected("rolling-hash", buckets=40)
