"""Audits of features that vertical parties make together: who holds what, what is claimed, what is refused."""

from dataclasses import replace

import numpy as np
import pytest

from leakledger.attacks.base import ColumnClaim
from leakledger.audit.account import account_of
from leakledger.audit.assemble import load_record
from leakledger.audit.case import cases
from leakledger.audit.case_kinds import truth_of
from leakledger.audit.config import Config
from leakledger.audit.config_file import ConfigError, config_of
from leakledger.audit.dry_run import rehearse
from leakledger.audit.federate_features import divide, engineer
from leakledger.audit.hiding import hides_columns
from leakledger.audit.run import CaseError, run_audit
from leakledger.audit.scoring.columns import score_columns
from leakledger.audit.store import transcript_name
from leakledger.audit.transcript_attack import attack_transcript
from leakledger.audit.vertical_truth import VerticalTruth
from leakledger.preprocess.crypto.ckks_public import key_pair
from leakledger.preprocess.crypto.randomness import Randomness
from leakledger.preprocess.features import flfe
from leakledger.preprocess.features.encrypted_exchange import encrypted_column
from leakledger.preprocess.features.usefulness import f1_with_and_without
from leakledger.preprocess.messages import EncryptedColumn
from leakledger.preprocess.secret import PUBLIC_MASTER, KeyStream
from leakledger.reports.html import render
from tests.audit.example import config as horizontal

COLUMNS = {"P1": ["mean texture"], "P2": ["mean radius"], "P3": ["mean area", "mean smoothness"]}
SMALL = {
    "data": {"source": "breast_cancer", "rows": 160, "test_fraction": 0.5},
    "partition": {"kind": "vertical", "columns": COLUMNS},
    "features": {"judges": "open", "bins": 8, "folds": 2, "transformations": ["sum"], "base": "logistic-regression"},
    "audit": {"seeds": [0], "jobs": 1, "observers": ["server", "clients"], "baseline_draws": 2},
}

# what sketches lead to, and sketches, of which less is claimed than they tell
OPEN = {"flfe.judgement", "flfe.sketch", "flfe.sketch-pair"}


def config(**sections):
    """SMALL with keys of its sections updated."""
    merged = {name: SMALL.get(name, {}) | sections.get(name, {}) for name in {**SMALL, **sections}}
    return Config.model_validate(merged)


def audited(folder, **sections):
    return run_audit(config(**sections), folder / "run", master=PUBLIC_MASTER)


def engineered(**sections):
    settings = config(**sections)
    return engineer(settings, cases(settings)[0], PUBLIC_MASTER)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("several") / "run"


@pytest.fixture(scope="module")
def several(folder):
    """One run of three settings: sums under fresh masks, both equations under one mask, and nothing that is sent."""
    features = [
        SMALL["features"],
        SMALL["features"] | {"transformations": ["sum", "difference"], "masks": "reused"},
        SMALL["features"] | {"transformations": ["square"], "unary": "device", "labels": "binned", "ranges": "feature"},
    ]
    partition = SMALL["partition"] | {"labels": "server"}
    settings = Config.model_validate(SMALL | {"features": features, "partition": partition})
    return run_audit(settings, folder, master=PUBLIC_MASTER)


def known(case, metric="correlation"):
    """(observers, victim) -> how well its columns are known."""
    return {(t.observers, t.victim): t.value for t in case.trials if t.metric == metric}


def test_the_server_has_every_column_and_the_second_device_estimates_under_masks(several):
    sums, reused, _ = several.cases
    for party in COLUMNS:
        assert known(sums)[("server",), party] == pytest.approx(1)
        assert known(sums, "exact_values")[("server",), party] == 1
    assert known(sums)[("P3",), "P2"] < 0.9  # of the labels, and of a column under a mask
    assert known(reused)[("P3",), "P2"] == pytest.approx(1)
    assert known(reused, "exact_values")[("P3",), "P1"] == 1


def test_every_setting_has_a_verdict_by_adversary_and_asset(several):
    sums, reused, stay = (c.setting.id for c in several.cases)
    ruled = {(r.setting, r.adversary, r.asset): r for r in several.rulings}
    assert ruled[sums, "server", "columns"].verdict == "leaks"
    assert ruled[reused, "one client", "columns"].verdict == "leaks"
    assert ruled[stay, "one client", "columns"].verdict == "inconclusive"
    assert any("unread: flfe.judgement" in m for m in ruled[stay, "one client", "columns"].missing)
    assert several.verdict.status == "leaks"
    reached = {s.advantage for s in several.scores if (s.setting, s.metric) == (sums, "correlation")}
    assert ruled[sums, "one client", "columns"].advantage in reached  # not that of one column
    told = ruled[sums, "server", "columns"].reasons
    assert "feature_exchange by server: mean area, mean smoothness of P3 told record by record, and right" in told
    told = ruled[sums, "one client", "columns"].reasons
    assert "feature_exchange by P3: diagnosis of server told record by record, and right" in told
    assert not any("mean" in reason for reason in told)


def test_all_controls_hold_and_no_message_with_data_stays_unread(several):
    for case in several.cases:
        assert case.controls
        assert all(c.passed for c in case.controls)
        assert {u.topic for u in case.unread} <= OPEN
        assert {c.expected for c in case.controls if c.attack == "scorer"} >= {"the parties' columns: all right"}


def test_utility_is_with_and_without_the_features_that_were_made(several):
    sums, _, stay = ({u.metric: u.value for u in c.utility} for c in several.cases)
    assert sums["features_made"] == 5  # pairs of columns of two parties
    assert stay["features_made"] == 4
    assert 0.5 < sums["f1_without_features"] < 1
    assert 0.5 < sums["f1"] <= 1
    assert sums["rounds"] == 5


def test_features_are_worth_what_they_are_on_held_out_records():
    found = engineered()
    parts, number = found.divided, {f: k for k, f in enumerate(found.divided.schema.numeric)}
    made = [(how, tuple(number[f] for f in of)) for how, of in found.made]
    measured = f1_with_and_without(parts.test, parts.test_labels, made, "logistic-regression", 2, 0)
    assert (found.metrics["f1"], found.metrics["f1_without_features"]) == measured
    assert measured != f1_with_and_without(parts.train, parts.train_labels, made, "logistic-regression", 2, 0)


def test_the_report_names_columns_and_who_rebuilds_them(several):
    page = render(several)
    assert "can rebuild columns of other parties, record by record" in page
    assert "Correlation by column" in page
    assert "mean smoothness" in page
    assert "F1 without the features" in page
    assert "flfe.masked" in page


def test_encrypted_columns_are_opened_by_who_has_the_key_and_shown_to_hide_from_others(tmp_path):
    chosen = SMALL["features"] | {"exchange": "encrypted"}
    (case,) = audited(tmp_path, features=chosen, partition={"labels": "server"}).cases
    assert case.controls
    assert all(c.passed for c in case.controls)
    for party in COLUMNS:  # one sum for each pair of three parties
        assert known(case)[("server",), party] == pytest.approx(1)
    told = known(case)
    assert not any(told.get((("P3",), party)) for party in ("P1", "P2"))
    assert {u.topic for u in case.unread} <= OPEN


def test_ciphertexts_that_depend_on_values_and_not_on_coins_are_found(monkeypatch):
    def same_coins(key, held, feature, source) -> EncryptedColumn:
        return encrypted_column(key, held, feature, Randomness(KeyStream(bytes(32))))

    def same_key(source):
        return key_pair(bytes(32))

    assert set(hides_columns("encrypted", ("sum",)).values()) == {""}
    monkeypatch.setattr(flfe, "encrypted_column", same_coins)
    monkeypatch.setattr(flfe, "new_keys", same_key)
    found = hides_columns.__wrapped__("encrypted", ("sum",))
    assert found["flfe.encrypted"] == "it depends on values and not on coins"


def test_a_stored_transcript_is_attacked_by_what_reads_features(several, folder):
    played = attack_transcript(folder / transcript_name(several.cases[0].id)).played
    assert [p.technique for p in played] == ["feature_exchange", "plaintext"]
    claims = [c for c in played[0].outcome if isinstance(c, ColumnClaim)]
    assert {(c.party, c.feature) for c in claims} == {(p, f) for p, own in COLUMNS.items() for f in own}
    assert played[0].trusted == "passed"


def test_a_record_that_is_read_again_is_the_same(several, folder):
    assert load_record(folder) == replace(several, run=load_record(folder).run)


def test_settings_say_which_method_and_who_holds_the_labels(several):
    setting = several.cases[1].setting
    assert setting.method == "flfe (bins 8, masks reused, transformations sum difference, open judges)"
    assert setting.partition == "vertical 1 + 1 + 2 columns, labels at server"
    assert setting.parties == 3
    assert (several.run.data.rows, several.run.data.numeric) == (160, 4)


@pytest.mark.slow  # processes import the libraries anew
@pytest.mark.parametrize("labels", ["P2", "server"])
def test_a_run_with_a_process_per_party_is_the_same(labels):
    one, other = (
        engineered(partition={"labels": labels}, features={"max_loops": 2}, audit={"mode": mode})
        for mode in ("simulated", "projected")
    )
    assert one.ledger.head == other.ledger.head
    assert (one.made, one.metrics, one.rounds) == (other.made, other.metrics, other.rounds)


def test_trained_judges_decide_what_is_made():
    made = engineered(features={"judges": "trained", "judge_samples": 4, "threshold": 0.0, "max_loops": 3}).made
    assert len(made) == 3
    assert not engineered(features={"judges": "trained", "judge_samples": 4, "threshold": 1.0}).made


def test_held_out_records_are_in_nobodys_input():
    settings = config(partition={"labels": "server"})
    parts = divide(settings, cases(settings)[0])
    assert {p: sorted(x) for p, x in parts.inputs.items()} == {
        **{party: ["columns", "ids"] for party in COLUMNS},
        "server": ["ids", "labels"],
    }
    assert {len(x["ids"]) for x in parts.inputs.values()} == {80} == {len(parts.test)}
    rows = {tuple(r) for r in parts.train}
    assert not rows & {tuple(r) for r in parts.test}
    (inputs,) = {p: x["columns"] for p, x in parts.inputs.items() if p == "P2"}.values()
    assert np.array_equal(inputs["mean radius"], parts.train[:, parts.schema.numeric.index("mean radius")])


def test_columns_are_dealt_out_in_order_where_none_are_named():
    settings = Config.model_validate(SMALL | {"partition": {"kind": "vertical", "parties": 4}})
    held = divide(settings, cases(settings)[0]).held
    assert list(held) == ["P1", "P2", "P3", "P4"]
    assert sorted(map(len, held.values())) == [7, 7, 8, 8]
    assert held["P1"][0] == "mean radius"


def test_the_truth_of_a_party_is_about_its_own_columns():
    truth = truth_of(engineered())
    assert isinstance(truth, VerticalTruth)
    own = truth.divided.train[:, 1]
    assert truth.numeric_of("P2") == ("mean radius",)
    assert truth.statistic("P2", "mean radius", "mean") == own.mean()
    assert np.isnan(truth.statistic("P1", "mean radius", "mean"))
    assert np.isnan(truth.statistic("P2", "", "target_rate"))
    assert truth.statistic("P1", "", "target_rate") == truth.divided.train_labels.mean()
    assert truth.pooled_statistic("mean radius", "mean") == truth.divided.test[:, 1].mean()
    assert np.array_equal(truth.column("P1", "diagnosis"), truth.divided.train_labels)
    for party, feature in (("P2", "diagnosis"), ("P1", "mean radius"), ("server", "mean radius")):
        with pytest.raises(KeyError):
            truth.column(party, feature)


def test_a_column_without_a_claim_counts_as_unknown():
    truth = truth_of(engineered())
    claim = ColumnClaim("P3", "mean area", truth.column("P3", "mean area"), (7,), "exact")
    correlation, exact = score_columns([claim], truth)
    assert correlation.value == pytest.approx(0.5)
    assert exact.value == pytest.approx(0.5)
    assert [(f.feature, round(f.value, 6)) for f in correlation.detail.features] == [
        ("mean area", 1.0),
        ("mean smoothness", 0.0),
    ]


def test_what_validate_tells_is_of_all_columns_once():
    account = account_of(config(), "a", "command")
    assert (account.data.rows, account.data.features, account.data.negotiated) == (160, 4, ())
    assert not any("no epsilon" not in a.text for own in account.privacy.values() for a in own)
    assert account.estimate.seconds < 60


def test_without_features_a_configuration_is_recorded_as_before():
    plain = horizontal()
    assert "features" not in plain.in_force()
    assert {"columns", "labels"}.isdisjoint(plain.in_force()["partition"][0])
    assert Config.model_validate(plain.in_force()) == plain
    made = config()
    assert Config.model_validate(made.in_force()) == made
    assert made.attacks.use == ["feature_exchange", "plaintext"]
    assert config(attacks={"use": ["plaintext"]}).attacks.use == ["plaintext"]


def test_a_section_without_a_key_is_played_with_what_reads_such_messages():
    made = config_of({"partition": {"kind": "vertical"}, "features": {}}, ())
    assert made.attacks.use == ["feature_exchange", "plaintext"]


@pytest.mark.parametrize(
    ("sections", "problem"),
    [
        (
            {"partition": {"kind": "iid", "columns": None}},
            r'partition.kind: features .* set kind = "vertical"',
        ),
        ({"features": []}, r"partition.kind: a vertical partition is for features .* add \[features\]"),
        ({"training": {"rounds": 7}}, "training: nothing is trained"),
        ({"defense": {"name": "gaussian-noise", "sigma": 1.0}}, "defense: nothing is trained"),
        ({"attacks": {"bounds": "known"}}, "attacks.bounds: no attack on features is granted"),
        ({"data": {"missing": "impute"}}, 'data.missing: parties with features to make impute nothing: use "drop"'),
        ({"data": {"source": ["a.csv", "b.csv"]}}, "data.source: parties of a vertical partition hold columns of one"),
        ({"partition": {"labels": "P9"}}, "partition: labels: 'P9' is no party; choose one of P1, P2, P3, server"),
        ({"partition": {"columns": {"P1": ["a"]}}}, "at least two parties, got 1"),
        ({"partition": {"columns": {"P1": ["a"], "P2": []}}}, "P2 holds none"),
        ({"partition": {"columns": {"P1": ["a"], "P2": ["a"]}}}, "'a' is listed twice"),
        ({"partition": {"columns": {"P1": ["a"], "server": ["b"]}}}, "'server' cannot be a party's name"),
        ({"partition": {"beta": 0.5}}, "partition.beta: a partition of kind vertical has no beta"),
        ({"features": {"masks": "none"}}, "features.masks: .*'fresh' or 'reused'"),
        ({"features": {"mask": "fresh"}}, "features.mask: unknown key .*masks"),
        ({"features": {"labels": "binned"}}, 'features: labels is "binned" and ranges "class"'),
        ({"features": {"judges": "none"}}, "features.judges: .*'trained' or 'open'"),
    ],
)
def test_what_does_not_go_together_is_one_line(sections, problem):
    values = {name: SMALL.get(name, {}) for name in {**SMALL, **sections}}
    for name, section in sections.items():
        values[name] = values[name] | section if isinstance(section, dict) else section
    with pytest.raises(ConfigError, match=problem) as error:
        config_of(values, ())
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("sections", "problem"),
    [
        (
            {"partition": {"columns": {"P1": ["mean textur"], "P2": ["mean area"]}}},
            "P1 holds 'mean textur', .*did you",
        ),
        ({"partition": {"columns": None, "parties": 31}}, "30 numeric columns cannot be dealt out to 31 parties"),
        ({"partition": {"columns": None, "labels": "clinic"}}, "partition.labels: 'clinic' is no party"),
        ({"data": {"source": "randhie"}, "partition": {"columns": None}}, "log of lncoins: .* no logarithm"),
        ({"data": {"rows": 12}, "features": {"folds": 5}}, "too few for 5 folds"),
    ],
)
def test_what_a_run_would_end_with_is_refused_before_it(sections, problem, tmp_path):
    chosen = {"features": {"transformations": ["log"]}} | sections
    settings = config(**chosen)
    with pytest.raises(ValueError, match=problem) as error:
        rehearse(settings, cases(settings))
    assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match=problem):
        run_audit(settings, tmp_path / "run", master=PUBLIC_MASTER)


def test_what_ends_a_party_leaves_an_aborted_case(tmp_path):
    features = [SMALL["features"] | {"transformations": ["log"]}, SMALL["features"] | {"transformations": ["square"]}]
    columns = {"P1": ["mean concavity"], "P2": ["mean radius"]}  # of which the first has zeros
    partition = {"kind": "vertical", "columns": columns}
    values = SMALL | {"features": features, "partition": partition, "data": {"source": "breast_cancer"}}
    record = run_audit(Config.model_validate(values), tmp_path / "run", master=PUBLIC_MASTER)
    assert len(record.cases) == 1
    assert [(a.party, a.step) for c in record.aborted for a in c.aborts] == [("P1", "generate")]
    with pytest.raises(CaseError, match="log of mean concavity"):
        run_audit(Config.model_validate(values | {"features": features[:1]}), tmp_path / "one", master=PUBLIC_MASTER)
