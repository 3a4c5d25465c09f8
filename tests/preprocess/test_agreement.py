"""Agreement on a schema: what is told, what follows, and that nothing is told where all is declared."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakledger.preprocess.agreement import agree
from leakledger.preprocess.data.basis import Basis
from leakledger.preprocess.data.clean import clean
from leakledger.preprocess.data.columns import plain_frame
from leakledger.preprocess.data.embedded import EMBEDDED
from leakledger.preprocess.data.errors import DataError
from leakledger.preprocess.data.inference import basis_of, infer
from leakledger.preprocess.data.partition import partition
from leakledger.preprocess.data.read import read_table
from leakledger.preprocess.data.schema_file import Declared
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.secret import pinned
from leakledger.preprocess.transport.simulated import Simulated
from tests.preprocess.contract import assert_same_views

PARTIES = ("P1", "P2", "P3")
CSV = {
    "age": ["3.0", "4", "5", "6", "7", "8"],
    "dose": ["0.5", "1", "2", "3", "4", "5"],
    "city": ["Ulm", "Bonn", "Kiel", "Ulm", "Bonn", "Kiel"],
    "zip": ["10115", "02139", "53111", "89073", "24103", "53111"],
    "ill": ["no", "yes", "no", "yes", "no", "maybe"],
}


def write(folder, **changes):
    path = folder / "t.csv"
    pd.DataFrame({**CSV, **changes}).to_csv(path, index=False)
    return path


def divided(table, parties=PARTIES):
    """Equal runs of rows: party k has the rows k of `parties`, a half of them held out."""
    pieces = zip(parties, np.array_split(np.arange(len(table)), len(parties)), strict=True)
    return {p: (table.rows(i[: len(i) // 2]), table.rows(i[len(i) // 2 :])) for p, i in pieces}


def negotiate(table, split=None):
    """The federation after the agreement, and what it agreed on."""
    split = split or divided(table)
    fed = Simulated(list(split), secret=pinned(0))
    train, test = ({p: fed.at(p, pair[k]) for p, pair in split.items()} for k in (0, 1))
    return fed, agree(fed, table.basis, train, test)


def told(fed, topic):
    return {m.sender: m.payload.to_plain() for m in fed.ledger if m.topic == topic}


def test_the_schema_is_that_of_all_rows_together(tmp_path):
    table = read_table(write(tmp_path), target="ill")
    fed, agreed = negotiate(table)
    assert agreed.schema.value == table.schema
    assert table.schema.numeric == ("age", "dose")
    assert table.schema.integer == ("age",)
    assert table.schema.classes == ("maybe", "no", "yes")
    assert {m.step for m in fed.ledger} == {"schema"}


def test_each_party_tells_what_its_own_rows_hold_and_the_server_what_all_hold(tmp_path):
    fed, _ = negotiate(read_table(write(tmp_path), target="ill"))
    assert told(fed, "schema.local") == {
        "P1": {"whole": ["age"], "number": ["dose"], "text": ["city", "zip", "ill"]},
        "P2": {"whole": ["age", "dose", "zip"], "number": [], "text": ["city", "ill"]},
        "P3": {"whole": ["age", "dose", "zip"], "number": [], "text": ["city", "ill"]},
    }
    everyone = {"whole": ["age"], "number": ["dose"], "text": ["city", "zip", "ill"]}
    agreed = told(fed, "schema.agreed")["server"]
    assert {k: sorted(v) for k, v in agreed.items()} == {k: sorted(v) for k, v in everyone.items()}
    assert told(fed, "schema.local-classes") == {
        "P1": {"classes": ["no", "yes"]},
        "P2": {"classes": ["no", "yes"]},
        "P3": {"classes": ["maybe", "no"]},
    }
    assert told(fed, "schema.agreed-classes") == {"server": {"classes": ["maybe", "no", "yes"]}}


DECLARED = Declared(
    target="ill", categorical=("city", "zip"), numeric=("age", "dose"), integer=("age",), classes=("maybe", "no", "yes")
)


def test_what_is_declared_is_not_told(tmp_path):
    table = read_table(write(tmp_path), DECLARED)
    fed, agreed = negotiate(table)
    assert len(fed.ledger) == 0
    assert (agreed.schema.value, table.basis.negotiated) == (table.schema, ())


KINDS, CLASSES = {"schema.local", "schema.agreed"}, {"schema.local-classes", "schema.agreed-classes"}
OPEN = {
    "integer": ({"integer": None}, {"schema.local", "schema.agreed"}, ("integer",)),
    "classes": (
        {"classes": None, "task": "multiclass"},
        {"schema.local-classes", "schema.agreed-classes"},
        ("classes",),
    ),
    "kinds": ({"categorical": None}, {"schema.local", "schema.agreed"}, ("kinds",)),
}


@pytest.mark.parametrize("fact", OPEN)
def test_only_what_is_not_declared_is_told(fact, tmp_path):
    change, topics, negotiated = OPEN[fact]
    table = read_table(write(tmp_path), DECLARED.model_copy(update=change))
    fed, agreed = negotiate(table)
    assert {m.topic for m in fed.ledger} == topics
    assert (agreed.schema.value, table.basis.negotiated) == (table.schema, negotiated)


def test_a_target_of_many_numbers_is_a_quantity_whose_values_nobody_tells(tmp_path):
    score = [str(v) for v in np.arange(36) / 4]
    path = write(tmp_path, **{k: v * 6 for k, v in CSV.items() if k != "ill"}, ill=score)
    table = read_table(path, target="ill")
    fed, agreed = negotiate(table)
    assert (agreed.schema.value.task, agreed.schema.value) == ("regression", table.schema)
    assert set(map(str, told(fed, "schema.local-classes").values())) == {"{'classes': None}"}
    declared, _ = negotiate(read_table(path, Declared(target="ill", task="regression")))
    assert {m.topic for m in declared.ledger} == KINDS


def test_a_target_of_many_words_has_that_many_classes(tmp_path):
    """Ten is the limit of classes that are numbers; of words all are told."""
    words = [f"w{i}" for i in range(36)]
    table = read_table(write(tmp_path, **{k: v * 6 for k, v in CSV.items() if k != "ill"}, ill=words), target="ill")
    _, agreed = negotiate(table)
    assert agreed.schema.value.classes == tuple(sorted(words))


@pytest.mark.parametrize("name", EMBEDDED)
@pytest.mark.parametrize("kind", ["iid", "divergent"])
def test_parties_of_an_embedded_table_agree_on_what_it_declares(name, kind):
    frame, declared = EMBEDDED[name]()
    known = read_table(name)
    assert known.basis.negotiated == ()
    open_table = read_table(frame, declared.model_copy(update={"classes": None, "integer": None}))
    parts = partition(open_table, kind, 4, np.random.default_rng(0))
    split = {p: t.split(0.2, np.random.default_rng(1)) for p, t in parts.items()}
    fed, agreed = negotiate(open_table, split)
    assert agreed.schema.value == known.schema
    assert len(fed.ledger) == 2 * (4 + 4)


@pytest.mark.parametrize("name", ["framingham", "german", "parkinsons_telemonitoring"])
def test_parties_of_a_real_table_agree_on_what_its_schema_leaves_open(datasets, name):
    table = read_table(datasets / f"{name}.csv.gz", missing="keep")
    parts = partition(table, "iid", 3, np.random.default_rng(0))
    fed, agreed = negotiate(table, {p: t.split(0.2, np.random.default_rng(1)) for p, t in parts.items()})
    assert table.basis.negotiated == ("integer",)
    assert agreed.schema.value == table.schema
    assert [m.topic for m in fed.ledger] == ["schema.local"] * 3 + ["schema.agreed"] * 3


CELL = st.sampled_from(["1", "2", "0.5", "03", "x", "", "10"])
TARGET = st.sampled_from(["0", "1", "2", "0.5", "a", "b"])


@given(st.lists(st.tuples(CELL, CELL, TARGET), min_size=12, max_size=30), st.randoms(use_true_random=False))
def test_however_rows_are_divided_parties_agree_on_what_would_be_inferred(rows, coins):
    frame = pd.DataFrame([("1", *r) for r in rows], columns=["n", "a", "b", "y"], dtype="str")
    whole = _read_as_csv(frame)
    if whole is None:
        return
    names = [f"P{coins.randint(1, 3)}" for _ in rows]
    held = {p: np.array([i for i, n in enumerate(names) if n == p] or [0], np.int64) for p in PARTIES}
    split = {p: (whole.rows(i[:1]), whole.rows(i)) for p, i in held.items()}
    assert negotiate(whole, split)[1].schema.value == whole.schema


def _read_as_csv(frame):
    """The table of a frame whose cells are read as those of a CSV file; None where it is none."""
    plain = plain_frame(frame, [""], "t")
    try:
        basis = basis_of(Declared(target="y"), plain, "t", typed=False)
        return clean(plain, infer(basis, plain), "t", "t", "keep", basis)
    except DataError:
        return None


def test_parties_whose_rows_lack_a_second_class_are_told_so(tmp_path):
    table = read_table(write(tmp_path), DECLARED.model_copy(update={"classes": None}))
    rows = table.rows(np.array([0, 2, 4]))
    with pytest.raises(DataError, match="target 'ill' has one value or none"):
        negotiate(table, divided(rows))


def test_tables_take_the_form_that_was_agreed_on(tmp_path):
    """A word in a row that no party was given makes no column text."""
    table = read_table(write(tmp_path, age=["3.0", "4", "x", "y", "z", "8"]), target="ill")
    assert table.schema.categorical == ("age", "city", "zip")
    rows = table.rows(np.array([0, 1, 5, 0, 1, 5]))
    fed, agreed = negotiate(table, divided(rows))
    assert agreed.schema.value.numeric == ("age", "dose")
    own = fed.own(agreed.train["P1"])
    assert own.schema == agreed.schema.value
    assert own.numbers().tolist() == [[3.0, 0.5]]


def schema_protocol(fed: Any, inputs: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
    declared = Declared.model_validate(params["declared"])
    basis = Basis(declared, tuple(params["columns"]))
    train, test = ({p: fed.local(p, read_part, x, k) for p, x in inputs.items()} for k in ("train", "test"))
    agreed = agree(fed, basis, train, test)
    return {
        p: fed.local(p, lambda t, s: [t.schema.to_plain(), s.to_plain()], agreed.train[p], agreed.schema) for p in train
    }


def read_part(plain: dict[str, Any], key: str) -> Table:
    return Table.from_plain(plain[key])


def test_projected_is_simulated(tmp_path):
    table = read_table(write(tmp_path), target="ill")
    inputs = {p: {"train": a.to_plain(), "test": b.to_plain()} for p, (a, b) in divided(table).items()}
    params = {"declared": {"target": "ill"}, "columns": list(table.basis.columns)}
    found = assert_same_views(schema_protocol, PARTIES, inputs, params)
    assert [r.value for p, r in found.items() if p != "server"] == [[table.schema.to_plain()] * 2] * 3
    assert {m.topic for m in found["server"].messages} == KINDS | CLASSES
