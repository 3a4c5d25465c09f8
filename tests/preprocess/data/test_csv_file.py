"""CSV as text, every irregularity named."""

import csv
import gzip
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakledger.preprocess.data.csv_file import read_csv
from leakledger.preprocess.data.errors import DataError
from tests.every import every

CELLS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)


@pytest.fixture
def parse(tmp_path):
    def parse(content, name="t.csv", encoding="utf-8", separator=","):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_csv(path, encoding, separator)

    return parse


@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=8))
def test_every_text_survives_quoting(tmp_path_factory, rows):
    written = io.StringIO(newline="")
    csv.writer(written, quoting=csv.QUOTE_ALL).writerows([("a", "b"), *rows])
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    path.write_bytes(written.getvalue().encode())
    assert [tuple(r) for r in read_csv(path, "utf-8", ",").to_numpy(dtype=object)] == rows


def test_cells_stay_as_written(parse):
    frame = parse('a,b\n01,NA\n" x",1e3\n')
    assert frame.to_numpy(dtype=object).tolist() == [["01", "NA"], [" x", "1e3"]]
    assert set(map(str, frame.dtypes)) == {"str"}


def test_a_byte_order_mark_is_no_part_of_the_header(parse):
    assert list(parse(b"\xef\xbb\xbfa,b\n1,2\n")) == ["a", "b"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_any_line_end_will_do_and_blank_lines_are_skipped(parse, end):
    assert parse(end.join(["a,b", "1,2", "", "3,4", "", ""])).to_numpy().tolist() == [["1", "2"], ["3", "4"]]


def test_gzip_is_known_by_name_and_by_content(parse):
    packed = gzip.compress(b"a,b\n1,2\n")
    assert len(parse(packed, "t.csv.gz")) == len(parse(packed, "t.csv")) == 1


def test_another_separator_and_encoding_are_options(parse):
    assert parse("a;b\nZürich;2\n".encode("latin-1"), encoding="latin-1", separator=";")["a"].tolist() == ["Zürich"]


BAD = {
    "empty": (b"", "the file is empty"),
    "blank": (b"\n\n", "the file is empty"),
    "header only": (b"a,b\n", "there is a header but no row"),
    "short row": (b"a,b\n1,2\n\n3\n", r"row 2 has 1 field, the header 2"),
    "long row": (b"a,b\n1,2,3\n", r"row 1 has 3 fields, the header 2"),
    "unnamed column": (b",a\n0,1\n", r"column 1 has no name; name it, or remove it \(a row index\?\)"),
    "one column": (b"a;b\n1;2\n", "the header has one column; is ',' the separator"),
    "workbook": (b"PK\x03\x04\x14\0\x06,\0\n1,2\n", "no text, its first line has zero bytes; save a workbook as CSV"),
    "utf-16 without its mark": ("a,b\n1,2\n".encode("utf-16-le"), "no text, .* or set data.encoding"),
    "open quote": (b'a,b\n1,"2\n3,4\n', "line 3 is not CSV: .*quotes"),
    "stray quote": (b'a,b\n1,"2"x\n', "line 2 is not CSV: .*quotes"),
    "latin-1": ("a,b\nZürich,2\n".encode("latin-1"), "the byte at offset 5 is not utf-8; set data.encoding"),
    "half a gzip": (gzip.compress(b"a,b\n1,2\n")[:-6], "not a whole gzip file"),
    "flipped gzip": (gzip.compress(b"a,b\n1,2\n")[:-8] + b"\0" * 8, "not a whole gzip file"),
}


@every("case", BAD)
def test_a_bad_file_is_one_line_that_says_where(parse, case):
    content, problem = BAD[case]
    with pytest.raises(DataError, match=f"^[^\n]*t.csv: {problem}[^\n]*$"):
        parse(content)


def test_a_name_in_gz_promises_gzip(parse):
    with pytest.raises(DataError, match=r"t\.csv\.gz: not a whole gzip file; .* take \.gz off its name") as said:
        parse(b"Smith,b\n1,2\n", "t.csv.gz")
    assert "b'Sm'" not in str(said.value)  # as the library says it


def test_an_unknown_encoding_and_a_long_separator_are_refused(parse):
    with pytest.raises(DataError, match="encoding 'utf-88' is unknown"):
        parse("a,b\n1,2\n", encoding="utf-88")
    with pytest.raises(DataError, match="separator ', ' must be one character"):
        parse("a,b\n1,2\n", separator=", ")


def test_long_fields_are_read_and_the_limit_of_the_csv_module_is_left_as_it_was(parse):
    default = 131_072
    assert len(parse("a,b\n" + "x" * 200_000 + ",2\n")["a"][0]) == 200_000
    assert csv.field_size_limit() == default
