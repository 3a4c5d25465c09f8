from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakledger.preprocess.crypto.secure_moments import root
from leakledger.preprocess.encoders.bytes_norm import BytesNorm, text_number, zscore_encoding
from leakledger.preprocess.pipeline import prepare
from leakledger.preprocess.scalers import SCALERS
from leakledger.preprocess.views import CategoricalBlock, NumericBlock, PublicFacts
from tests.preprocess.example import SCHEMA, cut, simulated, table
from tests.preprocess.texts import ODD, runs_projected, table_of

ROWS = 24
splits = st.lists(st.integers(0, 3), min_size=ROWS, max_size=ROWS).filter(lambda owners: len(set(owners)) >= 3)
words = st.lists(st.text(max_size=12), min_size=ROWS, max_size=ROWS)


def encode(tables, **options):
    fed, located = simulated(tables)
    fit = BytesNorm(**options).fit(fed, SCHEMA, located)
    return fed, fit, {p: fed.own(fit.encodings[p]).transform(t) for p, t in tables.items()}


def exact_scores(values):
    """The z-scores of the values' integers by rational arithmetic."""
    numbers = [int.from_bytes(v.encode(), "big") for v in values]
    mean = Fraction(sum(numbers), len(numbers))
    std = root(sum((n - mean) ** 2 for n in numbers) / len(numbers)) or 1.0
    return np.array([float((n - mean) / Fraction(std)) for n in numbers])


def partitioned(values, owners):
    rows = [[i for i, o in enumerate(owners) if o == party] for party in range(4)]
    whole = table_of(values)
    return cut(whole, rows), rows


@given(words, splits)
def test_ring_codes_are_the_pooled_zscores_for_every_partition(values, owners):
    tables, rows = partitioned(values, owners)
    _, _, encoded = encode(tables, sharing="ring")
    expected = exact_scores(values)
    for part, own in zip(encoded.values(), rows, strict=True):
        np.testing.assert_allclose(part[:, 0], expected[own], rtol=1e-9, atol=1e-12)
        assert (part[:, 1] == 0).all()


@given(words, splits)
def test_proportional_codes_are_the_pooled_zscores_to_what_float64_keeps(values, owners):
    tables, rows = partitioned(values, owners)
    _, _, encoded = encode(tables)
    expected = exact_scores(values)
    for part, own in zip(encoded.values(), rows, strict=True):
        np.testing.assert_allclose(part[:, 0], expected[own], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("sharing", "length"), [("ring", 127), ("proportional", 62)])
def test_the_longest_values_allowed_are_encoded_and_longer_ones_refused_without_the_value(sharing, length):
    values = ["secret" + "z" * (length - 6), "a" * length, "b"]
    tables = {f"P{i}": table_of([v] * 2) for i, v in enumerate(values)}
    _, _, encoded = encode(tables, sharing=sharing, longest=length)
    expected = exact_scores([v for v in values for _ in range(2)])
    np.testing.assert_allclose(np.vstack(list(encoded.values()))[:, 0], expected, rtol=1e-9)
    with pytest.raises(ValueError, match=f"ward: a value is longer than the {length - 1} bytes agreed on") as error:
        encode(tables, sharing=sharing, longest=length - 1)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(("sharing", "longest"), [("ring", 128), ("proportional", 63), ("ring", 0)])
def test_a_width_beyond_the_arithmetic_is_refused(sharing, longest):
    with pytest.raises(ValueError, match=rf"longest (is )?{longest}(; it must be| is outside 1 to 62)"):
        BytesNorm(sharing=sharing, longest=longest)


@pytest.mark.parametrize("value", [v for v in ODD if len(v) < 60])
def test_any_text_that_is_not_too_long_has_a_code(value):
    tables = {f"P{i}": table_of([value, "other"]) for i in range(3)}
    _, _, encoded = encode(tables, sharing="ring", dictionary={"ward": [value]})
    np.testing.assert_allclose(np.abs(encoded["P0"][:, 0]), 1.0)


def test_integers_by_hand():
    assert [text_number("f", v, 9) for v in ("", "A", "AB", "\0A", "\0")] == [0, 65, 65 * 256 + 66, 65, 0]


def test_normal_forms_of_one_word_differ_unless_brought_to_one_form():
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    assert text_number("f", composed, 9) != text_number("f", decomposed, 9)
    assert text_number("f", composed, 9, "NFC") == text_number("f", decomposed, 9, "NFC")
    tables = {"P1": table_of([composed]), "P2": table_of([decomposed]), "P3": table_of(["other"])}
    _, _, encoded = encode(tables, normal_form="NFC", sharing="ring")
    assert encoded["P1"][0, 0] == encoded["P2"][0, 0]


def test_values_four_bytes_shorter_than_the_longest_are_one_to_the_model():
    tables = {"P1": table_of(["Married-civ-spouse"]), "P2": table_of(["Divorced"]), "P3": table_of(["Separated"])}
    _, _, encoded = encode(tables, sharing="ring")
    assert encoded["P2"].astype(np.float32)[0, 0] == encoded["P3"].astype(np.float32)[0, 0]


@pytest.mark.parametrize("sharing", ["ring", "proportional"])
@pytest.mark.parametrize(
    "texts", [("a department of the hospital",), ("department of surgery, 1", "department of surgery, 2")]
)
def test_long_texts_that_are_one_number_to_float64_have_the_code_0(sharing, texts):
    """What their mean was rounded by, 10^40 and more, is no distance from it."""
    tables = {p: table_of([*texts, *texts]) for p in ("P1", "P2", "P3")}
    _, _, encoded = encode(tables, sharing=sharing)
    assert not np.vstack(list(encoded.values())).any()


def test_codes_that_no_model_can_take_are_refused_by_name():
    tables = {p: table_of(["department of surgery", "department oncology"]) for p in ("P1", "P2", "P3")}
    with pytest.raises(ValueError, match="ward: sums of its values as numbers lose what tells these apart"):
        zscore_encoding(
            SCHEMA, partial(text_number, longest=62), dict.fromkeys(("mean", "std"), np.zeros(2))
        ).transform(tables["P1"])


@pytest.mark.parametrize("sharing", ["ring", "proportional"])
def test_a_party_without_rows_takes_part_and_changes_nothing(sharing):
    tables = {"P1": table(20), "P2": table(9, 1), "P3": table(20).rows(np.array([], np.int64))}
    _, fit, encoded = encode(tables, sharing=sharing)
    values = [*tables["P1"].values("ward"), *tables["P2"].values("ward")]
    np.testing.assert_allclose(np.vstack([encoded["P1"], encoded["P2"]])[:, 0], exact_scores(values), rtol=1e-9)
    assert encoded["P3"].shape == (0, 2)
    assert fit.blocks.value[0].scale > 0


def test_two_clients_are_refused():
    with pytest.raises(ValueError, match="at least 3 clients, got 2"):
        encode({"P1": table(), "P2": table()})


def test_a_style_of_its_own_is_refused():
    with pytest.raises(ValueError, match="style 'label' does not apply"):
        BytesNorm(style="label")


def three():
    return {f"P{i + 1}": table(10 + i, i) for i in range(3)}


def test_the_public_block_is_a_number_until_a_dictionary_names_the_candidates():
    _, fit, encoded = encode(three(), sharing="ring", dictionary={"diet": ["full", "light", "none"]})
    ward, diet = fit.blocks.value
    assert isinstance(ward, NumericBlock)
    assert (ward.start, ward.low, ward.integer) == (0, 0.0, True)
    assert isinstance(diet, CategoricalBlock)
    codes = dict(zip(diet.values, diet.codebook()[:, 0], strict=True))
    for p, t in three().items():
        np.testing.assert_array_equal(encoded[p][:, 1], [codes[v] for v in t.values("diet")])
        raw = encoded[p][:, 0] * ward.scale + ward.shift
        numbers = np.array([float(text_number("ward", v, 62)) for v in t.values("ward")])
        np.testing.assert_allclose(raw, numbers, atol=1e-9 * numbers.max())


def test_unpublished_statistics_leave_nothing_public_and_the_same_codes():
    _, fit, encoded = encode(three(), publish="parties")
    assert fit.blocks.value == (NumericBlock("ward", 0, unit="deviation"), NumericBlock("diet", 1, unit="deviation"))
    _, _, published = encode(three())
    for p in encoded:
        np.testing.assert_array_equal(encoded[p], published[p])


def test_the_layout_shifts_the_blocks_behind_the_numeric_features():
    fed, located = simulated(three())
    layout = prepare(fed, SCHEMA, located, located, BytesNorm(), SCALERS["local"]()).layout.value
    assert [b.start for b in layout.blocks] == [0, 1, 2, 3]


@pytest.mark.parametrize(("passes", "each"), [(2, 4), (1, 2)])
def test_two_passes_take_four_messages_to_every_other_client_and_one_pass_the_papers_two(passes, each):
    fed, _, _ = encode(three(), passes=passes, publish="parties")
    assert all(sum(m.sender == c for m in fed.ledger) == each * 3 - each for c in fed.clients)


def test_parties_and_relay_see_these_topics_and_no_text():
    fed, _, _ = encode(three())
    sums = {f"bytes-norm.{s}.{p}" for s in ("mean", "variance") for p in ("part", "partial")}
    for party in (*fed.clients, "server"):
        view = fed.ledger.view([party], PublicFacts(fed.clients, fed.server))
        assert view.topics == sums | {"bytes-norm.announced"}
    assert not any(b"surgery" in m.body for m in fed.ledger)
    fed, _, _ = encode(three(), route="sealed", publish="parties")
    relay = fed.ledger.view(["server"], PublicFacts(fed.clients, fed.server))
    assert {m.topic for m in relay.messages if m.content is not None} == {"channel.public-key"}
    fed, _, _ = encode(three(), route="direct", publish="parties")
    assert not fed.ledger.view(["server"], PublicFacts(fed.clients, fed.server)).messages


@pytest.mark.parametrize("options", [{}, {"sharing": "ring", "route": "sealed"}, {"passes": 1, "publish": "parties"}])
def test_it_runs_with_a_process_per_party(options):
    runs_projected("bytes-norm", **options)
