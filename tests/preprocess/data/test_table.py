"""Tables: rows, arrays, fingerprints, plain data, splits."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakledger.preprocess.data.errors import DataError
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.wire import decode, encode
from tests.preprocess.data.example import table, tables


def cells(t):
    return t.frame.to_numpy(dtype=object, na_value=None).tolist()


def test_arrays_have_the_stated_types_and_shapes():
    t = table(rows=50, classes=3)
    assert (t.labels().dtype, t.labels().shape) == (np.int64, (50,))
    assert (t.numbers().dtype, t.numbers().shape) == (np.float64, (50, 2))
    assert (t.values("city").dtype, type(t.values("city")[0])) == (object, str)
    assert t.numbers()[:, 0].tolist() == t.frame["age"].tolist()
    regression = table(classes=30, task="regression")
    assert regression.labels().dtype == np.float64
    assert regression.labels().tolist() == regression.frame["y"].tolist()


def test_a_table_without_numeric_features_has_numbers_of_width_zero():
    assert table(rows=50, numeric=()).numbers().shape == (50, 0)


def test_a_label_is_the_position_of_the_class():
    t = table(classes=3)
    assert [t.schema.classes[k] for k in t.labels()] == t.values("y").tolist()


def test_arrays_are_copies():
    t = table()
    before = t.fingerprint()
    t.numbers()[:] = 0
    t.values("city")[:] = ""
    t.labels()[:] = 0
    assert t.fingerprint() == before


@given(tables(), st.data())
def test_rows_come_in_the_order_asked(t, data):
    index = np.array(data.draw(st.lists(st.integers(0, len(t) - 1), max_size=10)), np.int64)
    assert cells(t.rows(index)) == [cells(t)[i] for i in index]
    assert t.rows(index).frame.index.tolist() == list(range(len(index)))


def test_a_column_that_is_not_text_or_not_there_has_no_values():
    with pytest.raises(DataError, match="no text column 'age'"):
        table().values("age")
    with pytest.raises(DataError, match=r"no text column 'citi' \(did you mean 'city'\?\)"):
        table().values("citi")


def test_a_frame_that_does_not_fit_the_schema_is_no_table():
    t = table()
    for change in ({"age": "x"}, {"city": 1.0}, {"dose": np.nan}, {"y": None}):
        with pytest.raises(DataError, match=rf"column '{next(iter(change))}' must be complete"):
            Table(t.frame.assign(**change), t.schema, "t")
    with pytest.raises(DataError, match="t: no column 'city'"):
        Table(t.frame.drop(columns="city"), t.schema, "t")


def test_a_class_that_the_schema_lacks_has_no_label():
    t = table(classes=3)
    with pytest.raises(DataError, match="the target is none of the schema's classes"):
        replace(t, schema=replace(t.schema, classes=("0", "1"))).labels()


@given(tables())
def test_a_table_survives_as_plain_data_and_on_the_wire(t):
    for plain in (t.to_plain(), decode(encode(t.to_plain()))):
        again = Table.from_plain(plain)
        assert (again.fingerprint(), again.name, again.schema) == (t.fingerprint(), t.name, t.schema)
        assert cells(again) == cells(t)


def test_a_missing_value_of_a_carried_column_survives_as_plain_data():
    t = table()
    ward = t.frame["ward"].mask(t.frame.index == 3)
    t = replace(t, frame=t.frame.assign(ward=ward))
    again = Table.from_plain(decode(encode(t.to_plain())))
    assert again.frame["ward"].isna().tolist() == ward.isna().tolist()
    assert again.fingerprint() == t.fingerprint()


def test_plain_data_that_makes_no_table_is_refused():
    plain = table().to_plain()
    for code in (1, -2):
        city = {"values": ["a"], "codes": np.full(60, code)}
        with pytest.raises(DataError, match="stands for no value"):
            Table.from_plain({**plain, "columns": {**plain["columns"], "city": city}})
    with pytest.raises(DataError, match="columns of different lengths"):
        Table.from_plain({**plain, "columns": {**plain["columns"], "age": np.ones(3)}})


CHANGES = {
    "a number": lambda t: replace(t, frame=t.frame.assign(age=t.frame["age"].where(t.frame.index != 5, 0.0))),
    "a text": lambda t: replace(t, frame=t.frame.assign(city=t.frame["city"].where(t.frame.index != 5, "other"))),
    "a carried text": lambda t: replace(t, frame=t.frame.assign(ward="w")),
    "every text, in the same order": lambda t: replace(t, frame=t.frame.assign(city="x" + t.frame["city"])),
    "the name of a carried column": lambda t: replace(t, frame=t.frame.rename(columns={"ward": "room"})),
    "the order of rows": lambda t: t.rows(np.arange(len(t))[::-1]),
    "a row less": lambda t: t.rows(np.arange(len(t) - 1)),
    "the order of columns": lambda t: replace(t, frame=t.frame[t.frame.columns[::-1]]),
    "the schema": lambda t: replace(t, schema=replace(t.schema, sensitive=("age",))),
    "two texts exchanged": lambda t: replace(t, frame=t.frame.assign(city=t.frame["pet"], pet=t.frame["city"])),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_fingerprint_changes_with(change):
    t = table()
    assert CHANGES[change](t).fingerprint() != t.fingerprint()


def test_equal_tables_have_equal_fingerprints_whatever_their_name():
    assert replace(table(), name="other").fingerprint() == table().fingerprint()


@given(tables(), st.floats(0.01, 0.99), st.integers(0, 99))
def test_a_split_puts_every_row_on_one_side_and_keeps_the_proportion(t, fraction, seed):
    numbered = replace(t, frame=t.frame.assign(row=pd.Series(range(len(t))).astype("str")))
    train, test = numbered.split(fraction, np.random.default_rng(seed))
    rows = [[int(r) for r in part.values("row")] for part in (train, test)]
    assert sorted(rows[0] + rows[1]) == list(range(len(t)))
    assert rows[0] == sorted(rows[0])
    assert rows[1] == sorted(rows[1])
    assert len(test) == min(max(round(len(t) * fraction), 1), len(t) - 1)


@given(tables(), st.floats(0.05, 0.95), st.integers(0, 99))
def test_each_class_is_split_in_that_proportion_to_within_one_row(t, fraction, seed):
    if t.schema.task == "regression":
        return
    _, test = t.split(fraction, np.random.default_rng(seed))
    share = len(test) / len(t)
    expected = np.bincount(t.labels()) * share
    assert (np.abs(np.bincount(test.labels(), minlength=len(expected)) - expected) < 1 + 1e-9).all()


def test_a_split_follows_its_generator():
    one, same, other = (table().split(0.3, np.random.default_rng(s))[1].fingerprint() for s in (1, 1, 2))
    assert one == same != other


def test_rows_are_held_out_at_random():
    t = table(rows=40)
    t = replace(t, frame=t.frame.assign(row=pd.Series(range(40)).astype("str")))
    drawn = {tuple(t.split(0.2, np.random.default_rng(s))[1].values("row")) for s in range(60)}
    assert len(drawn) > 55
    assert len({row for rows in drawn for row in rows}) == 40


def test_the_only_row_of_a_class_is_held_out_as_often_as_any_other():
    t = table(rows=40)
    for lone in ("0", "1"):
        y = pd.Series([lone if i == 7 else str(1 - int(lone)) for i in range(40)], dtype="str")
        alone = replace(t, frame=t.frame.assign(y=y))
        held = [lone in alone.split(0.2, np.random.default_rng(s))[1].values("y") for s in range(200)]
        assert 0.1 < np.mean(held) < 0.3


@pytest.mark.parametrize("fraction", [0, 1, -0.1, float("nan")])
def test_a_fraction_outside_zero_and_one_is_refused(fraction):
    with pytest.raises(DataError, match=r"test fraction .* is outside \(0, 1\)"):
        table().split(fraction, np.random.default_rng(0))


def test_one_row_cannot_be_split_and_two_are_one_each():
    assert [len(p) for p in table().rows(np.arange(2)).split(0.5, np.random.default_rng(0))] == [1, 1]
    with pytest.raises(DataError, match="1 row cannot be split"):
        table().rows(np.arange(1)).split(0.5, np.random.default_rng(0))


@given(t=tables(), seed=st.integers(0, 5), parties=st.integers(1, 6))
def test_what_is_divided_are_the_rows_at_these_positions(t, seed, parties):
    coins = np.random.default_rng(seed)
    order, counts = coins.permutation(len(t)), coins.multinomial(len(t), [1 / parties] * parties)
    pieces = np.split(order, np.cumsum(counts)[:-1])
    for part, piece in zip(t.divided(order, counts), pieces, strict=True):
        assert part.fingerprint() == t.rows(piece).fingerprint()
        assert part.frame.index.tolist() == list(range(len(piece)))
        assert part.schema is t.schema


def test_a_table_that_is_divided_is_checked_once_however_many_parties_there_are(monkeypatch):
    t, checked = table(rows=150), []
    monkeypatch.setattr(Table, "__post_init__", lambda self: checked.append(self))
    parts = t.divided(np.arange(150), np.full(50, 3))
    assert [len(p) for p in (*parts, t.rows(np.arange(7)))] == [*[3] * 50, 7]
    assert checked == []


@given(t=tables())
def test_text_columns_are_their_sorted_values_and_the_place_of_each(t):
    """The slow way: factorised by pandas. Missing texts have no place."""
    frame = t.frame.assign(city=t.frame["city"].where(np.arange(len(t)) % 3 > 0))
    partial = replace(t, frame=frame, partial=True)
    for name, plain in partial.to_plain()["columns"].items():
        if not isinstance(plain, np.ndarray):
            codes, values = pd.factorize(frame[name], sort=True)
            assert plain["values"] == [str(v) for v in values]
            assert plain["codes"].tolist() == codes.tolist()
            assert plain["codes"].dtype == np.int32
