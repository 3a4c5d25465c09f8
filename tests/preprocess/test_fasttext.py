import base64
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakledger.preprocess.encoders.fasttext import FastText
from leakledger.preprocess.encoders.subword.facebook import ModelFileError, open_model
from leakledger.preprocess.encoders.subword.hashing import Subwords
from leakledger.preprocess.encoders.subword.seeded import SeededVectors
from leakledger.preprocess.views import CategoricalBlock
from tests.every import every
from tests.preprocess.example import SCHEMA, cut, simulated, table
from tests.preprocess.texts import ODD, runs_projected, table_of

# Written by fastText 0.9.2: skipgram, dim 3, 24 buckets, n-grams 3 to 6, of "alzheimer arthritis café" three times.
WRITTEN_BY_FASTTEXT = (
    "eNrbJeavz8PAwMAMxIxImAmJBmEJqBo2IE4BYl1nmdePzKTsWYBsEAYBHij9HwoSc6oyUjNzU4vAOsEgsagkoyizJLMYIZScmHZ4JYJro19sh+"
    "AxyEBpmEj2kt59Latb7ZZeC9633KF772MbNbv5z1VsN4UE20Xc/W9NSD7cJnHf7ghHuxfrl+xdL+Jlx7CTd8/hgsZ9MisW2R5YvWjfDX31fbe3"
    "vLP9MsvG9veDgH3MX8z35UV/t43Y5LSX6dl+mw1ut/Y2FJja5i01sJMLqLaVPr/QbnuuwT6rtUb7rq6ZtS8p2mdvruDTPfxCM+1aXZbbHW4VsW"
    "tX9LN7HzZrX/gredt7W+5Zf3M4u/cOe/k++5sz9jZOvbLn/Ofde7X+FNu9Xjtpny9Lk+3JeQb7woRe7032cLZTXu25b7XXBDue749t1z6Mt/WR"
    "/WYrNrdqX1yEvY372vB93Z9n2DUmWux5p9Gwh2F91z5VaVO7Tb6L9pmX8Nq9k0uwXXyOye7whdn7DrEK7Wt602/LgA5Y0AKYVAAAI2m3vg=="
)
VECTORS_BY_FASTTEXT = {
    "alzheimer": [-0.0345198996, -0.0327781811, 0.0424031354],
    "café": [0.0102464668, -0.0707606077, 0.00947282836],
    "Married-civ-spouse": [-0.0187699646, -0.00211398886, 0.00151590875],
    "": [0.0, 0.0, 0.0],
    "a": [-0.196941897, 0.281819671, 0.111311048],
    "\u05e9\u05dc\u05d5\u05dd": [0.144996628, -0.159937412, 0.0598659888],
    "a b": [0.115460217, -0.0759925544, 0.124447733],
}
WORDS = ("surgery", "urology", "</s>")


def model_bytes(words=WORDS, dimension=4, buckets=20, **changed):
    """A model file of random numbers, field by field; `changed` replaces fields."""
    f = {
        "magic": 793712314,
        "version": 12,
        "args": [dimension, 5, 5, 1, 5, 1, 2, 2, buckets, 3, 6, 100],
        "sizes": [len(words), len(words), 0, 9, -1],
        "quantised": 0,
        "shape": [len(words) + buckets, dimension],
        "kind": 0,
        **changed,
    }
    numbers = np.random.default_rng(1).normal(size=(len(words) + buckets, dimension)).astype("<f4")
    entries = b"".join(w.encode() + b"\0" + struct.pack("<qb", 1, f["kind"]) for w in words)
    head = struct.pack("<2i12id", f["magic"], f["version"], *f["args"], 1e-4) + struct.pack("<3i2q", *f["sizes"])
    tail = struct.pack("<b2q", f["quantised"], *f["shape"]) + f.get("numbers", numbers).tobytes()
    output = struct.pack("<b2q", 0, len(words), dimension) + bytes(4 * len(words) * dimension)
    return head + entries + tail + output, numbers


@pytest.fixture
def write(tmp_path):
    def written(data):
        path = tmp_path / "model.bin"
        path.write_bytes(data)
        return str(path)

    return written


def encode(tables, **options):
    fed, located = simulated(tables)
    fit = FastText(**options).fit(fed, SCHEMA, located)
    return fed, fit, {p: fed.own(fit.encodings[p]).transform(t) for p, t in tables.items()}


def slow_hash(data):
    """FNV-1a over signed bytes, as fastText computes it."""
    h = np.uint32(2166136261)
    with np.errstate(over="ignore"):
        for byte in np.frombuffer(data, np.int8):
            h = (h ^ np.uint32(np.int64(byte) & 0xFFFFFFFF)) * np.uint32(16777619)
    return int(h)


@given(st.text(max_size=9), st.integers(1, 4), st.integers(0, 6), st.integers(1, 2**31 - 1))
def test_buckets_are_those_of_the_plain_definition(word, shortest, longest, buckets):
    text = f"<{word}>"
    n = len(text)
    spans = [(i, j) for i in range(n) for j in range(i + shortest, min(i + longest, n) + 1)]
    spans = [(i, j) for i, j in spans if not (j - i == 1 and (i == 0 or j == n))]
    expected = [slow_hash(text[i:j].encode("utf-8", "surrogatepass")) % buckets for i, j in spans]
    assert Subwords(shortest, longest, buckets).of(word) == (expected if word != "</s>" else [])


def test_buckets_known_from_fasttext():
    # fastText 0.9.2, get_subwords, 2,000,000 buckets
    assert Subwords().of("ab") == [209508, 621742, 1241756]
    assert Subwords().of("café") == [
        *(916747, 1991831, 794639, 17187, 369661, 454601, 761685, 960362, 1966012, 1609697),
    ]
    assert Subwords(1, 2).of("aé") == [1008750, 2220, 212988, 1043777, 1996781]


def test_vectors_of_a_file_written_by_fasttext_are_those_that_fasttext_gives(write):
    model = open_model(write(zlib.decompress(base64.b64decode(WRITTEN_BY_FASTTEXT))))
    for word, expected in VECTORS_BY_FASTTEXT.items():
        np.testing.assert_allclose(model.vector(word), expected, rtol=1e-6, atol=1e-8)


def test_a_word_of_the_vocabulary_is_the_mean_of_its_row_and_its_ngrams(write):
    data, numbers = model_bytes()
    model = open_model(write(data))
    rows = [1, *(3 + b for b in Subwords(3, 6, 20).of("urology"))]
    np.testing.assert_allclose(model.vector("urology"), numbers[rows].astype(float).mean(0), rtol=1e-12)
    np.testing.assert_array_equal(model.vector("</s>"), numbers[2].astype(float))


def test_a_model_without_subwords_knows_its_vocabulary_only(write):
    args = [4, 5, 5, 1, 5, 1, 2, 2, 0, 0, 0, 100]
    data, numbers = model_bytes(buckets=0, args=args)
    model = open_model(write(data))
    np.testing.assert_array_equal(model.vector("surgery"), numbers[0].astype(float))
    assert not model.vector("surgeon").any()


def test_every_file_cut_short_is_refused(write):
    data, _ = model_bytes(buckets=2)
    for end in range(len(data)):
        with pytest.raises(ModelFileError, match=r"model\.bin: not a usable fastText model: "):
            open_model(write(data[:end]))


@given(st.data())
def test_a_changed_byte_is_refused_or_gives_a_model_of_the_same_size(tmp_path_factory, data):
    good, _ = model_bytes(buckets=2)
    at, value = data.draw(st.integers(0, len(good) - 1)), data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("models") / "model.bin"
    path.write_bytes(good[:at] + bytes([value]) + good[at + 1 :])
    try:
        model = open_model(path)
        assert model.vector("surgery").shape == (model.dimension,) == (4,)
    except ModelFileError:
        pass


BAD = {
    "magic number": {"magic": 1},
    "version 13": {"version": 13},
    "2000000000 numbers": {"args": [2_000_000_000, 5, 5, 1, 5, 1, 2, 2, 20, 3, 6, 100]},
    "-1 buckets": {"args": [4, 5, 5, 1, 5, 1, 2, 2, -1, 3, 6, 100]},
    "n-grams of 3 to 2000000000": {"args": [4, 5, 5, 1, 5, 1, 2, 2, 20, 3, 2_000_000_000, 100]},
    "kind of model or loss": {"args": [4, 5, 5, 1, 5, 1, 9, 2, 20, 3, 6, 100]},
    "2000000000 entries do not fit": {"sizes": [2_000_000_000, 2_000_000_000, 0, 9, -1]},
    "do not make": {"sizes": [3, 4, 0, 9, -1]},
    "it is pruned": {"sizes": [3, 3, 0, 9, 5]},
    "pruned entries is -7": {"sizes": [3, 3, 0, 9, -7]},
    "quantised": {"quantised": 1},
    "23 rows of 4 were expected": {"shape": [2**60, 4]},
    "a matrix of 23 x 1099511627776": {"shape": [23, 2**40]},
    "of kind 1": {"kind": 1},
    "a word has two entries": {"words": ("a", "a")},
}


@every("message", BAD)
def test_a_file_with_impossible_sizes_is_refused_before_anything_is_allocated(write, message):
    data, _ = model_bytes(**BAD[message])
    with pytest.raises(ModelFileError, match=message):
        open_model(write(data))


def test_a_matrix_larger_than_the_file_is_refused(write):
    data, _ = model_bytes(args=[4, 5, 5, 1, 5, 1, 2, 2, 2**30, 3, 6, 100], shape=[2**30 + 3, 4])
    with pytest.raises(ModelFileError, match=r"a matrix of 1073741827 x 4 does not fit into the file; is it cut off\?"):
        open_model(write(data))


def test_bytes_after_the_end_are_refused(write):
    with pytest.raises(ModelFileError, match="2 bytes follow its end"):
        open_model(write(model_bytes()[0] + b"\0\0"))


def test_numbers_that_are_not_finite_are_refused_when_they_are_used(write):
    numbers = np.full((23, 4), np.nan, "<f4")
    with pytest.raises(ModelFileError, match="not finite"):
        open_model(write(model_bytes(numbers=numbers)[0])).vector("surgery")


def test_what_is_no_file_is_refused(tmp_path, write):
    for path, message in ((tmp_path / "none.bin", "No such file"), (tmp_path, "Is a directory"), (write(b""), "empty")):
        with pytest.raises(ModelFileError, match=message):
            open_model(path)
    with pytest.raises(ValueError, match="magic number"):
        encode({"P1": table(), "P2": table()}, fasttext_model=write(b"a word 0.1 0.2\n" * 9))


@given(st.text(max_size=12))
def test_seeded_vectors_are_means_of_ngram_vectors_that_follow_from_the_seed(word):
    vectors = SeededVectors(5, seed=3)
    found = vectors.vector(word)
    assert found.shape == (5,)
    assert (np.abs(found) < 1).all()
    np.testing.assert_array_equal(found, SeededVectors(5, seed=3).vector(word))
    if word:
        assert (found != SeededVectors(5, seed=4).vector(word)).any()
    else:
        assert not found.any()


def test_seeded_vectors_are_uniform_and_near_for_words_that_share_letters():
    vectors = SeededVectors()
    entries = np.concatenate([vectors.vector(c) for c in "abcdefgh"])  # one n-gram each
    assert abs(entries.mean()) < 5 * 3**-0.5 / np.sqrt(len(entries))
    assert abs(entries.std() - 3**-0.5) < 0.02
    near, far = (np.corrcoef(vectors.vector("cardiology"), vectors.vector(w))[0, 1] for w in ("cardiologist", "diet"))
    assert near > 0.5 > 0.3 > abs(far)


@given(st.lists(st.integers(0, 2), min_size=24, max_size=24).filter(lambda owners: len(set(owners)) == 3))
def test_every_partition_gives_each_row_the_code_it_has_in_one_table(owners):
    whole = table(24)
    _, _, alone = encode({"P1": whole, "P2": whole}, dimension=7)
    rows = [[i for i, o in enumerate(owners) if o == party] for party in range(3)]
    _, _, found = encode(cut(whole, rows), dimension=7)
    for own, part in zip(rows, found.values(), strict=True):
        np.testing.assert_array_equal(part, alone["P1"][own])


def test_a_feature_has_the_vector_of_its_value_from_the_file(write):
    path = write(model_bytes()[0])
    whole = table(9)
    _, fit, encoded = encode({"P1": whole, "P2": whole}, fasttext_model=path, dictionary={"diet": ["full", "light"]})
    model = open_model(path)
    for row, value in zip(encoded["P1"][:, :4], whole.values("ward"), strict=True):
        np.testing.assert_array_equal(row, model.vector(value).astype(np.float32))
    assert [b.feature for b in fit.blocks.value] == ["ward[0]", "ward[1]", "ward[2]", "ward[3]", "diet"]
    assert [b.start for b in fit.blocks.value] == [0, 1, 2, 3, 4]
    named = fit.blocks.value[-1]
    assert isinstance(named, CategoricalBlock)
    np.testing.assert_array_equal(named.codebook()[1], model.vector("light"))


def test_nothing_is_sent():
    fed, fit, _ = encode({"P1": table(), "P2": table()})
    assert len(fed.ledger) == 0
    assert len(fit.blocks.value) == 600
    assert {(b.low, b.high, b.shift, b.scale) for b in fit.blocks.value} == {(-1.0, 1.0, 0.0, 1.0)}


@pytest.mark.parametrize("value", ODD)
def test_any_text_has_a_vector(value):
    odd = table_of([value, "other"])
    _, _, encoded = encode({"P1": odd, "P2": odd}, dimension=9)
    assert np.isfinite(encoded["P1"]).all()
    assert encoded["P1"][0, :9].any() == bool(value)


def test_normal_forms_of_one_word_differ_unless_brought_to_one_form():
    both = table_of(["caf\u00e9", "cafe\u0301"])
    _, _, encoded = encode({"P1": both, "P2": both})
    assert (encoded["P1"][0] != encoded["P1"][1]).any()
    _, _, encoded = encode({"P1": both, "P2": both}, normal_form="NFC")
    assert (encoded["P1"][0] == encoded["P1"][1]).all()


@pytest.mark.parametrize("wrong", [{"dimension": 0}, {"style": "label"}, {"fasttext_model": ""}])
def test_an_option_out_of_range_is_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        FastText(**wrong)


def test_it_runs_with_a_process_per_party(write):
    runs_projected("fasttext", dimension=6)
    runs_projected("fasttext", fasttext_model=write(model_bytes()[0]))
