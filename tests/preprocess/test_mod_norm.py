import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakledger.preprocess.encoders.mod_norm import ModNorm
from leakledger.preprocess.views import CategoricalBlock, NumericBlock, PublicFacts
from tests.preprocess.example import SCHEMA, cut, simulated, table
from tests.preprocess.texts import ODD, runs_projected, table_of

ROWS = 24
splits = st.lists(st.integers(0, 3), min_size=ROWS, max_size=ROWS).filter(lambda owners: len(set(owners)) >= 3)
words = st.lists(st.text(max_size=12), min_size=ROWS, max_size=ROWS)


def encode(tables, **options):
    fed, located = simulated(tables)
    fit = ModNorm(**options).fit(fed, SCHEMA, located)
    return fed, fit, {p: fed.own(fit.encodings[p]).transform(t) for p, t in tables.items()}


def expected_codes(tables, feature):
    """Residues and their pooled z-scores, in the order of the parties."""
    size = 2 * sum(len(set(t.values(feature))) for t in tables.values())
    residues = [int.from_bytes(v.encode(), "big") % size for t in tables.values() for v in t.values(feature)]
    spread = np.std(residues)
    return (np.array(residues) - np.mean(residues)) / (spread if spread > 0 else 1.0)


@given(words, splits, st.sampled_from(["ring", "proportional"]))
def test_codes_are_the_pooled_zscores_of_the_residues_for_every_partition(values, owners, sharing):
    tables = cut(table_of(values), [[i for i, o in enumerate(owners) if o == party] for party in range(4)])
    _, _, encoded = encode(tables, sharing=sharing)
    found = np.vstack(list(encoded.values()))
    np.testing.assert_allclose(found[:, 0], expected_codes(tables, "ward"), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found[:, 1], expected_codes(tables, "diet"), rtol=1e-9, atol=1e-12)


def three():
    return {f"P{i + 1}": table(10 + i, i) for i in range(3)}


def test_the_modulus_is_twice_the_sum_of_the_clients_distinct_values():
    tables = {"P1": table_of(["a", "b", "a"]), "P2": table_of(["a"]), "P3": table_of(["c", "d", "e"])}
    for sharing in ("ring", "proportional"):
        _, fit, _ = encode(tables, sharing=sharing)
        assert [b.size for b in fit.blocks.value] == [12, 6]


def test_the_codebook_has_the_code_of_every_residue_and_no_value():
    tables = three()
    _, fit, encoded = encode(tables)
    block = fit.blocks.value[0]
    assert isinstance(block, CategoricalBlock)
    assert block.values is None
    for p, t in tables.items():
        residues = [int.from_bytes(v.encode(), "big") % block.size for v in t.values("ward")]
        np.testing.assert_allclose(encoded[p][:, 0], block.codebook()[residues, 0], rtol=1e-12)


def test_a_public_dictionary_names_the_candidates():
    tables = three()
    _, fit, encoded = encode(tables, dictionary={"diet": ["full", "light", "none"]})
    codes = dict(zip(fit.blocks.value[1].values, fit.blocks.value[1].codebook()[:, 0], strict=True))
    for p, t in tables.items():
        np.testing.assert_array_equal(encoded[p][:, 1], [codes[v] for v in t.values("diet")])


def test_unpublished_statistics_leave_nothing_public_and_the_same_codes():
    _, fit, encoded = encode(three(), publish="parties")
    assert fit.blocks.value == (NumericBlock("ward", 0, unit="deviation"), NumericBlock("diet", 1, unit="deviation"))
    _, _, published = encode(three())
    for p in encoded:
        np.testing.assert_array_equal(encoded[p], published[p])


@pytest.mark.parametrize("value", ODD)
def test_any_text_has_a_code(value):
    _, _, encoded = encode({f"P{i}": table_of([value, value, "surgery"]) for i in range(3)})
    assert all(np.isfinite(x).all() for x in encoded.values())


def test_normal_forms_of_one_word_are_one_value_only_when_brought_to_one_form():
    tables = {"P1": table_of(["caf\u00e9"]), "P2": table_of(["cafe\u0301"]), "P3": table_of(["other"])}
    _, _, encoded = encode(tables, normal_form="NFC")
    assert encoded["P1"][0, 0] == encoded["P2"][0, 0]
    _, _, encoded = encode(tables)
    assert encoded["P1"][0, 0] != encoded["P2"][0, 0]


def test_a_party_without_rows_counts_no_values():
    empty = table(20).rows(np.array([], np.int64))
    _, fit, encoded = encode({"P1": table_of(["a", "b"]), "P2": table_of(["c"]), "P3": empty})
    assert fit.blocks.value[0].size == 6
    assert encoded["P3"].shape == (0, 2)
    with pytest.raises(ValueError, match="no party holds a row"):
        encode({f"P{i}": empty for i in range(3)})


def test_two_clients_are_refused():
    with pytest.raises(ValueError, match="at least 3 clients, got 2"):
        encode({"P1": table(), "P2": table()})


@pytest.mark.parametrize("wrong", [{"style": "label"}, {"sharing": "none"}, {"normal_form": "X"}])
def test_an_unknown_option_is_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ModNorm(**wrong)


@pytest.mark.parametrize(("passes", "each"), [(2, 6), (1, 4)])
def test_two_passes_take_six_messages_to_every_other_client_and_one_pass_the_papers_four(passes, each):
    fed, _, _ = encode(three(), passes=passes, publish="parties")
    assert all(sum(m.sender == c for m in fed.ledger) == each * 3 - each for c in fed.clients)


def test_parties_and_relay_see_these_topics_and_no_text():
    fed, _, _ = encode(three())
    sums = {f"mod-norm.{s}.{p}" for s in ("unique", "mean", "variance") for p in ("part", "partial")}
    for party in (*fed.clients, "server"):
        view = fed.ledger.view([party], PublicFacts(fed.clients, fed.server))
        assert view.topics == sums | {"mod-norm.announced"}
    assert not any(b"surgery" in m.body for m in fed.ledger)
    for route, seen in (("sealed", {"channel.public-key"}), ("direct", set())):
        fed, _, _ = encode(three(), route=route, publish="parties")
        relay = fed.ledger.view(["server"], PublicFacts(fed.clients, fed.server))
        assert {m.topic for m in relay.messages if m.content is not None} == seen


@pytest.mark.parametrize("options", [{}, {"sharing": "ring", "route": "sealed"}, {"passes": 1, "publish": "parties"}])
def test_it_runs_with_a_process_per_party(options):
    runs_projected("mod-norm", **options)
