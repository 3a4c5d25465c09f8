"""Schema files in TOML and JSON."""

import json

import pytest

from leakledger.preprocess.data.errors import DataError
from leakledger.preprocess.data.schema_file import Declared, find_schema, read_schema, stem
from tests.every import every

TOML = """
target = "ill"
positive_class = 1
categorical = ["city"]
source = [{path = "x"}]
[ranges]
age = [0, 120]
[ordinal]
city = ["Ulm", "Bonn"]
"""


def test_toml_and_json_declare_the_same(tmp_path):
    (tmp_path / "t.schema.toml").write_text(TOML)
    values = {
        "target": "ill",
        "positive_class": 1,
        "categorical": ["city"],
        "sensitive": None,
        "source": [{"path": "x"}],
    }
    (tmp_path / "t.schema.json").write_text(
        json.dumps({**values, "ranges": {"age": [0, 120]}, "orders": {"city": ["Ulm", "Bonn"]}})
    )
    declared = read_schema(tmp_path / "t.schema.toml")
    assert declared == read_schema(tmp_path / "t.schema.json")
    assert (declared.target, declared.positive_class, declared.categorical) == ("ill", "1", ("city",))
    assert declared.ranges == {"age": (0.0, 120.0)}
    assert declared.orders == {"city": ("Ulm", "Bonn")}


def test_what_is_not_said_stays_open_and_other_keys_are_kept(tmp_path):
    (tmp_path / "t.schema.toml").write_text(TOML)
    declared = read_schema(tmp_path / "t.schema.toml")
    assert declared.numeric is None
    assert declared.task is None
    assert declared.model_extra == {"source": [{"path": "x"}]}


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "T.PARQUET", "t.txt"])
def test_the_schema_beside_a_table_is_found(tmp_path, name):
    table = tmp_path / name
    assert find_schema(table) is None
    beside = tmp_path / f"{stem(table)}.schema.toml"
    beside.write_text("")
    assert find_schema(table) == beside
    assert find_schema(str(table)) == beside


def test_two_schemas_beside_a_table_are_one_too_many(tmp_path):
    for end in ("json", "toml"):
        (tmp_path / f"t.schema.{end}").write_text("")
    with pytest.raises(DataError, match=r"has two schemas, t\.schema\.json and t\.schema\.toml; remove one"):
        find_schema(tmp_path / "t.csv")


BAD = {
    "a list": ("json", "[1]", "a schema is a table of keys"),
    "broken json": ("json", "{", "not a schema in TOML or JSON"),
    "broken toml": ("toml", "target = ", "not a schema in TOML or JSON"),
    "latin-1": ("json", b'{"target": "\xfc"}', "not a schema in TOML or JSON"),
    "text for a list": ("toml", 'numeric = "age"', "numeric: "),
    "a list for a name": ("toml", 'target = ["a"]', "target: "),
    "unknown task": ("toml", 'task = "ranking"', "task: "),
    "range of one": ("toml", "ranges = {age = [1]}", r"ranges\.age"),
    "order without a list": ("toml", 'ordinal = {city = "Ulm"}', r"ordinal\.city"),
    "a key of two lines": ("json", '{"categ\\nrical": []}', r"'categ\\nrical': unknown key"),
    "a name of two lines": ("toml", '[ranges]\n"a\\rge" = [1]', r"ranges\.'a\\rge'"),
    "both spellings": ("toml", "orders = {}\nordinal = {}", "orders and ordinal are the same key"),
    "both names": ("toml", "classes = []\ntarget_classes = []", "classes and target_classes are the same key"),
}


@every("case", BAD)
def test_a_bad_schema_file_is_one_line_with_file_and_key(tmp_path, case):
    end, content, problem = BAD[case]
    path = tmp_path / f"t.schema.{end}"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError, match=rf"^[^\n]*t\.schema\.{end}: {problem}[^\n]*$"):
        read_schema(path)


def test_a_missing_schema_file_suggests_one_that_is_there(tmp_path):
    (tmp_path / "adult.schema.json").write_text("{}")
    with pytest.raises(DataError, match=r"no such schema file \(did you mean 'adult\.schema\.json'\?\)"):
        read_schema(tmp_path / "adul.schema.json")
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        read_schema(tmp_path)


def test_a_declaration_cannot_be_changed():
    with pytest.raises(ValueError, match="frozen"):
        Declared(target="a").target = "b"


def test_classes_go_by_two_names_and_whole_numbers_by_one(tmp_path):
    path = tmp_path / "t.schema.json"
    for name in ("classes", "target_classes"):
        path.write_text(f'{{"{name}": [0, "1"], "integer": ["age"]}}')
        assert (read_schema(path).classes, read_schema(path).integer) == (("0", "1"), ("age",))
    path.write_text('{"target_classes": null}')
    assert (read_schema(path).classes, read_schema(path).integer) == (None, None)
