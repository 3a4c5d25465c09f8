import json
from pathlib import Path

import pytest

import leakledger.audit.dp_claims.readers
from leakledger.audit.dp_claims.readers import READERS
from leakledger.audit.dp_claims.readers.flower_local_dp import FlowerLocalDp
from leakledger.audit.dp_claims.readers.nvflare_svt import NvflareSvt
from leakledger.audit.dp_claims.readers.plain import Plain
from leakledger.audit.dp_claims.settings_file import assigned, read_settings
from tests.every import every

LOCAL = {"clipping_norm": 1, "sensitivity": 1e-4, "epsilon": 10, "delta": 1e-5}
SVT = {
    "path": "nvflare.app_common.filters.svt_privacy.SVTPrivacy",
    "args": {"parameters": 100, "epsilon": 0.2, "data_kinds": ["W"]},
}


@pytest.fixture
def written(tmp_path):
    def write(values, name="settings.json"):
        (tmp_path / name).write_text(values if isinstance(values, str) else json.dumps(values))
        return tmp_path / name

    return write


def test_every_reader_has_a_file_of_its_name_and_every_file_a_reader():
    files = {p.stem for p in Path(leakledger.audit.dp_claims.readers.__file__).parent.glob("*.py")} - {
        "__init__",
        "base",
    }
    assert files == {name.replace("-", "_") for name in READERS}
    assert all(name == reader.name for name, reader in READERS.items())


def test_toml_and_json_say_the_same_and_whole_numbers_are_numbers(written):
    toml = 'format = "flower-local-dp"\nclipping_norm = 1\nsensitivity = 1e-4\nepsilon = 10\ndelta = 1e-5\n'
    wanted = FlowerLocalDp(clipping_norm=1.0, sensitivity=1e-4, epsilon=10.0, delta=1e-5)
    assert read_settings(written(toml, "settings.toml"), {}) == wanted
    assert read_settings(written({"format": "flower-local-dp", **LOCAL}), {}) == wanted
    assert read_settings(written(LOCAL), {}, "flower-local-dp") == wanted


def test_what_is_given_beside_a_file_counts_more(written):
    path = written({"format": "flower-local-dp", **LOCAL})
    assert read_settings(path, {"rounds": 7, "epsilon": 3.0}).rounds == 7
    assert read_settings(path, {"rounds": 7, "epsilon": 3.0}).epsilon == 3
    assert read_settings(None, {"delta": 1e-5, "noise_multiplier": 1.0}) == Plain(delta=1e-5, noise_multiplier=1.0)


def test_an_entry_of_an_nvflare_configuration_is_read_by_its_class_and_so_is_a_whole_one(written):
    wanted = NvflareSvt(parameters=100, epsilon=0.2, data_kinds=["W"])
    assert read_settings(written(SVT), {}) == wanted
    other = {"path": "nvflare.app_common.filters.exclude_vars.ExcludeVars", "args": {"exclude_vars": ["a"]}}
    whole = {"format_version": 2, "task_result_filters": [{"tasks": ["train"], "filters": [other, SVT]}]}
    assert read_settings(written(whole), {}) == wanted
    assert read_settings(written(whole), {"rounds": 4}).rounds == 4


def test_assignments_are_toml_and_else_text():
    assert assigned(["rounds=3", "delta=1e-5", "relation=replace", "replace=false"]) == {
        "rounds": 3,
        "delta": 1e-5,
        "relation": "replace",
        "replace": False,
    }
    with pytest.raises(ValueError, match="write KEY=VALUE"):
        assigned(["rounds"])


@every(
    ("values", "message"),
    [
        (
            {"format": "flower-local-dp", **LOCAL, "senitivity": 1},
            r"senitivity: unknown key .*did you mean 'sensitivity'",
        ),
        ({"format": "flower-local-dp", "clipping_norm": 1}, "sensitivity is missing"),
        ({"format": "flower-local-pd", **LOCAL}, "did you mean 'flower-local-dp'"),
        ({"format": ["x"], **LOCAL}, "unknown"),
        ({"format": "flower-local-dp", **LOCAL, "delta": "small"}, "delta is 'small'; it must be a number above 0"),
        ({"format": "flower-local-dp", **LOCAL, "epsilon": True}, "epsilon is True"),
        ({"format": "flower-local-dp", **LOCAL, "epsilon": 0}, "epsilon is 0.0; it must be above 0"),
        ({"format": "flower-local-dp", **LOCAL, "rounds": 1.5}, "rounds is 1.5; it must be a whole number"),
        ({"format": "flower-local-dp", **LOCAL, "rounds": 0}, "rounds is 0"),
        ({"format": "flower-local-dp", **LOCAL, "relation": "swap"}, "relation 'swap' is unknown; choose one of"),
        ({"format": "flower-local-dp", **LOCAL, "relation": 3}, "relation is 3; choose one of"),
        (
            '{"format": "flower-local-dp", "clipping_norm": NaN, "sensitivity": 1, "epsilon": 1, "delta": 1e-5}',
            "finite",
        ),
        (
            '{"format": "flower-local-dp", "clipping_norm": Infinity, "sensitivity": 1, "epsilon": 1, "delta": 0.1}',
            "inf",
        ),
        ([1, 2], "a table of settings is needed, not a list"),
        ("{", "cannot be read as JSON"),
        ('{"noise_multiplier": 0.1, "noise_multiplier": 20}', "the key 'noise_multiplier' is there twice; remove one"),
        ('{"epsilon": 1' + 5000 * "0" + "}", "cannot be read as JSON: Exceeds the limit"),
        ('{"delta": 1e-5, "epsilon": 1' + 400 * "0" + "}", "epsilon is a whole number of 401 digits"),
        ({"path": "a.b.Unheard", "args": {}}, "nothing is known of 'Unheard'"),
        ({"task_result_filters": []}, "0 filters that are known"),
        ({"task_result_filters": ["x"]}, "no list of tables"),
        ({"task_result_filters": [{"filters": [3]}]}, "0 filters that are known"),
    ],
)
def test_what_cannot_be_read_is_one_line_that_names_file_and_value(values, message, written):
    path = written(values)
    with pytest.raises(ValueError, match=message) as error:
        read_settings(path, {})
    assert str(error.value).startswith(f"{path}: ")
    assert "\n" not in str(error.value)


def test_what_is_no_json_by_its_name_is_read_as_toml_and_called_so(tmp_path):
    path = tmp_path / "patients.csv"
    path.write_text("age,ill\n44,yes\n")
    with pytest.raises(ValueError, match="cannot be read as TOML"):
        read_settings(path, {})


def test_a_file_that_is_not_there_is_said_to_be(tmp_path):
    with pytest.raises(ValueError, match="no such file"):
        read_settings(tmp_path / "none.toml", {})
