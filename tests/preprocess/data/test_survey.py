"""What is noticed of columns before anything is read into them."""

import pandas as pd
import pytest

from leakledger.preprocess.data.columns import plain_frame
from leakledger.preprocess.data.survey import masked, near_duplicates, rows_with_missing, survey

N = 40


def remarks(**columns):
    frame = pd.DataFrame({name: pd.Series(values, dtype="str") for name, values in columns.items()})
    return {c.name: c.remark for c in survey(plain_frame(frame, {""}, "t"))}


def test_what_names_rows_is_noticed_and_what_measures_them_is_not():
    found = remarks(
        patient=[f"P{k * 17}" for k in range(N)],
        mrn=[str(k * k * 31) for k in range(N)],
        visitId=[str(k * k * 31) for k in range(N)],
        serial=[str(1000 + k) for k in range(N)],
        register=[str(10**17 + k * k * 31) for k in range(N)],
        income=[str(20_000 + k * k * 31) for k in range(N)],
        height=[f"1.{50 + k}" for k in range(N)],
        sex=["f", "m"] * (N // 2),
    )
    named = {name for name, remark in found.items() if remark == "identifier"}
    assert named == {"patient", "mrn", "visitId", "serial", "register"}


@pytest.mark.parametrize(
    "date",
    [
        *(
            "2023-05-{:02}",
            "2023-05-{:02} 08:30:00",
            "{:02}.05.2023",
            "05/{:02}/23",
            "202305{:02}",
            "2023-05-{:02}T08:30Z",
        ),
        *("{:02}-MAY-23", "{}. Dezember 2023", "{} May 2023 08:30", "May {}, 2023"),
    ],
)
def test_dates_are_noticed_in_any_usual_notation(date):
    assert remarks(day=[date.format(1 + k % 28) for k in range(N)]) == {"day": "date"}


def test_numbers_and_ranges_are_no_dates():
    found = remarks(a=["1.5", "2.75"] * 20, b=["12-15", "16-20"] * 20, c=["20231399", "20231400"] * 20)
    assert "date" not in found.values()


def test_few_whole_numbers_may_be_a_code_one_value_is_constant_and_an_empty_column_is_nothing():
    found = remarks(ward=list("1234") * 10, flag=["0", "1"] * 20, same=["x"] * N, none=[""] * N)
    assert found == {"ward": "code", "flag": "", "same": "constant", "none": ""}


def test_numbers_with_separators_of_thousands_are_no_identifier_and_noticed_whatever_the_separator():
    for sign, decimal in ((",", "."), (".", ","), ("'", "."), ("\u00a0", ",")):
        cells = [f"{1000 + 7 * i:,}.5".replace(",", "#").replace(".", decimal).replace("#", sign) for i in range(50)]
        (one,) = survey(pd.DataFrame({"bill": [*cells, "800", "12"]}))
        assert (one.kind, one.remark) == ("text", "thousands")
    (other,) = survey(pd.DataFrame({"bill": [f"a{i:,}" for i in range(1000, 1050)]}))
    assert other.remark == "identifier"


def test_numbers_whose_every_point_may_separate_thousands_are_noticed_and_plain_decimals_are_not():
    found = remarks(
        salary=["950", "1.250", "12.500", "900"] * 10,
        weight=["0.950", "1.250", "12.500", "900"] * 10,
        price=["9.99", "1.250", "12.500", "900"] * 10,
        count=["950", "1250"] * 20,
        code=["a1.250", "1.250"] * 20,
    )
    assert found == {"salary": "grouped", "weight": "", "price": "", "count": "", "code": ""}
    (typed,) = survey(pd.DataFrame({"salary": [950.0, 1.25, 12.5]}))
    assert typed.remark == ""  # read from a file of numbers, where nobody wrote a point


def test_levels_that_differ_in_spaces_or_capitals_alone_are_grouped():
    assert near_duplicates(["No ", "no", "yes", "n o", "N  O"]) == (("No ", "no"), ("N  O", "n o"))
    assert near_duplicates(["a", "b"]) == ()


def test_an_example_shows_the_shape_of_a_cell_and_none_of_its_letters_or_digits():
    assert masked("Zoë-12.5 ü") == "Aaa-99.9 a"
    assert masked("x" * 40) == "a" * 15 + "…"


def test_rows_that_miss_a_used_value_are_counted_once():
    frame = pd.DataFrame({"a": [None, "x", None], "b": [None, "y", "z"], "c": [None, None, None]})
    assert rows_with_missing(frame, ["a", "b"]) == 2
