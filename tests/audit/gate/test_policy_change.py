"""What a policy asks otherwise than the one that a baseline was accepted under is named, old value and new."""

import json

import numpy as np
import pytest

from leakledger.audit.chain import canonical, extended
from leakledger.audit.gate.baseline import GENESIS, BaselineError, moved, read_baseline, write_baseline
from leakledger.audit.gate.policy import policy_of
from leakledger.audit.gate.policy_change import UNKNOWN, policy_differences, policy_notes
from leakledger.audit.gate.snapshot import snapshot
from leakledger.audit.pytest_plugin import Audited
from leakledger.audit.records import ASSETS
from tests.audit.gate.made import SEEDS, record

MADE = record(np.full(len(SEEDS), 0.4))
SERVER = {"adversary": "server", "assets": ["records", "mean"], "ceiling": 0.3}


def differences(before, now):
    return list(policy_differences(policy_of(before), policy_of(now)))


def leakage(*entries):
    return {"leakage": list(entries)}


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [
        (leakage({"ceiling": 0.1}), leakage({"ceiling": 0.5}), ["everything by any adversary: ceiling 0.1 -> 0.5"]),
        (leakage({"margin": 0.1}), leakage({"margin": 0.3}), ["everything by any adversary: margin 0.1 -> 0.3"]),
        (
            leakage(SERVER, {}),
            leakage({**SERVER, "assets": ["records"]}, {}),
            ["mean by server: ceiling 0.3 -> none"],
        ),
        (leakage({}), leakage({"regression": False}), ["regression where there is a baseline -> no"]),
        (
            leakage({}),
            leakage({"adversary": "server"}),
            ["everything by any other adversary: ceiling none, regression where there is a baseline, floor 0.01"],
        ),
        (leakage({}), leakage({"adversary": "server"}), ["margin 0.05 -> not asked"]),
        (
            leakage(SERVER, {"ceiling": 0.5}),
            leakage({"ceiling": 0.5}, SERVER),  # the first that names a cell judges it
            ["mean, records by server: ceiling 0.3 -> 0.5"],
        ),
        (
            leakage({"adversary": "one client", "ceiling": 0.2}, {"adversary": "server", "ceiling": 0.2}),
            leakage({"adversary": "one client", "ceiling": 0.4}, {"adversary": "server", "ceiling": 0.4}),
            ["everything by one client, server: ceiling 0.2 -> 0.4"],
        ),
        ({}, {"gate": {"alpha": 0.2}}, ["[gate] alpha 0.05 -> 0.2"]),
        ({}, {"findings": {"forbid": "none"}}, ["[findings] forbid new -> none"]),
        ({}, {"findings": {"allow": ["stated"]}}, ["[findings] allow none -> stated"]),
        (
            {"utility": [{"metric": "auroc"}]},
            {"utility": [{"metric": "auroc", "margin": 0.5}, {"metric": "f1"}]},
            [
                "utility, AUROC: floor 0.01, margin 0.05 -> floor 0.01, margin 0.5",
                "utility, F1: not asked -> floor 0.01, margin 0.05",
            ],
        ),
    ],
)
def test_what_differs_is_told_by_what_it_comes_to_with_both_values(before, now, told):
    found = differences(before, now)
    assert all(any(text in line for line in found) for text in told), found
    assert all(" -> " in line for line in found)
    assert not differences(now, now)


def test_other_names_and_another_order_of_entries_that_judge_other_things_differ_in_nothing():
    ours, theirs = {**SERVER, "name": "a"}, {"adversary": "one client", "ceiling": 0.2}
    assert not differences(leakage(ours, theirs), leakage(theirs, {**ours, "name": "b"}))
    parts = [{"assets": [a], "ceiling": 0.2} for a in ASSETS]
    assert not differences(leakage(*parts), leakage({"ceiling": 0.2}))


def saved(path, policy, before=()):
    write_baseline(path, moved(snapshot(MADE), "A", "first", before, policy=policy))
    return read_baseline(path)


def test_a_baseline_keeps_the_policy_that_it_was_last_saved_with(tmp_path):
    strict, loose = policy_of(leakage({"ceiling": 0.1})), policy_of(leakage({"ceiling": 0.5}))
    kept = saved(tmp_path / "b.json", strict)
    assert not list(policy_notes(strict, kept))
    assert "ceiling 0.1 -> 0.5" in next(policy_notes(loose, kept))
    again = saved(tmp_path / "b.json", None, kept.history)
    assert "ceiling 0.1 -> 0.5" in next(policy_notes(loose, again))
    third = saved(tmp_path / "b.json", loose, again.history)
    assert not list(policy_notes(loose, third))
    assert [m.policy is None for m in third.history] == [False, True, False]


def test_a_baseline_without_a_policy_is_said_to_have_none(tmp_path):
    assert list(policy_notes(policy_of({}), saved(tmp_path / "b.json", None))) == [UNKNOWN]


def test_a_baseline_from_before_there_were_policies_in_it_is_read(tmp_path):
    write_baseline(tmp_path / "b.json", moved(snapshot(MADE), "A", "first"))
    file = json.loads((tmp_path / "b.json").read_text())
    for old in file["history"]:
        del old["policy"]
        said = {name: text for name, text in old.items() if name not in ("content", "head")}
        old["head"] = extended(GENESIS, [(canonical(said).decode(), old["content"])])[0].head  # as it was then
    (tmp_path / "b.json").write_text(json.dumps({**file, "version": 2}))
    assert read_baseline(tmp_path / "b.json").policy is None


@pytest.mark.parametrize("edit", [lambda p: p["leakage"][0].__setitem__("ceiling", 0.9), dict.clear])
def test_a_kept_policy_that_was_edited_is_refused(tmp_path, edit):
    path = tmp_path / "b.json"
    saved(path, policy_of(leakage({"ceiling": 0.1})))
    plain = json.loads(path.read_text())
    edit(plain["history"][0]["policy"])
    path.write_text(json.dumps(plain))
    with pytest.raises(BaselineError, match="entry 1 of its history was changed"):
        read_baseline(path)


def test_a_finding_of_a_plugin_that_is_gone_may_stand_in_a_kept_policy(tmp_path):
    before = policy_of({"findings": {"allow": ["stated"]}})
    theirs = before.model_copy(update={"findings": before.findings.model_copy(update={"allow": ["their-check"]})})
    found = list(policy_notes(before, saved(tmp_path / "b.json", theirs)))
    assert any("[findings] allow their-check -> stated" in note for note in found)


def test_a_test_of_pytest_warns_of_another_policy(tmp_path):
    saved(tmp_path / "baseline.json", policy_of(leakage({"margin": 0.1})))
    (tmp_path / "policy.toml").write_text("[[leakage]]\nmargin = 0.3\n")
    audited = Audited(tmp_path, tmp_path / "audit.toml", tmp_path / "run", MADE)
    with pytest.warns(UserWarning, match=r"everything by any adversary: margin 0\.1 -> 0\.3"):
        audited.assert_no_regression()
