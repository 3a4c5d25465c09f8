"""Claims in the terms of a layout of their own: the truth, the prior and the controls speak of the same cells."""

from dataclasses import replace

import numpy as np
import pytest

from leakledger.attacks.base import AuxiliaryKnowledge, RecordsClaim
from leakledger.audit.cells import Cells
from leakledger.audit.granted import granted_knowledge
from leakledger.audit.made_up import encoded_rows
from leakledger.audit.play import Play
from leakledger.audit.record_controls import without_candidates
from leakledger.audit.scoring.best_prior import BestPrior
from leakledger.audit.scoring.records import from_marginals, score_records
from leakledger.audit.truth import Truth
from leakledger.audit.uncertainty import surest
from leakledger.preprocess.encoders.rolling_hash import rolling_hash
from leakledger.preprocess.views import CategoricalBlock, FeatureLayout
from tests.audit.example import config, truth

GIVEN = {
    "partition": {"kind": "iid", "parties": 3},
    "preprocessing": [{"encoder": "rolling-hash", "scaler": "federated-zscore"}],
    "attacks": {"dictionaries": "known"},
    "training": {"rounds": 1, "batch_size": 4},
}


@pytest.fixture(scope="module")
def hashed():
    return truth(**GIVEN)


@pytest.fixture(scope="module")
def vectors():
    return truth(**{**GIVEN, "preprocessing": [{"encoder": "fasttext", "scaler": "federated-zscore"}]})


def named(held: Truth, dictionaries):
    blocks = [CategoricalBlock(f, 0, len(v), tuple(v)) for f, v in dictionaries.items()]
    return FeatureLayout((*held.layout.numeric, *blocks))


def test_a_candidate_with_a_name_is_the_value_of_the_row(hashed):
    layout = named(hashed, hashed.dictionaries)
    terms = hashed.in_terms_of(layout)
    rows = hashed.federated.batches["P1", 0][0]
    batch = terms.batch("P1", 0)
    for k, block in enumerate(layout.categorical):
        real = np.asarray(hashed.federated.tables["P1"].values(block.feature))[rows]
        assert [block.values[c] for c in batch.categories[:, k]] == real.tolist()
    assert np.array_equal(batch.numbers, hashed.batch("P1", 0).numbers)


def test_a_value_that_is_no_candidate_has_a_number_of_its_own_that_no_claim_can_have(hashed):
    layout = named(hashed, {f: v[:1] for f, v in hashed.dictionaries.items()})
    population = hashed.in_terms_of(layout).population.categories
    for k, values in enumerate(hashed.dictionaries.values()):
        assert set(population[:, k]) == set(range(len(values)))


def test_a_set_of_buckets_is_that_of_all_values_of_a_row(hashed):
    rows, table = hashed.federated.batches["P1", 0][0], hashed.federated.tables["P1"]
    sets = [{rolling_hash(table.values(f)[r]) for f in hashed.dictionaries} for r in rows]
    codes = np.zeros((len(sets), 5000))
    for code, present in zip(codes, sets, strict=True):
        code[list(present)] = 1
    block = CategoricalBlock("buckets", hashed.layout.categorical[0].start, len(sets), None, codes)
    terms = hashed.in_terms_of(FeatureLayout((*hashed.layout.numeric, block)))
    claimed = terms.batch("P1", 0).categories[:, 0]
    assert [sets[c] for c in claimed] == sets
    assert (terms.batch("P2", 0).categories[:, 0] >= len(sets)).any()


def test_a_cell_without_a_claim_is_wrong_and_shown_as_none(hashed):
    layout = named(hashed, hashed.dictionaries)
    actual = hashed.in_terms_of(layout).batch("P1", 0)
    categories = actual.categories.copy()
    categories[0, 0] = -1
    doubt = np.zeros(categories.shape), np.zeros(actual.numbers.shape)
    claim = RecordsClaim("P1", 0, categories, actual.numbers, *doubt, layout=layout)
    prior = BestPrior(hashed, AuxiliaryKnowledge(), seed=0, draws=3)
    found = {m.metric: m.value for m in score_records([claim], hashed, prior.of)}
    assert found["exact_rows"] == 0.75
    shown = [cell.value for r in surest("portfolio", ["server"], [claim], hashed) for cell in r.cells]
    assert all("value number" not in text for text in shown)
    assert shown.count("no claim") == 1


def test_a_true_value_that_is_no_candidate_of_the_claim_is_shown_as_such(hashed):
    """A row whose value a claim could not name ended the audit in IndexError."""
    layout = named(hashed, {f: v[:1] for f, v in hashed.dictionaries.items()})
    actual = hashed.in_terms_of(layout).batch("P1", 0)
    doubt = np.zeros(actual.categories.shape), np.zeros(actual.numbers.shape)
    claim = RecordsClaim("P1", 0, np.zeros_like(actual.categories), actual.numbers, *doubt, layout=layout)
    beyond = [c for r in surest("portfolio", ["server"], [claim], hashed) for c in r.cells if c.truth != c.value]
    assert beyond
    assert all(not c.correct and c.truth == "none of the candidates" for c in beyond)


def test_all_columns_of_one_feature_are_drawn_from_one_row(vectors):
    drawn = from_marginals(vectors.population, 20, np.random.default_rng(0)).numbers
    known = {tuple(v) for v in vectors.population.numbers[:, -300:]}
    assert all(tuple(v) in known for v in drawn[:, -300:])
    whole = {tuple(v) for v in vectors.population.numbers[:, -600:]}
    assert not all(tuple(v) in whole for v in drawn[:, -600:])


def test_columns_that_are_features_of_their_own_are_drawn_one_by_one(hashed):
    population = replace(hashed.population, sources=())
    one, other = (from_marginals(p, 9, np.random.default_rng(0)) for p in (population, hashed.population))
    assert np.array_equal(one.numbers, other.numbers)


@pytest.mark.parametrize("candidates", ["private", "public"])
@pytest.mark.parametrize("columns", ["numeric", "all"])
def test_made_up_rows_in_shared_columns_are_encoded_as_real_ones_are(columns, candidates):
    method = {"encoder": "rolling-hash", "buckets": 60, "candidates": candidates}
    chosen = [{**method, "scaler": "federated-zscore", "columns": columns}]
    held = truth(**{**GIVEN, "preprocessing": chosen})
    rows = held.federated.batches["P1", 0][0]
    made = encoded_rows(held.layout, held.batch("P1", 0))
    assert np.allclose(made, held.federated.train["P1"].rows[rows], atol=1e-4)


def test_codes_of_a_public_model_come_with_a_granted_dictionary_only(vectors, hashed):
    settings = config(**GIVEN)
    known = granted_knowledge(settings, vectors)
    assert {f: c.shape for f, c in known.codes.items()} == {f: (len(v), 300) for f, v in known.dictionaries.items()}
    assert not granted_knowledge(settings, hashed).codes
    without = settings.model_copy(update={"attacks": settings.attacks.model_copy(update={"dictionaries": "none"})})
    assert not granted_knowledge(without, vectors).codes


def test_a_control_without_candidates_is_played_only_where_there_were_some(vectors):
    known = granted_knowledge(config(**GIVEN), vectors)
    bare = without_candidates(Play(None, None, known, vectors))
    assert bare.knowledge.labels
    assert not bare.knowledge.dictionaries
    assert not bare.knowledge.codes
    assert without_candidates(bare) is None


def test_cells_keep_the_features_behind_their_columns(vectors):
    some = vectors.population.take(np.array([0, 2]))
    assert isinstance(some, Cells)
    assert some.sources == vectors.population.sources
