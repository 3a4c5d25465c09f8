"""How a file is written: said by a configuration, a schema, or by default."""

import pandas as pd
import pytest

from leakledger.preprocess.data.errors import DataError
from leakledger.preprocess.data.file_format import FileFormat, format_of, with_points
from leakledger.preprocess.data.read import read_table, read_tables
from leakledger.preprocess.data.schema_file import Declared, declared_of, read_schema

TEXT = "alter;größe;stadt;krank\n31;1,75;Köln;ja\n42;-,5;NA;nein\n55;1,80;Bonn;ja\n-9;2;Bonn;nein\n60;1,6;Ulm;nein\n"
GERMAN = TEXT.encode("cp1252")


def written(folder, schema=""):
    (folder / "t.csv").write_bytes(GERMAN)
    (folder / "t.schema.toml").write_text(schema)
    return folder / "t.csv"


SAID = 'separator = ";"\nencoding = "cp1252"\ndecimal = ","\nna_values = ["NA", -9]\ntarget = "krank"\n'


def test_a_schema_says_how_its_table_is_written(tmp_path):
    table = read_table(written(tmp_path, SAID), missing="keep")
    assert table.schema.numeric == ("alter", "größe")
    assert table.frame["größe"].tolist() == [1.75, -0.5, 1.8, 2.0, 1.6]
    assert table.frame.isna().sum().to_dict() == {"alter": 1, "größe": 0, "stadt": 1, "krank": 0}
    assert len(read_table(tmp_path / "t.csv", missing="drop")) == 3


def test_what_is_given_beats_what_the_schema_says(tmp_path):
    path = written(tmp_path, SAID.replace("cp1252", "ascii").replace('"NA"', '"none"'))
    table = read_table(path, missing="keep", encoding="cp1252", na_values=["NA"])
    assert table.frame.isna().sum().to_dict() == {"alter": 0, "größe": 0, "stadt": 1, "krank": 0}


def test_one_file_per_party_is_read_alike(tmp_path):
    written(tmp_path, SAID)
    (tmp_path / "u.csv").write_bytes(GERMAN)
    tables = read_tables([tmp_path / "t.csv", tmp_path / "u.csv"], missing="drop")
    assert [len(t) for t in tables.values()] == [3, 3]


def test_numbers_that_stand_for_missing_are_missing_in_a_typed_source_too():
    frame = pd.DataFrame({"age": [1.0, -9.0, 3.0], "ill": ["a", "b", "b"]})
    assert read_table(frame, target="ill", na_values=["-9"], missing="drop").frame["age"].tolist() == [1.0, 3.0]


def test_how_a_file_is_written_is_no_part_of_what_parties_agree_on(tmp_path):
    written(tmp_path, SAID)
    declared = read_schema(tmp_path / "t.schema.toml")
    assert declared.separator == ";"
    assert not {"separator", "encoding", "decimal", "na_values"} & declared.model_dump().keys()


def test_the_remark_behind_the_comma_of_an_encoding_is_no_part_of_it():
    assert declared_of({"encoding": "UTF-8, header row"}, "").encoding == "UTF-8"


def test_points_and_commas_in_one_column_are_refused_and_codes_are_left_alone():
    frame = pd.DataFrame({"a": ["1,5", "1.234"], "code": ["1,5", "2,7"], "n": ["1", "2"]}, dtype="str")
    with pytest.raises(
        DataError, match=r"t: column 'a' has numbers with a comma and with a point \(the first in row 2"
    ):
        with_points(frame, "t")
    assert with_points(frame.drop(columns="a"), "t", ["code"])["code"].tolist() == ["1,5", "2,7"]


def test_points_that_may_group_thousands_are_refused_beside_decimal_commas_and_other_points_are_decimal():
    frame = pd.DataFrame({"income": ["950", "1.234"], "bmi": ["1,5", "2,25"], "dose": ["1.500", "0.25"]}, dtype="str")
    with pytest.raises(DataError, match=r"column 'income' has points where thousands have them \(the first in row 2"):
        with_points(frame, "t")
    assert with_points(frame, "t", ["income"])["dose"].tolist() == ["1.500", "0.25"]


def test_a_dropped_column_may_have_any_points(tmp_path):
    path = written(tmp_path, SAID + 'drop = ["konto"]\n')
    path.write_bytes(
        GERMAN.replace(b"krank\n", b"krank;konto\n").replace(b"ja\n", b"ja;1.234\n").replace(b"n\n", b"n;1\n")
    )
    assert "konto" not in read_table(path, missing="keep").frame


def test_an_unknown_decimal_sign_is_refused():
    with pytest.raises(DataError, match="decimal ';' is unknown"):
        FileFormat(decimal=";")
    assert format_of(Declared(), {"separator": None}) == FileFormat()


TYPOS = {
    "catgorical": "categorical",
    "sensitiv": "sensitive",
    "na_value": "na_values",
    "positiv_class": "positive_class",
}


@pytest.mark.parametrize("key", TYPOS)
def test_a_misspelt_key_of_a_schema_is_an_error_with_a_suggestion(tmp_path, key):
    written(tmp_path, f"{key} = []\n")
    with pytest.raises(DataError, match=rf"t\.schema\.toml: {key}: unknown key \(did you mean '{TYPOS[key]}'\?\)"):
        read_schema(tmp_path / "t.schema.toml")


def test_a_remark_is_kept_in_a_file_and_refused_where_every_key_must_be_known(tmp_path):
    written(tmp_path, 'licence = "CC0"\ntarget = "x"\ntarget_rate = 0.5\n')
    assert read_schema(tmp_path / "t.schema.toml").not_interpreted == ("licence", "target_rate")
    with pytest.raises(DataError, match="licence: unknown key; known here: carried"):
        declared_of({"licence": "CC0"}, "", strict=True)


def test_a_carried_column_is_no_feature_and_stays_as_text(tmp_path):
    frame = pd.DataFrame({"site": [1, 2, 1, 2], "age": [3, 4, 5, 6], "ill": ["a", "b", "a", "b"]})
    for declared in (None, Declared(target="ill", numeric=("site", "age"), integer=("site",), drop=())):
        table = read_table(frame, declared, target="ill", carried=["site"])
        assert table.schema.numeric == ("age",)
        assert table.values("site").tolist() == ["1", "2", "1", "2"]
    full = read_table(frame, target="ill").schema
    assert read_table(frame, full, carried=["site"]).schema.features == ("age",)
    with pytest.raises(DataError, match="'age' is in carried and used"):
        read_table(frame, Declared(target="ill", numeric=("age",), carried=("age",)))
