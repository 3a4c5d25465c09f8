from dataclasses import replace

from leakledger.audit.records import Cell, RecoveredRecord
from leakledger.reports.evidence import MASK, MOST, evidence
from tests.reports.example import SERVER, case, setting

CASE = case(1, setting(1), 0)


def record(name, categorical, numeric=0.0, correct=True):
    cells = [Cell("ward", "categorical", name, correct, entropy, "paediatrics") for entropy in categorical]
    age = Cell("age", "numeric", "61", correct, numeric, "17")
    return RecoveredRecord("tableak", (SERVER,), name, 0, (*cells, age))


def found(*records, **options):
    return evidence([replace(CASE, recovered=records)], **options)[0]


def test_masked_cells_do_not_carry_their_value():
    item = found(record("oncology", [0.1]))
    assert {cell.text for _, cells in item.rows for cell in cells} == {MASK}
    assert {cell.truth for _, cells in item.rows for cell in cells} == {MASK}
    assert not any(value in repr(item.rows) for value in ("oncology", "paediatrics", "61", "17"))


def test_a_revealed_cell_has_the_truth_beside_the_claim():
    rows = found(record("oncology", [0.1], correct=False), reveal=True).rows
    assert [(cells[0].text, cells[0].truth) for _, cells in rows] == [("oncology", "paediatrics"), ("61", "17")]


def test_revealed_cells_carry_their_value():
    assert [cells[0].text for _, cells in found(record("oncology", [0.1]), reveal=True).rows] == ["oncology", "61"]


def test_the_surest_records_are_chosen_whether_right_or_wrong():
    records = [record(f"v{i}", [i / 20], correct=i % 2 == 0) for i in range(12)]
    item = found(*records[::-1])
    assert [r.victim for r in item.records] == [f"v{i}" for i in range(MOST)]
    assert [r.correct for r in item.records] == [2, 0, 2, 0, 2]
    assert item.kept == 12


def test_categorical_entropy_comes_before_numeric():
    item = found(record("b", [0.2], -5.0), record("a", [0.1], 5.0))
    assert [r.victim for r in item.records] == ["a", "b"]


def test_numeric_entropy_decides_where_categorical_does_not():
    item = found(record("b", [0.1], -1.0), record("a", [0.1], -2.0))
    assert [r.victim for r in item.records] == ["a", "b"]


def test_a_record_without_a_feature_leaves_its_place_open():
    wide = record("a", [0.0])
    narrow = replace(wide, cells=wide.cells[:1])
    rows = dict(found(wide, narrow).rows)
    assert rows["age"][0] is not None
    assert rows["age"][1] is None


def test_proven_records_come_first_and_those_without_an_entropy_last():
    proven = replace(record("proven", [0.9]), verified=True)
    silent = replace(record("silent", [0.0]), cells=(Cell("ward", "categorical", "x", True, None),))
    item = found(silent, record("sure", [0.1]), proven)
    assert [(r.victim, r.verified) for r in item.records] == [("proven", True), ("sure", False), ("silent", False)]
