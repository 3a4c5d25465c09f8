import json
from dataclasses import replace

import numpy as np
import pytest

from leakledger.audit.gate.baseline import BaselineError, matched, moved, note_on, read_baseline, write_baseline
from leakledger.audit.gate.snapshot import snapshot
from tests.audit.gate.made import SEEDS, baseline, finding, record

MADE = record(np.full(len(SEEDS), 0.4), auroc=np.full(len(SEEDS), 0.8), findings=[finding()])


@pytest.fixture
def path(tmp_path):
    write_baseline(tmp_path / "b.json", baseline(MADE))
    return tmp_path / "b.json"


def test_what_is_written_is_read_again(path):
    assert read_baseline(path) == baseline(MADE)


def test_moving_it_keeps_who_moved_it_before_and_why(path):
    again = moved(snapshot(MADE), "D. Person", "a new release", read_baseline(path).history)
    write_baseline(path, again)
    assert [m.author for m in read_baseline(path).history] == ["A. Person", "D. Person"]


@pytest.mark.parametrize(
    "edit",
    [
        lambda plain: plain["snapshot"]["measures"][0]["clusters"][0].__setitem__(3, 0.99),
        lambda plain: plain["snapshot"]["conditions"].__setitem__("attacks", "0"),
        lambda plain: plain["snapshot"].__setitem__("facts", []),
        lambda plain: plain["history"][0].__setitem__("author", "somebody else"),
        lambda plain: plain["history"][0].__setitem__("reason", "another"),
        lambda plain: plain["history"].clear(),
        lambda plain: plain.__setitem__("version", 7),
        lambda plain: plain.pop("snapshot"),
        lambda plain: plain["snapshot"].pop("seeds"),
    ],
)
def test_a_file_that_was_edited_is_refused(path, edit):
    plain = json.loads(path.read_text())
    edit(plain)
    path.write_text(json.dumps(plain))
    with pytest.raises(BaselineError, match=r"b\.json"):
        read_baseline(path)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "[" * 100_000, "\ud800".encode("utf-8", "surrogatepass").decode("latin-1")]
)
def test_a_file_that_is_no_baseline_is_refused(path, text):
    path.write_text(text)
    with pytest.raises(BaselineError):
        read_baseline(path)


def with_figure(value):
    (m,) = snapshot(MADE).measures
    return {"measures": (replace(m, clusters=(m.clusters[0]._replace(value=value), *m.clusters[1:])),)}


@pytest.mark.parametrize(
    ("forged", "told"),
    [
        (with_figure(1e308), "a series of accuracy has a figure that it cannot have"),
        (with_figure(1.5), "a series of accuracy has a figure that it cannot have"),
        ({"seeds": SEEDS[:-1]}, "or a seed that is none of its run"),
        ({"seeds": ()}, "it is of no seed"),
        ({"data": {"name": "made"}}, "it does not say the rows of its data"),
        ({"utility": {"s1": {"auroc": {"0": -1e9}}}}, "AUROC is not from 0 to 1"),
    ],
)
def test_what_no_run_measured_is_refused_though_its_chain_holds(path, forged, told):
    write_baseline(path, moved(replace(snapshot(MADE), **forged), "A. Person", "first"))
    with pytest.raises(BaselineError, match=rf"b\.json: is damaged: .*{told}"):
        read_baseline(path)


def test_it_needs_an_author_a_reason_and_a_finished_run():
    for author, reason in (("", "why"), ("who", "  ")):
        with pytest.raises(ValueError, match="author and a reason"):
            moved(snapshot(MADE), author, reason)
    with pytest.raises(ValueError, match="1 case did not run"):
        moved(snapshot(record(np.zeros(12), missing=1)), "who", "why")


def test_it_holds_no_recovered_value_and_no_row(path):
    assert {"recovered", "cells", "detail"}.isdisjoint(path.read_text().split('"'))


def test_a_setting_is_compared_with_that_of_its_name_and_changed_ones_as_like_in_their_order():
    def named(*names):
        (subject,) = baseline(MADE).snapshot.subjects
        return [replace(subject, id=name) for name in names]

    assert matched(named("b", "a"), named("a", "b")) == {"a": "a", "b": "b"}
    assert matched(named("b2", "a"), named("a", "b")) == {"b2": "b", "a": "a"}
    assert matched(named("a2", "c", "b2"), named("a", "b", "c")) == {"a2": "a", "c": "c", "b2": "b"}
    assert matched(named("a"), named("a", "b")) is None


def test_changed_settings_are_compared_with_those_that_they_have_most_in_common_with():
    def named(*names):
        """Settings by partition, encoder, scaler, defense and training, one letter and one digit each."""
        (subject,) = baseline(MADE).snapshot.subjects
        return [replace(subject, id=n, parts=tuple(" ".join(p) for p in n.split())) for n in names]

    def pairs(now, before):
        return set(matched(named(*now), named(*before)).items())

    plain, noisy = "i1 u1 z1 n0 f1", "i1 u1 z1 g1 f1"
    longer = {"i1 u1 z1 n0 f2": plain, "i1 u1 z1 g1 f2": noisy}
    assert pairs(longer, (plain, noisy)) == pairs(list(longer)[::-1], (plain, noisy)) == set(longer.items())
    weaker = {"i1 u1 z1 g2 f2": noisy, "i1 u1 z1 n0 f2": plain}  # of its kind still
    assert pairs(weaker, (plain, noisy)) == set(weaker.items())
    other = {"i1 u1 z1 q1 f1": plain, noisy: noisy}  # by name first
    assert pairs(other, (plain, noisy)) == set(other.items())


def test_a_run_that_is_its_own_baseline_is_said_to_be_none_that_changed_anything():
    own = "This run is the one that it is compared with"
    assert any(own in n for n in note_on(snapshot(MADE), baseline(MADE), "b.json").notes)
    again = replace(MADE, head="cd" * 32)
    assert not any(own in n for n in note_on(snapshot(again), baseline(MADE), "b.json").notes)


def test_a_reader_is_told_which_method_or_option_changed():
    before = baseline(MADE)
    (subject,) = before.snapshot.subjects
    other = replace(subject, id="s2", words=subject.words + " (proportional)")
    now = replace(before.snapshot, subjects=(other,), subject={**before.snapshot.subject, "preprocessing": "0"})
    assert note_on(now, before, "b.json").changed == ("[preprocessing]", f"{subject.words} -> {other.words}")
    assert note_on(before.snapshot, before, "b.json").changed == ()


def test_rows_of_other_seeds_are_held_against_each_other_by_their_files():
    def of(seed, **inputs):
        seeds = tuple(s + seed for s in SEEDS)
        made = record(np.full(len(SEEDS), 0.4), seeds=seeds)
        return replace(made, run=replace(made.run, inputs={k.replace("_", "."): v for k, v in inputs.items()}))

    def told(now, before):
        note = note_on(snapshot(now), baseline(before), "b.json")
        return note.stale, any("was not checked" in n for n in note.notes)

    assert told(of(20, data_source="ab"), of(0, data_source="ab")) == ((), False)
    assert told(of(20, data_source="cd"), of(0, data_source="ab")) == (("it was measured on other data: files",), False)
    assert told(of(20, data_source="cd"), of(0)) == ((), True)
    assert told(of(0, data_source="cd"), of(0, data_source="ab")) == ((), False)  # by the fingerprint


@pytest.mark.parametrize(
    ("key", "stale"), [("partition.0.aliases", True), ("alignment.0.encoder", True), ("preprocessing.0.model", False)]
)
def test_what_is_in_a_file_that_a_section_names_is_part_of_it(key, stale):
    """A table of aliases was edited under its name: a baseline of before the edit was not stale."""

    def of(digest):
        section = key.partition(".")[0]
        config = {**MADE.run.config, section: [{"aliases": "names.toml"}]}
        return replace(MADE, head=digest, run=replace(MADE.run, config=config, inputs={key: digest}))

    note = note_on(snapshot(of("ab")), baseline(of("cd")), "b.json")
    assert bool(note.stale) == stale
    assert note.changed == (() if stale else ("[preprocessing]",))
    assert note_on(snapshot(of("ab")), baseline(of("ab")), "b.json").stale == ()
