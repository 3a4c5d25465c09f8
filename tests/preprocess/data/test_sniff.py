"""Guesses about how a file is written, which a person checks."""

import gzip

import pytest

from leakledger.preprocess.data.errors import DataError
from leakledger.preprocess.data.sniff import sniffed

NOTHING = {"separator": None, "encoding": None, "decimal": None, "na_values": None}


def guess(folder, content, name="t.csv", **given):
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    form = sniffed(folder / name, NOTHING | given)
    return form.separator, form.encoding, form.decimal, form.na_values


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_separator_that_cuts_all_lines_alike_is_found(tmp_path, separator):
    text = "a,b,c\n1,2,x\n3,4,y\n".replace(",", separator)
    assert guess(tmp_path, text) == (separator, "utf-8", ".", ())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("age,job,y\n1,a\n2,b,yes,3\n", "row 1 has 2 fields, the header 3"),
        ('age,job,y\n1,"a,no\n2,b,yes\n', "line 3 is not CSV"),
    ],
)
def test_where_lines_differ_the_header_says_how_they_are_cut_and_reading_which_line_is_wrong(tmp_path, text, problem):
    """It was said of such a file that its header has one column, under ';'."""
    with pytest.raises(DataError, match=problem):
        guess(tmp_path, text)


def test_commas_in_numbers_and_quotes_are_no_separators(tmp_path):
    assert guess(tmp_path, 'a;b\n1,5;"x,y,z"\n2;"u,v,w"\n3,25;"p"\n')[::2] == (";", ",")


def test_decimal_commas_in_quotes_are_found_where_commas_separate_but_not_beside_points_or_as_thousands(tmp_path):
    assert guess(tmp_path, 'a,b\n"1,5",x\n2,y\n"3,25",x\n')[::2] == (",", ",")
    assert guess(tmp_path, 'a,b\n"1,5",0.5\n2,1.5\n"3,25",2.5\n')[2] == "."
    assert guess(tmp_path, 'a,b\n"1,500",x\n950,y\n"3,250",x\n')[2] == "."


def test_bytes_that_are_not_utf_8_are_taken_for_cp1252_and_a_compressed_file_is_opened(tmp_path):
    content = "a,b\nZürich,1\nUlm,2\n".encode("cp1252")
    assert guess(tmp_path, content)[1] == "cp1252"
    assert guess(tmp_path, gzip.compress(content), "t.csv.gz")[1] == "cp1252"


def test_signs_for_missing_are_found_in_any_column_and_words_among_numbers(tmp_path):
    rows = "".join(f"{k},{'x' if k % 2 else 'none'}\n" for k in range(20))
    assert guess(tmp_path, f"n,t\n{rows}unknown,NA\n-,?\n")[3] == ("-", "?", "NA", "unknown")


def test_words_among_numbers_are_found_beside_many_usual_signs(tmp_path):
    cells = ["k.A."] * 6 + ["NA"] * 10 + [str(k / 4) for k in range(12)]
    rows = "".join(f"{cell},{k % 2}\n" for k, cell in enumerate(cells))
    assert guess(tmp_path, f"crp,y\n{rows}")[3] == ("NA", "k.A.")


def test_a_column_without_a_value_is_passed_over(tmp_path):
    assert guess(tmp_path, "a,b,c\n1,,NA\n2,,NA\n")[3] == ("NA",)


def test_what_is_given_is_not_guessed(tmp_path):
    given = {"separator": ",", "na_values": ["x"], "encoding": "latin-1", "decimal": "."}
    assert guess(tmp_path, "a;b,c\n1;2,NA\n", **given) == (",", "latin-1", ".", ("x",))


def test_commas_that_group_thousands_are_no_decimal_commas(tmp_path):
    rows = ["950\t1.5\ta", "1,234\t2.5\tb", "12,500\t3.5\ta"]
    assert guess(tmp_path, "\n".join(["income\tbmi\ty", *rows]))[2] == "."
    assert guess(tmp_path, "\n".join(["income\tbmi\ty", *rows]).replace(".", ","))[2] == ","
    with pytest.raises(DataError, match=r"may be above a thousand, or have decimals; set data\.decimal"):
        guess(tmp_path, "\n".join(["income\tbmi\ty", *rows]).replace(".5", ""))
    assert guess(tmp_path, "income;y\n0,950;a\n1,234;b\n")[2] == ","  # no thousands begin with 0


def test_cells_of_nothing_but_spaces_mean_missing_in_any_column(tmp_path):
    assert guess(tmp_path, "age,smoker,y\n1,yes,a\n  ,   ,b\n3, no,a\n")[3] == ("  ", "   ")
