"""Dependencies between features: taken from the data, checked against it, granted where the configuration says so."""

import pandas as pd
import pytest
from click.testing import CliRunner

from leakledger.audit.case import cases
from leakledger.audit.cli import main
from leakledger.audit.config_file import ConfigError, load_config
from leakledger.audit.dependencies import known_dependencies
from leakledger.audit.federate import federate
from leakledger.audit.granted import granted_knowledge
from leakledger.audit.truth import Truth
from leakledger.preprocess.data.read import read_table
from leakledger.preprocess.secret import PUBLIC_MASTER
from tests.audit.example import config

COLUMNS = {
    "town": ["a", "b", "c", "a", "b", "c"] * 10,
    "region": ["n", "n", "s", "n", "n", "s"] * 10,
    "height": [10, 20, 15, 10, 20, 15] * 10,
    "shop": ["x", "y"] * 30,
    "age": list(range(60)),
    "sick": ["yes", "no", "no"] * 20,
}
KNOWN = {("town", "region"): {"a": "n", "b": "n", "c": "s"}, ("town", "height"): {"a": 10.0, "b": 20.0, "c": 15.0}}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "towns.csv"
    pd.DataFrame(COLUMNS).to_csv(path, index=False)
    return path


def audit(file, **attacks):
    return config(
        data={"source": str(file), "target": "sick", "rows": None},
        partition={"kind": "iid", "parties": 3},
        training={"rounds": 1},
        attacks={"use": ["span"], "dependencies": "known", **attacks},
    )


def test_the_map_says_which_value_or_number_goes_with_each_value_of_any_party(file):
    table = read_table(str(file), target="sick")
    halves = [table.rows(range(0, 60, 2)), table.rows(range(1, 60, 2))]
    assert known_dependencies(halves, {"region": "town", "height": "town"}) == KNOWN
    assert known_dependencies(halves, {}) == {}


def test_the_knowledge_is_granted_only_where_the_configuration_says_so(file):
    settings = audit(file, determined={"region": "town", "height": "town"})
    truth = Truth(federate(settings, cases(settings)[0], PUBLIC_MASTER))
    granted = granted_knowledge(settings, truth)
    assert granted.dependencies == KNOWN
    assert "dependencies" in granted.granted()
    off = audit(file, determined={"region": "town"}, dependencies="none")
    assert not granted_knowledge(off, truth).dependencies


@pytest.mark.parametrize(
    ("determined", "problem"),
    [
        ({"age": "town"}, "'town' does not determine 'age': 3 of its 3 values go with several of 'age'"),
        ({"shop": "town"}, "'town' does not determine 'shop'"),
        ({"regoin": "town"}, "'regoin' is no feature (did you mean 'region'?)"),
        ({"region": "twon"}, "'twon' is no categorical feature (did you mean 'town'?)"),
        ({"region": "height"}, "'height' is no categorical feature"),
        ({"sick": "town"}, "'sick' is no feature"),
        ({"town": "town"}, "'town' determines itself"),
    ],
)
def test_what_the_data_contradict_or_do_not_have_is_one_line_and_ends_the_run(file, tmp_path, determined, problem):
    ((feature, by),) = determined.items()
    settings = f'[data]\nsource = "{file}"\ntarget = "sick"\n[attacks]\nuse = ["span"]\ndependencies = "known"\n'
    path = tmp_path / "audit.toml"
    path.write_text(f'{settings}determined = {{ "{feature}" = "{by}" }}\n[training]\nrounds = 1\n')
    result = CliRunner().invoke(main, ["run", str(path), "-o", str(tmp_path / "run")])
    assert result.exit_code == 2
    assert f"attacks.determined: {problem}" in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_contradiction_names_no_value_of_the_data(file):
    with pytest.raises(ValueError, match="does not determine") as error:
        known_dependencies([read_table(str(file), target="sick")], {"shop": "region"})
    assert not {"'n'", "'s'", "'x'", "'y'"} & set(str(error.value).split())


def test_known_dependencies_must_be_named():
    with pytest.raises(ConfigError, match="needs determined"):
        load_config(None, ['attacks.dependencies="known"'], {})
    settings = load_config(None, ["attacks.dependencies=known", "attacks.determined.region=town"], {})
    assert settings.attacks.determined == {"region": "town"}
