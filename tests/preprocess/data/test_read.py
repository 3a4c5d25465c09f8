"""Reading tables from every source."""

import gzip

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from leakledger.preprocess.data.inference import infer_schema
from leakledger.preprocess.data.read import DataError, read_table, read_tables
from leakledger.preprocess.data.readers import READERS
from leakledger.preprocess.data.schema_file import Declared
from tests.preprocess.data.example import CSV, frame


@pytest.fixture
def write(tmp_path):
    def write(text=CSV, name="t.csv"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def test_csv_gzip_parquet_and_frame_give_the_same_table(tmp_path):
    declared = Declared(target="y", categorical=("city", "pet"), numeric=("age", "dose"))
    rows = frame()
    rows.to_csv(tmp_path / "t.csv", index=False)
    rows.to_parquet(tmp_path / "t.parquet")
    (tmp_path / "u.csv.gz").write_bytes(gzip.compress((tmp_path / "t.csv").read_bytes()))
    sources = [
        tmp_path / "t.csv",
        str(tmp_path / "u.csv.gz"),
        tmp_path / "t.parquet",
        rows,
        rows.set_index(rows["age"]),
    ]
    tables = [read_table(s, declared) for s in sources]
    assert len({t.fingerprint() for t in tables}) == 1
    assert [t.name for t in tables] == ["t", "u", "t", "table", "table"]


def test_a_file_needs_only_a_target(write):
    table = read_table(write(), target="ill")
    assert (table.schema.categorical, table.schema.numeric, table.schema.integer) == (
        ("city",),
        ("age", "dose"),
        ("age",),
    )
    assert table.labels().tolist() == [0, 1, 1, 0]


def test_the_schema_beside_the_file_is_used_and_one_that_is_given_instead(write):
    path = write()
    write('target = "ill"\npositive_class = "no"\ncategorical = ["age"]\nnumeric = []', "t.schema.toml")
    assert read_table(path).schema.classes == ("yes", "no")
    assert read_table(path).values("age").tolist() == ["31", "42", "55", "60"]
    other = write('target = "city"', "other.toml")
    assert read_table(path, other).schema.task == "multiclass"
    assert read_table(path, str(other)).schema.target == "city"
    full = infer_schema(pd.read_csv(path), "ill")
    assert read_table(path, full).schema == full


def test_a_broken_schema_beside_the_file_does_not_matter_when_another_is_given(write):
    path = write()
    write("{", "t.schema.json")
    assert read_table(path, Declared(target="ill")).schema.target == "ill"
    with pytest.raises(DataError, match="not a schema"):
        read_table(path)


def test_declared_codes_stay_text(write):
    path = write("zip,floor,y\n01,1,a\n02,2,b\n10,1,a\n")
    table = read_table(path, Declared(target="y", categorical=("zip", "floor")))
    assert table.values("zip").tolist() == ["01", "02", "10"]
    assert table.values("floor").tolist() == ["1", "2", "1"]


def test_only_the_empty_field_is_missing_unless_more_is_named(write):
    path = write("country,x,y\nNA,1,a\nnull,2,b\nNone,3,a\n?,4,b\n")
    assert read_table(path, target="y").values("country").tolist() == ["NA", "null", "None", "?"]
    assert len(read_table(path, target="y", missing="drop", na_values=["?"])) == 3


def test_another_target_leaves_the_declared_one_out(write):
    path = write()
    declared = ['target = "ill"', 'positive_class = "yes"', 'classes = ["no", "yes"]', 'categorical = ["city"]']
    write("\n".join([*declared, 'numeric = ["age", "dose"]', 'integer = ["age"]']), "t.schema.toml")
    assert read_table(path, target="age").schema.integer == ()
    table = read_table(path, target="city")
    assert table.schema.features == ("age", "dose")
    assert "ill" not in table.frame
    assert table.schema.classes == ("Bonn", "Kiel", "Ulm")
    with pytest.raises(DataError, match="target 'age' is not the schema's target 'ill'"):
        read_table(path, infer_schema(pd.read_csv(path), "ill"), target="age")


def test_what_is_declared_of_a_target_without_a_name_holds_for_the_one_given(write):
    path = write()
    write('classes = ["yes", "no"]', "t.schema.toml")
    assert read_table(path, target="ill").schema.classes == ("yes", "no")


def test_a_table_says_what_of_its_schema_its_rows_decided(write):
    path = write()
    assert read_table(path, target="ill").basis.negotiated == ("kinds", "integer", "task", "classes")
    typed = read_table(pd.read_csv(path), target="ill")
    assert typed.basis.negotiated == ("integer", "classes")  # types say what is text
    assert read_table(path, typed.schema).basis.negotiated == ()
    declared = Declared(target="ill", task="binary", categorical=("city",), numeric=("age", "dose"), integer=())
    assert read_table(path, declared).basis.negotiated == ("classes",)


def test_dropped_columns_are_gone_and_others_are_carried(write):
    declared = Declared(target="ill", categorical=(), numeric=("age",), drop=("dose",))
    assert list(read_table(write(), declared).frame) == ["city", "age", "ill"]


def test_an_embedded_table_is_read_by_name():
    assert read_table("fair").name == "fair"
    assert read_table("fair", target="religious").schema.task == "multiclass"


def test_a_missing_file_suggests_a_file_or_an_embedded_table(write):
    path = write(name="hospital.csv")
    with pytest.raises(
        DataError, match=r"hospitl\.csv: no such file or embedded table \(did you mean '.*hospital\.csv'\?\)$"
    ):
        read_table(path.with_name("hospitl.csv"))
    with pytest.raises(DataError, match=r"^/dev/null: is a device or a pipe, which is not read: name a file$"):
        read_table("/dev/null")
    with pytest.raises(DataError, match=r"^far: no such file or embedded table \(did you mean 'fair'\?\)$"):
        read_table("far")


def exits(path):
    raise SystemExit(0)


def exits_with_a_text(path):
    raise SystemExit("row 7: Smith")


def parses(path):
    pd.to_numeric(pd.Series(["Smith"]))


def refuses(path):
    raise ValueError("no  such\nfile")


@pytest.mark.parametrize(
    ("reader", "expected"),
    [
        (lambda path: [1, 2], r"t\.own: the reader of \.own returns a list, no DataFrame"),
        (exits, r"t\.own: the reader of \.own called sys\.exit\(0\)"),
        (exits_with_a_text, r"t\.own: the reader of \.own called sys\.exit\(\)$"),
        (parses, r"t\.own: the reader of \.own raised ValueError; LEAKLEDGER_DEBUG=1 shows its text"),
        (refuses, r"t\.own: no such file$"),
    ],
)
def test_a_reader_that_returns_no_table_is_named_and_what_it_stumbled_over_is_not(reader, expected, write, monkeypatch):
    """What pandas said of a cell in a plugin's reader, "Unable to parse string "Smith"", was printed."""
    monkeypatch.setitem(READERS, ".own", reader)
    with pytest.raises(DataError, match=expected) as told:
        read_table(write(name="t.own"))
    assert "Smith" not in str(told.value)


def test_what_is_no_table_is_refused_in_one_line(write, tmp_path):
    with pytest.raises(DataError, match=r"t\.parquet: not a Parquet file, or a damaged one"):
        read_table(write(name="t.parquet"))
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        read_table(tmp_path)
    with pytest.raises(DataError, match="no rows or no columns"):
        read_table(pd.DataFrame())
    pd.DataFrame({"a": []}).to_parquet(tmp_path / "empty.parquet")
    with pytest.raises(DataError, match=r"empty\.parquet: the table has no rows"):
        read_table(tmp_path / "empty.parquet")


def test_a_damaged_parquet_file_is_refused(tmp_path):
    path = tmp_path / "t.parquet"
    frame().to_parquet(path)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DataError, match=r"t\.parquet: not a Parquet file, or a damaged one"):
        read_table(path)


@pytest.mark.parametrize("ordered", [False, True])
def test_text_of_a_parquet_file_that_is_no_text_is_refused(tmp_path, ordered):
    """Arrow read it, and failed with an error of its own where the values were sorted."""
    starts, letters = (pa.py_buffer(data) for data in (bytes([0, 0, 0, 0, 3, 0, 0, 0]), b"ye\xff"))
    text = pa.Array.from_buffers(pa.string(), 1, [None, starts, letters])
    column = pa.DictionaryArray.from_arrays(pa.array([0]), text, ordered=True) if ordered else text
    pq.write_table(pa.table({"a": column}), tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"t\.parquet: not a Parquet file, or a damaged one"):
        read_table(tmp_path / "t.parquet")


def test_a_carried_column_that_is_not_there_is_one_of_the_partition(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("ward,age,y\nA,1,no\nB,2,yes\n")
    with pytest.raises(DataError, match=r"no column 'wrd' .*; correct the partition's column"):
        read_table(path, target="y", carried=("wrd",))


def test_duplicate_and_unknown_columns_are_named(write):
    with pytest.raises(DataError, match="two columns are called 'a'"):
        read_table(write("a,b,a\n1,2,3\n"), target="b")
    with pytest.raises(DataError, match=r"no column 'il' \(did you mean 'ill'\?\)"):
        read_table(write(), target="il")
    with pytest.raises(DataError, match="no column 'city'; correct the target or the schema"):
        read_table(write("age,dose,ill\n1,2,no\n3,4,yes\n"), infer_schema(pd.read_csv(write(name="u.csv")), "ill"))


def test_a_target_with_one_class_is_refused(write):
    with pytest.raises(DataError, match="target 'ill' has one value or none"):
        read_table(write(CSV.replace("yes", "no")), target="ill")
    with pytest.raises(DataError, match="target 'ill' is the same in every row"):
        read_table(write(CSV.replace("yes", "no")), infer_schema(pd.read_csv(write(name="u.csv")), "ill"))


def test_a_constant_regression_target_is_refused():
    rows = frame().assign(y=1.5)
    with pytest.raises(DataError, match="target 'y' is the same in every row"):
        read_table(rows, Declared(target="y", task="regression"))


# One file per party ---------------------------------------------------------------------------------------------------


@pytest.fixture
def parties(write):
    write("city,age,ill\nUlm,31,no\nUlm,42,no\n", "north.csv")
    write("age,city,ill\n55.5,Kiel,yes\n60,Bonn,no\n", "south.csv")
    write('target = "ill"', "south.schema.toml")
    return write().parent


def test_each_file_is_a_party_and_all_share_one_schema(parties):
    tables = read_tables(str(parties / "*th.csv"))
    assert list(tables) == ["north", "south"]
    assert [len(t) for t in tables.values()] == [2, 2]
    assert tables["north"].schema == tables["south"].schema
    assert tables["north"].schema.integer == ()  # one party's ages are not whole
    assert list(tables["north"].frame) == list(tables["south"].frame) == ["city", "age", "ill"]


def test_one_party_may_hold_a_single_class_but_not_all(parties):
    assert set(read_tables(str(parties / "*th.csv"))["north"].labels()) == {0}
    (parties / "south.csv").write_text("age,city,ill\n55.5,Kiel,no\n")
    with pytest.raises(DataError, match=r"^2 files: target 'ill' has one value or none"):
        read_tables([parties / "north.csv", parties / "south.csv"])


def test_parties_of_different_columns_are_refused_with_file_and_column(parties):
    (parties / "south.csv").write_text("years,city,ill,ages\n5,Kiel,yes,1\n")
    with pytest.raises(DataError, match=r"south\.csv: no column 'age' \(did you mean 'ages'\?\), unlike .*north\.csv"):
        read_tables([parties / "north.csv", parties / "south.csv"])
    (parties / "south.csv").write_text("age,city,ill,extra\n5,Kiel,yes,1\n")
    with pytest.raises(DataError, match=r"north\.csv: no column 'extra', unlike .*south\.csv"):
        read_tables([parties / "north.csv", parties / "south.csv"])


@pytest.mark.parametrize("sources", ["north.csv", "*none.csv", []])
def test_a_federation_needs_two_files(parties, sources):
    with pytest.raises(DataError, match="a federation needs at least two parties, one file each"):
        read_tables(str(parties / sources) if isinstance(sources, str) else sources)


def test_a_file_is_of_one_party_alone(parties):
    with pytest.raises(DataError, match=r"north\.csv: is listed twice; give each party a file of its own$"):
        read_tables([parties / "north.csv", parties / "south.csv", parties / ".." / parties.name / "north.csv"])


def test_one_frame_is_no_federation_and_its_rows_are_not_shown():
    with pytest.raises(DataError, match=r"^sources: found 1; a federation needs at least two parties, one file each$"):
        read_tables([frame()], target="y")


def test_parties_may_bring_different_kinds_of_file(parties):
    pd.DataFrame({"city": ["Ulm"], "age": [3], "ill": ["yes"]}).to_parquet(parties / "west.parquet")
    tables = read_tables([parties / "north.csv", parties / "west.parquet"], target="ill")
    assert tables["west"].numbers().tolist() == [[3.0]]
    assert tables["north"].schema.numeric == ("age",)


def test_each_party_imputes_from_its_own_rows(write):
    a = write("x,y\n1,a\n1,b\n,a\n", "a.csv")
    b = write("x,y\n9,a\n9,b\n,a\n", "b.csv")
    tables = read_tables([a, b], target="y", missing="impute")
    assert [t.numbers()[-1, 0] for t in tables.values()] == [1.0, 9.0]


def test_a_bad_cell_is_named_by_its_own_file_and_row(parties):
    (parties / "south.csv").write_text("age,city,ill\n5,Kiel,yes\ninf,Bonn,no\n")
    with pytest.raises(DataError, match=r"south\.csv: row 2: column 'age' is not finite"):
        read_tables([parties / "north.csv", parties / "south.csv"])


# The real tables ------------------------------------------------------------------------------------------------------

REAL = {
    "adult": (45_222, 8, 6, 0.247844),
    "bank_churn": (10_000, 4, 6, 0.2037),
    "breast_cancer_wisconsin": (569, 0, 30, 0.372583),
    "cc_fraud": (34_713, 6, 8, 0.219572),
    "framingham": (4_240, 7, 8, 0.151887),
    "german": (1_000, 13, 7, 0.7),
    "hepatitis_c": (615, 1, 11, 0.121951),
    "lawschool": (56_117, 5, 2, 0.249),
    "lawschool_bar": (20_885, 5, 6, 0.949964),
    "parkinsons_telemonitoring": (5_875, 1, 18, 29.0189),
}


@pytest.mark.parametrize("name", REAL)
def test_a_real_table_loads_with_the_stated_rows_features_and_target(datasets, name):
    rows, categorical, numeric, mean = REAL[name]
    table = read_table(datasets / f"{name}.csv.gz", missing="impute")
    assert (len(table), len(table.schema.categorical), len(table.schema.numeric)) == (rows, categorical, numeric)
    assert np.mean(table.labels()) == pytest.approx(mean, rel=5e-3)


def test_a_real_table_with_missing_values_says_how_many(datasets):
    with pytest.raises(
        DataError, match="education 105, BPMeds 53, cigsPerDay 29, totChol 50, BMI 19, heartRate 1, glucose 388"
    ):
        read_table(datasets / "framingham.csv.gz")
    assert len(read_table(datasets / "cc_fraud.csv.gz", missing="drop")) == 34_713 - 28


def test_a_real_table_keeps_the_columns_that_group_its_rows(datasets):
    assert len(set(read_table(datasets / "parkinsons_telemonitoring.csv.gz").values("subject"))) == 42
