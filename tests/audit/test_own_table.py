"""One's own table, from a file with semicolons, "NA", dates and an identifier to a configuration that runs."""

import json
import random
import sys

import pytest

from leakledger.audit.config_file import load_config
from leakledger.audit.federate import whole_table
from leakledger.preprocess.crypto.seal import sealapi
from tests.audit.test_cli import call, refused

WARDS = ("Innere", "Chirurgie", "Urologie")


def patients(folder, rows=160, name="patients.csv"):
    """A hospital's export as spreadsheets write them."""
    coins = random.Random(5)
    lines = ["patient_id;admitted;sex;age;ward;bmi;smoker;readmitted"]
    for k in range(rows):
        bmi = "NA" if k % 23 == 0 else f"{coins.gauss(26, 4):.1f}".replace(".", ",")
        smoker = coins.choice(["no", "No ", "yes"])
        day = f"2023-{coins.randint(1, 12):02}-{coins.randint(1, 28):02}"
        told = [f"P{1000 + k}", day, coins.choice("mf"), coins.randint(18, 95), coins.choice(WARDS), bmi, smoker]
        lines.append(";".join(map(str, [*told, coins.choice(["yes", "no"])])))
    (folder / name).write_text("\n".join(lines) + "\n", encoding="cp1252")
    return folder / name


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    patients(folder)
    call("init", folder / "audit.toml", "--data", folder / "patients.csv", "--target", "readmitted")
    return folder / "audit.toml"


def test_init_writes_how_the_file_is_written_and_what_its_columns_are(begun):
    data = load_config(begun, environment={}).data
    assert (data.separator, data.decimal, data.na_values, data.missing) == (";", ",", ["NA"], "impute")
    assert data.schema_file == {
        "target": "readmitted",
        "task": "binary",
        "classes": ["no", "yes"],
        "positive_class": "yes",
        "categorical": ["sex", "ward", "smoker"],
        "numeric": ["age", "bmi"],
        "integer": ["age"],
        "sensitive": [],
        "drop": ["patient_id", "admitted"],
    }


@pytest.mark.parametrize(
    ("labels", "positive"),
    [(["ja"] * 15 + ["nein"] * 15, "ja"), (["stayed"] * 5 + ["churned"] * 25, "stayed"), (["0"] * 5 + ["1"] * 25, "1")],
)
def test_init_looks_for_the_class_that_says_yes_or_is_rare(tmp_path, labels, positive):
    rows = "".join(f"{k % 7},{label}\n" for k, label in enumerate(labels))
    (tmp_path / "t.csv").write_text(f"x,label\n{rows}")
    call("init", tmp_path / "audit.toml", "--data", tmp_path / "t.csv", "--target", "label")
    schema = load_config(tmp_path / "audit.toml", environment={}).data.schema_file
    assert (schema["positive_class"], schema["classes"][-1]) == (positive, positive)


def test_init_shows_columns_with_masked_examples_and_no_cell(begun):
    text = begun.read_text()
    assert "# patient_id  dropped                160     0        A9999       identifier?" in text
    assert "9999-99-99  dates?" in text
    assert "levels alike" in text
    assert not any(word in text for word in ("P1000", "Innere", "2023-"))


def test_the_path_of_the_table_is_relative_to_the_configuration_that_names_it(begun, tmp_path, monkeypatch):
    assert 'source = "patients.csv"' in begun.read_text()
    monkeypatch.chdir(tmp_path)
    assert len(whole_table(load_config(begun, environment={}))) == 160
    (tmp_path / "sub").mkdir()
    patients(tmp_path)
    call("init", "sub/audit.toml", "--set", "data.source=patients.csv", "--set", "data.target=readmitted")
    assert 'source = "../patients.csv"' in (tmp_path / "sub" / "audit.toml").read_text()


def test_validate_tells_columns_slips_cases_clusters_and_cost(begun):
    said = " ".join(call("validate", begun).stdout.split())
    assert "identifier?" in said
    assert "levels that differ in spaces or capitals alone: 'No ' / 'no'" in said
    assert "4 cases; each verdict rests on 8 clusters" in said
    assert "Roughly" in said
    assert "Not declared" not in said


def test_validate_warns_of_identifiers_and_dates_among_the_features_and_of_rows_left_out(begun, tmp_path):
    path = patients(tmp_path)
    (tmp_path / "a.toml").write_text(
        '[data]\nsource = "patients.csv"\ntarget = "readmitted"\nseparator = ";"\ndecimal = ","\nmissing = "drop"\n'
        'na_values = ["NA"]\n'
    )
    told = json.loads(call("validate", tmp_path / "a.toml", "--json").stdout)
    warnings = " ".join(told["warnings"])
    assert "column 'patient_id' looks like an identifier of rows, and is a feature: list it under drop" in warnings
    assert "column 'admitted' holds dates" in warnings
    assert 'data.missing = "drop" leaves out 7 of 160 rows (missing most: bmi 7)' in warnings
    assert told["table"]["kept"] == 153
    assert path.name in told["data"]["name"]


def test_validate_counts_no_missing_cell_of_a_dropped_column_and_fills_in_no_target(tmp_path):
    rows = "".join(f",{k % 7},{('yes', 'no', '')[k % 3]}\n" for k in range(60))
    (tmp_path / "t.csv").write_text(f"note,x,y\n{rows}")
    (tmp_path / "a.toml").write_text(
        '[data]\nsource = "t.csv"\nmissing = "drop"\n[data.schema]\ntarget = "y"\nnumeric = ["x"]\ndrop = ["note"]\n'
    )
    warnings = json.loads(call("validate", tmp_path / "a.toml", "--json").stdout)["warnings"]
    left_out = next(line for line in warnings if "leaves out" in line)
    assert left_out.endswith("leaves out 20 of 60 rows (missing most: y 20); nothing fills in a target")


def test_init_asks_for_the_target_and_suggests_one(tmp_path):
    path = patients(tmp_path)
    assert "--target, one of patient_id, admitted" in refused("init", tmp_path / "a.toml", "--data", path)
    misspelt = refused("init", tmp_path / "a.toml", "--data", path, "--target", "readmited")
    assert "did you mean 'readmitted'" in misspelt
    assert not (tmp_path / "a.toml").exists()


@pytest.mark.parametrize(
    ("target", "what"), [("patient_id", "an identifier or free text (160 values"), ("admitted", "dates (")]
)
def test_init_writes_no_identifiers_and_dates_down_as_classes(tmp_path, target, what):
    path = patients(tmp_path)
    line = refused("init", tmp_path / "a.toml", "--data", path, "--target", target)
    assert f"{target!r} looks like {what}" in line
    assert "name another column with --target" in line
    assert not (tmp_path / "a.toml").exists()


@pytest.mark.parametrize("word", ["{}th ward", "W{:04}"])
def test_init_writes_few_classes_down_and_refuses_very_many(tmp_path, word):
    for levels in (2, 50, 51):
        rows = [f"{i % 90},{word.format(i % levels)}\n" for i in range(400)]
        (tmp_path / "t.csv").write_text("age,ward\n" + "".join(rows))
        command = ("init", tmp_path / f"{levels}.toml", "--data", tmp_path / "t.csv", "--target", "ward")
        if levels <= 50:
            call(*command)
            assert word.format(levels - 1) in (tmp_path / f"{levels}.toml").read_text()
        else:
            assert "'ward' has very many classes (51 values in 400 rows), and each would be" in refused(*command)
            assert not (tmp_path / "51.toml").exists()
    schema = {"target": "ward", "categorical": [], "classes": sorted({word.format(i) for i in range(51)})}
    (tmp_path / "t.schema.json").write_text(json.dumps(schema))
    call(*command)
    assert word.format(50) not in (tmp_path / "51.toml").read_text()


def test_validate_warns_of_a_target_that_names_rows(tmp_path):
    patients(tmp_path)
    (tmp_path / "a.toml").write_text(
        '[data]\nsource = "patients.csv"\ntarget = "patient_id"\nseparator = ";"\ndecimal = ","\nmissing = "drop"\n'
        'na_values = ["NA"]\n[model]\nhidden = [8]\n'
    )
    warnings = " ".join(json.loads(call("validate", tmp_path / "a.toml", "--json").stdout)["warnings"])
    assert "column 'patient_id' looks like an identifier of rows, and is the target: each value is a class" in warnings


def test_a_file_that_cannot_be_looked_at_is_one_line(tmp_path):
    patients(tmp_path)
    begun = ("init", tmp_path / "a.toml", "--target", "readmitted", "--data")
    assert "no such file (did you mean 'patients.csv'?)" in refused(*begun, tmp_path / "patient.csv")
    (tmp_path / "cut.csv.gz").write_bytes(b"\x1f\x8bcut")
    assert "not a whole gzip file" in refused(*begun, tmp_path / "cut.csv.gz")
    assert "utf-88" in refused(*begun, tmp_path / "patients.csv", "--set", "data.encoding=utf-88")


def test_a_schema_beside_the_table_is_left_where_it_is(tmp_path):
    path = patients(tmp_path)
    (tmp_path / "patients.schema.toml").write_text('target = "readmitted"\nseparator = ";"\ndrop = ["patient_id"]\n')
    call("init", tmp_path / "a.toml", "--data", path)
    text = (tmp_path / "a.toml").read_text()
    assert "\n[data.schema]" not in text
    assert "# separator =" in text
    assert 'decimal = ","' in text


def test_a_slip_in_the_schema_of_a_configuration_is_one_line_with_a_suggestion(begun, tmp_path):
    text = begun.read_text().replace("categorical = [", "catgorical = [")
    (tmp_path / "a.toml").write_text(text)
    line = refused("validate", tmp_path / "a.toml")
    assert "a.toml: data.schema: catgorical: unknown key (did you mean 'categorical'?)" in line


def test_the_column_whose_values_are_the_parties_is_no_feature(tmp_path):
    rows = "".join(f"{1 + k % 3},{20 + k},{'ab'[k % 2]},{'yn'[k // 2 % 2]}\n" for k in range(60))
    (tmp_path / "t.csv").write_text(f"site,age,sex,ill\n{rows}")
    (tmp_path / "a.toml").write_text(
        '[data]\nsource = "t.csv"\ntarget = "ill"\n[partition]\nkind = "by-column"\ncolumn = "site"\nparties = 3\n'
    )
    told = json.loads(call("validate", tmp_path / "a.toml", "--json").stdout)
    assert (told["data"]["categorical"], told["data"]["numeric"]) == (1, 1)
    assert [c["role"] for c in told["table"]["columns"]] == [
        "party",
        "feature whole numbers",
        "feature categorical",
        "target binary",
    ]
    assert list(next(iter(told["data"]["party_rows"].values()))) == ["1", "2", "3"]


REFUSED = {
    "a value that is too long for its code": (
        ["preprocessing.encoder=bytes-norm", "preprocessing.longest=2"],
        "longer",
    ),
    "a ring without a client": (["preprocessing.encoder=uhe", 'preprocessing.ring=["P1"]'], "must name each of"),
    "a party with too few rows, of a later seed": (
        ["partition.kind=dirichlet-quantity", "partition.beta=0.01", "partition.minimum=30"],
        "the minimum is 30",
    ),
    "an unseen value where that is an error": (["preprocessing.unseen=error"], "not in the dictionary"),
    "a loss of another task": (["model.loss=mae"], "loss 'mae' is that of a regression"),
    "a scaler under encryption without ranges": (
        ["preprocessing.scaler=ppf-zscore"],
        "encryption needs the range of 'age'",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_run_would_refuse_validate_refuses_in_one_line(tmp_path, case):
    settings, expected = REFUSED[case]
    rows = "".join(f"{20 + k},w{k},{'yn'[k // 2 % 2]}\n" for k in range(160))
    (tmp_path / "t.csv").write_text(f"age,ward,ill\n{rows}")
    (tmp_path / "a.toml").write_text('[data]\nsource = "t.csv"\ntarget = "ill"\n[preprocessing]\nscaler = "local"\n')
    assert expected in refused("validate", tmp_path / "a.toml", *(part for s in settings for part in ("--set", s)))


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ("west,30,4,y\n", "t: west has 1 row, and training and held-out rows take two; divide the rows otherwise"),
        (
            "west,30,,y\n" * 4,
            "column 'dose' holds nothing to impute from; list it under drop in a schema (in fill at west ",
        ),
    ],
)
def test_a_party_whose_rows_cannot_be_used_is_named(tmp_path, cells, expected):
    rows = "".join(f"{('north', 'south')[k % 2]},{20 + k},{k % 5},{'yn'[k // 2 % 2]}\n" for k in range(40))
    (tmp_path / "t.csv").write_text(f"site,age,dose,ill\n{rows}{cells}")
    (tmp_path / "a.toml").write_text(
        '[data]\nsource = "t.csv"\ntarget = "ill"\nmissing = "impute"\n'
        '[partition]\nkind = "by-column"\ncolumn = "site"\nparties = 3\nminimum = 1\n'
    )
    assert expected in refused("validate", tmp_path / "a.toml")


def test_a_method_on_ciphertexts_is_tried_on_few_rows_and_refused_for_none_of_them(tmp_path):
    rows = "".join(f"{20 + k if k > 90 else ''},w{k},{'yn'[k // 2 % 2]}\n" for k in range(160))
    (tmp_path / "t.csv").write_text(f"age,ward,ill\n{rows}")
    (tmp_path / "a.toml").write_text(
        '[data]\nsource = "t.csv"\ntarget = "ill"\nmissing = "impute"\n'
        '[preprocessing]\nencoder = "dh-psi"\nunseen = "error"\nscaler = "local"\n[audit]\nseeds = [0]\n'
    )
    assert "1 case; each verdict" in call("validate", tmp_path / "a.toml").stdout


@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_line_of_an_account_breaks_a_word_at_any_width(begun, monkeypatch, width):
    from leakledger.audit import command_table
    from leakledger.audit.terminal import Terminal

    narrow = Terminal(width=width, record=True)
    monkeypatch.setattr(command_table, "console", narrow)
    call("validate", begun)
    text = narrow.export_text()
    for word in ("patient_id", "readmitted", "server-dictionary", "categorical", "identifier?"):
        assert word in text


@pytest.mark.parametrize(("settings", "extra"), [("scaler=ppf-zscore", "he"), ("encoder=apsi", "psi")])
def test_a_library_that_is_missing_is_named_with_what_to_install(tmp_path, monkeypatch, settings, extra):
    monkeypatch.setitem(sys.modules, "tenseal.sealapi", None)
    sealapi.cache_clear()
    rows = "".join(f"{20 + k},w{k % 3},{'yn'[k // 2 % 2]}\n" for k in range(160))
    (tmp_path / "t.csv").write_text(f"age,ward,ill\n{rows}")
    (tmp_path / "a.toml").write_text('[data]\nsource = "t.csv"\ntarget = "ill"\nranges = { age = [0, 200] }\n')
    line = refused("validate", tmp_path / "a.toml", "--set", f"preprocessing.{settings}")
    assert f"{settings.split('=')[1]} needs tenseal; install leakledger[{extra}]" in line
    sealapi.cache_clear()
