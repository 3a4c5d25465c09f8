import numpy as np
import pytest

from leakledger.preprocess.alignment.aliases import OWN, read_aliases
from leakledger.preprocess.alignment.parties import common_features, draw_schemas
from leakledger.preprocess.data.errors import DataError

FEATURES = ("age", "sysBP", "totChol", "glucose", "BMI")


def test_table_1_of_the_paper_is_in_the_projects_table():
    assert read_aliases(("age",))["age"] == ("Age", "PatientAge", "AgeYears", "age_at_visit", "patient_age_years")
    assert "current_account_value" in read_aliases(("Balance",))["Balance"]


def test_a_feature_without_aliases_keeps_its_name():
    assert read_aliases(("ward",))["ward"] == ("ward",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('age = ["years"]\nBMI = ["years"]', "'years' is a name of 'age' and of 'BMI'"),
        ('age = ["Years"]\nBMI = ["years"]', "'years' is a name of 'age', where it is written 'Years', and of 'BMI'"),
        (
            'age = ["years"]\nBMI = ["ye\u200bars"]',
            r"'ye\\u200bars' is a name of 'age', where it is written 'years'",
        ),
        ('age = ["years"]\nBMI = ["ye\u3164ars"]', "'ye\u3164ars' is a name of 'age', where it is written 'years'"),
        ('age = ["y", "y\u200b"]', "age lists a name twice"),
        ('age = ["bmi"]', "'BMI' is a name of 'age', where it is written 'bmi', and of 'BMI'"),
        ('agee = ["years"]', "'agee' is no feature"),
        ('age = "years"', "age must be a list of names"),
        ("age = []", "age must be a list of names"),
        ('age = ["a", "a"]', "age lists a name twice"),
        ('age = ["a: b"]', "has a sign that separates"),
        ("age = [", "cannot be read"),
    ],
)
def test_a_file_of_aliases_that_cannot_be_used_is_refused_in_one_line(tmp_path, content, message):
    path = tmp_path / "aliases.toml"
    path.write_text(content)
    with pytest.raises(DataError, match=message) as raised:
        read_aliases(FEATURES, path)
    assert "\n" not in str(raised.value)


def test_an_alias_that_is_another_features_own_name_collides_with_it(tmp_path):
    path = tmp_path / "aliases.toml"
    path.write_text('age = ["BMI"]')
    with pytest.raises(DataError, match="'BMI' is a name of"):
        read_aliases(FEATURES, path)


@pytest.mark.parametrize("clients", [3, 5, 10])
@pytest.mark.parametrize("overlap", [0.2, 0.4, 0.6, 0.8, 1.0])
def test_shared_features_are_seen_by_all_and_every_other_by_one(clients, overlap):
    features = [f"f{i}" for i in range(15)]
    parties = [f"P{i}" for i in range(clients)]
    aliases = {f: (f"{f} a", f"{f} b") for f in features}
    schemas = draw_schemas(features, parties, overlap, aliases, np.random.default_rng(clients))
    seen = [sum(f in s.features for s in schemas.values()) for f in features]
    assert seen.count(clients) == round(overlap * 15) == len(common_features(list(schemas.values())))
    assert set(seen) <= {1, clients}
    for schema in schemas.values():
        assert all(name in aliases[f] for f, name in zip(schema.features, schema.names, strict=True))
        assert list(schema.features) == [f for f in features if f in schema.features]


def test_the_projects_own_file_has_no_collision_within_a_table():
    framingham = ["male", "age", "education", "sysBP", "diaBP", "BMI", "heartRate", "glucose", "totChol", "diabetes"]
    bank = ["CreditScore", "Geography", "Gender", "Age", "Tenure", "Balance", "NumOfProducts", "EstimatedSalary"]
    assert all(len(names) == 5 for t in (framingham, bank) for names in read_aliases(t).values())
    assert OWN.is_file()
