import json
from dataclasses import replace
from typing import NamedTuple

import pytest
from click.testing import CliRunner
from pydantic import TypeAdapter

from leakledger.audit.benchmarks import finished
from leakledger.audit.benchmarks.base import Options
from leakledger.audit.benchmarks.defended import CellSaid, Measured
from leakledger.audit.benchmarks.finished import each_unfinished, key_of
from leakledger.audit.benchmarks.tableak import settings
from leakledger.audit.case import Case, cases
from leakledger.audit.cli import main
from leakledger.audit.config import Config
from leakledger.audit.records import CellDetail, Trial


class Batch(NamedTuple):
    size: int
    client: int


class Found(NamedTuple):
    share: float


played: list[Batch] = []
BATCHES = [Batch(8, k) for k in range(4)]


def play(batch: Batch) -> tuple[Batch, Found]:
    played.append(batch)
    return batch, Found(batch.client / 10)


@pytest.fixture(autouse=True)
def nothing_played():
    played.clear()


def options(path, told=None):
    return Options(jobs=1, resume=str(path), tell=lambda done, of: None if told is None else told.append((done, of)))


def run(path, batches=BATCHES, told=None):
    return dict(each_unfinished(play, batches, Found, options(path, told)))


def test_what_was_finished_before_an_interrupt_is_not_played_again(tmp_path):
    path, told = tmp_path / "batches.jsonl", []
    begun = each_unfinished(play, BATCHES, Found, options(path))
    assert [next(begun), next(begun)] == [(BATCHES[0], Found(0.0)), (BATCHES[1], Found(0.1))]
    begun.close()
    assert run(path, told=told) == {b: Found(b.client / 10) for b in BATCHES}
    assert played == BATCHES
    assert told == [(2, 4), (3, 4), (4, 4)]
    assert run(path) == run(path)
    assert played == BATCHES


def test_other_settings_and_other_code_are_played_and_leave_the_file_as_it_is(tmp_path, monkeypatch):
    path = tmp_path / "batches.jsonl"
    run(path)
    others = [Batch(32, 0)]
    run(path, others)
    assert played == BATCHES + others
    monkeypatch.setattr(finished, "_code", lambda: ("another",))
    run(path)
    assert played == BATCHES + others + BATCHES
    monkeypatch.undo()
    run(path)
    assert len(played) == 9


def test_a_line_that_was_cut_off_is_played_again(tmp_path):
    path = tmp_path / "batches.jsonl"
    run(path)
    path.write_bytes(path.read_bytes()[:-5])
    run(path)
    assert played == [*BATCHES, BATCHES[-1]]
    run(path)
    assert len(played) == 5


@pytest.mark.parametrize("line", ["{}", "[1]", "1", "nonsense", '{"key": "a", "found": {"share": "x"}}'])
def test_a_file_of_something_else_is_refused_in_one_line(tmp_path, line):
    path = tmp_path / "batches.jsonl"
    path.write_text(f"{line}\n")
    with pytest.raises(ValueError, match=r"batches.jsonl: line 1 is no batch of this benchmark"):
        run(path)
    assert path.read_text() == f"{line}\n"


@pytest.mark.parametrize("held", ["nonsense", "[1, 2]", '{"rows": 1}', "age,readmitted\r30,yes"])
def test_a_file_of_something_else_is_refused_where_no_line_of_it_ends(tmp_path, held):
    path = tmp_path / "batches.jsonl"
    path.write_bytes(held.encode())
    with pytest.raises(ValueError, match=r"batches.jsonl: its end is no batch of this benchmark"):
        run(path)
    assert path.read_bytes() == held.encode()


class Played(NamedTuple):
    config: Config
    case: Case


def test_a_batch_is_another_one_when_the_contents_of_its_table_are_others(tmp_path):
    table = tmp_path / "own.csv"
    table.write_text("a,b,y\n1,x,no\n2,z,yes\n")
    config = settings(Options(), str(table), "published", "known", 8, 1, 0.01)
    batch = Played(config, cases(config)[0])
    before = key_of(batch)
    assert key_of(Played(config, cases(config)[0])) == before
    table.write_text("a,b,y\n1,x,no\n3,z,yes\n")
    assert key_of(batch) != before


def test_what_a_long_benchmark_finds_comes_back_as_it_was():
    trial = Trial("posterior", ("server",), "records", "accuracy", "P1", 0, "scored", 0.75, 0.5, spread=0.1, draws=3)
    trial = replace(trial, knowledge=("labels",), evidence=(3, 4), detail=CellDetail(()))
    found = Measured({"posterior": [trial]}, {"posterior": 1.5}, [{"accuracy": 1.0}], [[CellSaid(0.9, True, False)]])
    adapter = TypeAdapter(Measured)
    assert adapter.validate_json(json.dumps(adapter.dump_python(found, mode="json"))) == found


def test_a_benchmark_that_keeps_no_batches_says_which_ones_do(tmp_path):
    result = CliRunner().invoke(main, ["benchmark", "gate", "--resume", str(tmp_path / "a")])
    assert result.exit_code == 2
    assert "gate keeps no batches, only these do: transcripts, defended, mixing" in result.output
