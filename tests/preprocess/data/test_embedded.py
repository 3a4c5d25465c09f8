"""Tables that come with the libraries."""

import pytest
import statsmodels.api
from sklearn.datasets import load_breast_cancer

from leakledger.preprocess.data.embedded import EMBEDDED, FAIR_LABELS
from leakledger.preprocess.data.read import read_table

KNOWN = {
    "fair": (6366, 5, 3, ("no", "yes"), 2053),
    "randhie": (20190, 3, 4, ("no", "yes"), 13882),
    "breast_cancer": (569, 0, 30, ("benign", "malignant"), 212),
    "digits": (1797, 0, 64, tuple(f"digit {d}" for d in range(10)), 8070),  # labels added up
}


@pytest.fixture(scope="module")
def tables():
    return {name: read_table(name) for name in EMBEDDED}


def test_every_embedded_table_is_known_here():
    assert EMBEDDED.keys() == KNOWN.keys()


@pytest.mark.parametrize("name", KNOWN)
def test_an_embedded_table_has_its_rows_features_and_positives(tables, name):
    rows, categorical, numeric, classes, positives = KNOWN[name]
    table = tables[name]
    assert (len(table), len(table.schema.categorical), len(table.schema.numeric)) == (rows, categorical, numeric)
    assert (table.schema.classes, table.labels().sum()) == (classes, positives)
    assert set(table.frame) == {*table.schema.features, table.schema.target}
    assert table.schema.target in table.schema.sensitive


def test_the_labels_of_fair_stand_for_the_codes_of_the_survey(tables):
    raw = statsmodels.api.datasets.fair.load_pandas().data
    for feature, labels in FAIR_LABELS.items():
        assert [labels[code] for code in raw[feature]] == tables["fair"].values(feature).tolist()
    note = " ".join(statsmodels.api.datasets.fair.NOTE.split())
    shortened = {
        "farming or unskilled": "farming, agriculture; semi-skilled, or unskilled worker",
        "skilled": "teacher",
    }
    for labels in FAIR_LABELS.values():
        assert all(f"{code} = {shortened.get(label, label)}" in note for code, label in labels.items())
    assert tables["fair"].schema.orders["religious"] == ("not", "mildly", "fairly", "strongly")


def test_the_health_of_randhie_is_one_ordinal_feature(tables):
    raw = statsmodels.api.datasets.randhie.load_pandas().data
    health = tables["randhie"].values("health")
    for label, dummy in {"good": "hlthg", "fair": "hlthf", "poor": "hlthp"}.items():
        assert ((health == label) == (raw[dummy] == 1)).all()
    assert (health == "excellent").sum() == (raw[["hlthg", "hlthf", "hlthp"]].sum(axis=1) == 0).sum() == 11019
    assert tables["randhie"].schema.orders == {"health": ("poor", "fair", "good", "excellent")}


def test_an_imputed_limitation_of_randhie_is_unknown(tables):
    counts = {v: int((tables["randhie"].values("physlm") == v).sum()) for v in ("no", "yes", "unknown")}
    assert counts == {"no": 16751, "yes": 2387, "unknown": 1052}


def test_breast_cancer_is_that_of_scikit_learn(tables):
    loaded = load_breast_cancer()
    assert (tables["breast_cancer"].numbers() == loaded.data).all()
    assert (tables["breast_cancer"].labels() == 1 - loaded.target).all()
