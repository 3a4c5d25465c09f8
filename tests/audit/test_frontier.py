"""Frontiers: which defenses beat which, at what strength, and configurations that sweep them."""

import json
from dataclasses import fields, replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from leakledger.audit.case import cases
from leakledger.audit.cli import main
from leakledger.audit.config import Config
from leakledger.audit.federate import party_tables
from leakledger.audit.frontier import absent, beats, frontier, tables, with_front
from leakledger.audit.privacy_accounting import client_sizes, privacy_accounts, training_rows
from leakledger.audit.records import (
    AuditRecord,
    CaseRecord,
    Control,
    FrontierPoint,
    PrivacyAccount,
    PrivacyPart,
    Ruling,
    Score,
    Setting,
    UtilityScore,
)
from leakledger.audit.sweep import DEFAULT, Strengths, mechanism_of_training, multiplier_for, swept
from leakledger.audit.tables import frontier_command
from leakledger.defenses.accounting.guarantee import guarantee
from tests.audit.example import config

VOCABULARY = {"server": "leaks", "one client": "inconclusive"}
unit = st.sampled_from([i / 8 for i in range(9)])
MADE = {
    "training": {"rounds": 2, "batch_size": 4},
    "model": {"hidden": [8]},
    "attacks": {"use": ["span", "vocabulary"]},
}


def setting(name, defense="none", steps=(), reference=False):
    return Setting(name, "data", "iid", 4, "a", "b", defense, "fedsgd", reference, steps=tuple(steps))


def score(s, advantage, metric="accuracy", bound=None, asset="records", status="scored"):
    fields = dict.fromkeys(("low", "high", "advantage_low", "advantage_high"))
    value = 0.5 + 0.5 * advantage
    about = ("x", ("server",), asset, metric)
    return Score(
        s.id, s.method, "a", "b", s.defense, "fedsgd", *about, value=value, baseline=0.5, advantage=advantage,
        clusters=4, status=status, bound=bound, **fields,
    )  # fmt: skip


def useful(s, value):
    return UtilityScore(s.id, s.method, "a", "b", s.defense, "fedsgd", "f1", value, None, None, 2)


def drawn(*entries, rulings=()):
    """Points of (setting, advantage, utility)."""
    records = [CaseRecord(f"{s.id}-0", s, 0) for s, _, _ in entries]
    return frontier(records, [score(s, a) for s, a, _ in entries], [useful(s, u) for s, _, u in entries], rulings)


def noised(sigma):
    return setting(f"n{sigma}", f"gaussian-noise {sigma}", [("gaussian-noise sigma", sigma)])


@given(st.lists(st.tuples(unit, unit), min_size=2, max_size=7))
def test_exactly_the_defenses_that_none_beats_are_on_the_front(places):
    points = drawn(*((setting(str(i), str(i)), leak, use) for i, (leak, use) in enumerate(places)))
    for p, (leak, use) in zip(points, places, strict=True):
        beaten = any(u >= use and v <= leak and (v, u) != (leak, use) for v, u in places)
        assert p.front is not beaten


def test_the_parameter_that_differs_within_a_family_is_its_strength():
    clipped = [
        setting(f"c{s}", f"clip then noise {s}", [("example-clipping clip_norm", 1.0), ("gaussian-noise sigma", s)])
        for s in (0.1, 0.2)
    ]
    points = drawn((setting("plain"), 1.0, 0.9), *((s, 0.5, 0.8) for s in [*clipped, noised(0.3)]))
    assert [(p.family, p.parameter, p.strength) for p in points] == [
        ("none", "", None),
        ("example-clipping then gaussian-noise", "gaussian-noise sigma", 0.1),
        ("example-clipping then gaussian-noise", "gaussian-noise sigma", 0.2),
        ("gaussian-noise", "gaussian-noise sigma", 0.3),
    ]


def test_a_setting_of_which_the_verdict_is_open_beats_nothing():
    plain, noise = setting("plain"), noised(0.1)
    doubt = Ruling(noise.id, "server", "records", "inconclusive", 0.1)
    points = {p.setting: p for p in drawn((plain, 0.9, 0.8), (noise, 0.0, 0.8), rulings=[doubt])}
    assert points["plain"].front
    assert points[noise.id].open
    assert not points[noise.id].front


def test_a_setting_is_open_where_an_adversary_who_learns_more_elsewhere_may_learn_as_much():
    plain, noise = setting("plain"), noised(0.1)
    known = Ruling(plain.id, "server", "records", "leaks", 0.1, advantage=0.9)
    doubt = Ruling(noise.id, "server", "records", "inconclusive", 0.1, advantage=0.0)
    small = Ruling(noise.id, "one client", "records", "leaks", 0.1, advantage=0.02)
    entries = (plain, 0.9, 0.8), (noise, 0.02, 0.8)
    points = {p.setting: p for p in drawn(*entries, rulings=[known, doubt, small])}
    assert points["plain"].front
    assert (points[noise.id].open, points[noise.id].front) == (True, False)
    less = {p.setting: p for p in drawn(*entries, rulings=[replace(known, advantage=0.01), doubt, small])}
    assert (less[noise.id].open, less[noise.id].front) == (False, True)


@pytest.mark.parametrize(
    ("attack", "kind", "weak"), [("x", "power", True), ("y", "power", False), ("x", "leaky", False)]
)
def test_a_small_leak_by_an_attack_without_power_there_beats_nothing(attack, kind, weak):
    """One row in a hundred that was proven made "leaks" of a verdict that was open, and the defense "not beaten"."""
    plain, noise = setting("plain"), noised(0.1)
    failed = Control(attack, kind, 1.0, 0.0, 0.0, False, "recovered")
    records = [CaseRecord("0", plain, 0, controls=(failed,)), CaseRecord("1", noise, 0, controls=(failed,))]
    leaks = [Ruling(s.id, "server", "records", "leaks", 0.1, advantage=a) for s, a in ((plain, 0.9), (noise, 0.02))]
    found = [score(plain, 0.9), score(noise, 0.02)]
    points = {p.setting: p for p in frontier(records, found, [useful(plain, 0.8), useful(noise, 0.8)], leaks)}
    assert (points[noise.id].open, points[noise.id].front) == (weak, not weak)
    assert (points["plain"].open, points["plain"].front) == (False, weak)


def test_the_bound_of_whole_rows_is_told_in_units_of_leakage():
    plain, dp = setting("plain"), noised(0.1)
    records = [CaseRecord("0", plain, 0), CaseRecord("1", dp, 0)]
    found = [score(plain, 1.0, "exact_rows"), score(dp, 0.2, "exact_rows", bound=0.75)]
    points = frontier(records, found, [useful(plain, 0.9), useful(dp, 0.7)], ())
    assert [p.bound for p in points] == [None, pytest.approx(0.5)]  # half of the way from 0.5 to 1


def test_a_bound_in_the_table_is_rounded_up():
    plain, dp = setting("plain"), noised(0.1)
    records = [CaseRecord("0", plain, 0), CaseRecord("1", dp, 0)]
    found = [score(plain, 1.0, "exact_rows"), score(dp, 0.0, "exact_rows", bound=0.502)]
    points = frontier(records, found, [useful(plain, 0.9), useful(dp, 0.7)], ())
    (told,) = tables(points)
    assert "at most 0.01" in told.rows[1]["whole rows"]  # 0.004


def test_the_epsilon_of_a_point_is_the_largest_that_training_alone_has_for_a_record():
    plain, dp = setting("plain"), noised(0.1)

    def account(unit, epsilon):
        stages = [PrivacyPart("statistics", "", 99.0), PrivacyPart("training", "", epsilon)]
        return PrivacyAccount(unit, "add-remove", 1e-5, None, parts=tuple(stages), missing=("encoder",))

    accounts = [(account("record", 2.0), account("client", 8.0)), (account("record", 3.0),)]
    records = [CaseRecord("0", plain, 0)] + [CaseRecord(f"dp{k}", dp, k, privacy=a) for k, a in enumerate(accounts)]
    points = frontier(records, [score(plain, 1.0), score(dp, 0.2)], [useful(plain, 0.9), useful(dp, 0.7)], ())
    assert [p.epsilon for p in points] == [None, 3.0]
    assert [(p.delta, p.unit, p.relation) for p in points] == [(None, None, None), (1e-5, "record", "add-remove")]
    (table,) = tables(points)
    assert [r["epsilon of training"] for r in table.rows] == ["none", "3.0000 at delta 1e-05, for a record"]


def test_one_defense_alone_and_pooled_references_make_no_frontier():
    assert drawn((setting("plain"), 1.0, 0.9)) == ()
    pooled = [setting("p", "none", reference=True), setting("q", "noise", reference=True)]
    assert drawn(*((s, 1.0, 0.9) for s in pooled)) == ()


def test_leakage_below_the_prior_beats_none_at_the_prior():
    one, other = drawn((setting("plain"), -0.2, 0.9), (noised(0.1), 0.0, 0.9))
    assert not beats(one, other)
    assert one.front
    assert other.front


def test_what_no_defense_changes_is_said_in_words_and_a_missing_claim_too():
    plain, dp = setting("plain"), noised(0.1)
    records = [CaseRecord("0", plain, 0), CaseRecord("1", dp, 0)]
    found = [score(plain, 1.0), *(score(s, 0.7, "f1", asset="vocabulary") for s in (plain, dp))]
    (table,) = tables(frontier(records, found, [useful(plain, 0.9), useful(dp, 0.7)], ()))
    assert table.unchanged == ("values 0.70",)
    assert [r["cells of records"].split()[0] for r in table.rows] == ["1.00", "no"]


def test_an_open_verdict_and_a_bound_are_told_of_leakage_that_no_defense_changes():
    plain, dp = setting("plain"), noised(0.1)
    records = [CaseRecord("0", plain, 0), CaseRecord("1", dp, 0)]
    utility = [useful(plain, 0.9), useful(dp, 0.7)]
    doubts = [Ruling(s.id, "server", "records", "inconclusive", 0.1) for s in (plain, dp)]
    (both,) = tables(frontier(records, [score(s, 0.0) for s in (plain, dp)], utility, doubts))
    assert both.unchanged == ("cells of records 0.00 (open)",)
    (one,) = tables(frontier(records, [score(s, 0.0) for s in (plain, dp)], utility, doubts[1:]))
    assert [r["cells of records"].endswith("(open)") for r in one.rows] == [False, True]
    found = [score(plain, 0.0, "exact_rows"), score(dp, 0.0, "exact_rows", bound=0.75)]
    (bounded,) = tables(frontier(records, found, utility, ()))
    assert "at most 0.50" in bounded.rows[1]["whole rows"]


def test_what_one_defense_alone_shows_is_not_called_the_same_under_every_one():
    plain, dp = setting("plain"), noised(0.1)
    records = [CaseRecord("0", plain, 0), CaseRecord("1", dp, 0)]
    (table,) = tables(frontier(records, [score(plain, 1.0)], [useful(plain, 0.9), useful(dp, 0.7)], ()))
    assert table.unchanged == ()
    assert table.rows[0]["cells of records"].startswith("1.00")


def test_a_sweep_has_no_defense_and_each_strength_on_the_same_seeds():
    wide = swept(config(**MADE), DEFAULT)
    todo = cases(wide)
    assert todo[0].setting.defense == "none"
    assert len({c.setting.defense for c in todo}) == 1 + 3 + 2 + 2 + 2
    assert {c.seed for c in todo} == {0}


def test_noise_of_dp_sgd_is_in_multiples_of_what_one_row_can_move():
    wide = swept(config(**MADE), Strengths(multiplier=(0.5,), clip_norm=2.0))
    assert wide.defense[1].name == "example-clipping"
    assert wide.defense[1].then[0].options["sigma"] == pytest.approx(0.5 * 2.0 / 4)


def test_where_weights_are_sent_the_whole_update_is_clipped():
    training = {"algorithm": "fedavg", "rounds": 2, "batch_size": 4}
    wide = swept(config(**{**MADE, "training": training}), Strengths(multiplier=(0.5,)))
    assert wide.defense[1].name == "client-clipping"
    assert wide.defense[1].then[0].options["sigma"] == pytest.approx(0.5)


@pytest.mark.parametrize("sampling", ["fixed", pytest.param("poisson", marks=pytest.mark.slow)])
@pytest.mark.parametrize("epsilon", [0.5, 8.0])
def test_the_noise_for_an_epsilon_reaches_it_and_little_less_does_not(sampling, epsilon):
    settings = config(**{**MADE, "training": {"rounds": 3, "batch_size": 4, "sampling": sampling}})
    multiplier = multiplier_for(settings, epsilon, 1e-5)
    (case, *_) = cases(swept(settings, Strengths(multiplier=(multiplier,))))[1:]
    mechanism = mechanism_of_training(settings, case, min(client_sizes(settings, [case])[case.setting.partition]))
    assert mechanism.relation == ("replace" if sampling == "fixed" else "add-remove")
    assert (mechanism.sampling_rate < 1) is (sampling == "poisson")
    assert mechanism.noise_multiplier == pytest.approx(multiplier, rel=2e-5)
    assert guarantee(mechanism, 1e-5).epsilon <= epsilon
    assert guarantee(replace(mechanism, noise_multiplier=0.99 * multiplier), 1e-5).epsilon > epsilon


@pytest.mark.parametrize(("asked", "of_audit", "stated"), [(1e-9, 1e-5, 1e-9), (None, 1e-7, 1e-7)])
def test_the_noise_for_an_epsilon_is_for_the_delta_that_the_account_is_stated_at(asked, of_audit, stated):
    whole = {"rounds": 2, "batch_size": 500}  # all rows, so that noise and account are exact
    settings = config(**{**MADE, "training": whole, "audit": {"seeds": [0], "delta": of_audit}})
    wide = swept(settings, Strengths(epsilon=(2.0,), delta=asked))
    case = next(c for c in cases(wide) if c.setting.defense != "none")
    tables = party_tables(wide, case)
    rows = [training_rows(wide, len(own)) for own in tables.values()]
    record, _ = privacy_accounts(wide, case, next(iter(tables.values())).schema, rows)
    (training,) = (p for p in record.parts if p.stage == "training")
    assert record.delta == stated
    assert 1.99 < training.epsilon <= 2.0


@pytest.mark.parametrize("delta", ["2", "1e-300"])
def test_a_delta_that_no_account_has_is_one_line(tmp_path, delta):
    args = ["frontier", "--set", "data.rows=200", "--epsilon", "1", "--delta", delta, "-o", str(tmp_path / "run")]
    result = CliRunner().invoke(main, args)
    assert result.exit_code == 2
    (line,) = result.stderr.strip().splitlines()
    assert f"--delta {delta}: must be" in line
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("changed", ['preprocessing.scaler="local"', 'data.missing="impute"'])
def test_an_epsilon_that_no_noise_reaches_is_one_line(tmp_path, changed):
    args = ["frontier", "--set", "data.rows=200", "--set", changed, "--epsilon", "1", "-o", str(tmp_path / "run")]
    result = CliRunner().invoke(main, args)
    assert result.exit_code == 2
    (line,) = result.stderr.strip().splitlines()
    assert "--epsilon 1: rows are clipped one by one, and one record changes how others look" in line
    assert line.endswith("give the noise by --multiplier, or change that")
    assert not (tmp_path / "run").exists()


UNEVEN = {"kind": "dirichlet-quantity", "beta": 0.3, "parties": 3, "minimum": 4}


@pytest.mark.parametrize(
    "training",
    [
        {"algorithm": "fedavg", "rounds": 3, "batch_size": 4},  # of a client: its data are replaced
        {"rounds": 3, "batch_size": 32},  # more than the smallest client has
        pytest.param({"rounds": 3, "batch_size": 2, "sampling": "poisson", "patience": 2}, marks=pytest.mark.slow),
    ],
)
def test_the_noise_for_an_epsilon_reaches_it_by_the_account_of_every_seed(training):
    asked = config(**{**MADE, "partition": UNEVEN, "training": training, "audit": {"seeds": [0, 1, 2]}})
    settings = swept(asked, Strengths(epsilon=(2.0,)))
    found = set()
    for case in (c for c in cases(settings) if c.setting.defense != "none"):
        tables = party_tables(settings, case)
        rows = [training_rows(settings, len(own)) for own in tables.values()]
        schema = next(iter(tables.values())).schema
        record, client = privacy_accounts(settings, case, schema, rows)
        parts = (client if case.training.algorithm == "fedavg" else record).parts
        found |= {p.epsilon for p in parts if p.stage == "training"}
    assert 0 < max(found) <= 2.0


def test_sizes_that_differ_are_refused_in_one_line_that_says_what_to_do(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text("[[training]]\nbatch_size = 4\n[[training]]\nbatch_size = 8\n")
    result = CliRunner().invoke(main, ["frontier", str(path), "--multiplier", "1"])
    assert result.exit_code == 2
    (line,) = result.stderr.strip().splitlines()
    assert "training.batch_size" in line
    assert "--set" in line


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--epsilon", "-1"),
        ("--multiplier", "0"),
        ("--multiplier", "nan"),
        ("--clip-norm", "-1"),
        ("--delta", "2"),
        ("--noise", "inf"),
        ("--clip", "0"),
        ("--pruned", "2"),
        ("--bits", "0"),
    ],
)
def test_a_strength_that_no_defense_has_is_one_line_that_names_the_option(tmp_path, option, value):
    """It named what was made of it: 'defense[2].then[1].sigma: Input should be greater than 0 (got -0.125)'."""
    args = ["frontier", "--set", "data.rows=200", "--noise", "0.1", option, value, "-o", str(tmp_path / "run")]
    result = CliRunner().invoke(main, args)
    assert result.exit_code == 2
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith(f"leakledger: {option} {value}: ")
    assert "defense[" not in line
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("option", "needs"), [(("--delta", "1e-9"), "--epsilon"), (("--clip-norm", "5"), "--multiplier")]
)
def test_an_option_that_would_change_nothing_is_one_line(tmp_path, option, needs):
    args = ["frontier", "--set", "data.rows=200", *option, "--noise", "0.1", "-o", str(tmp_path / "run")]
    result = CliRunner().invoke(main, args)
    assert result.exit_code == 2
    (line,) = result.stderr.strip().splitlines()
    assert f"{option[0]} {option[1].replace('e-9', 'e-09')} changes nothing without {needs}" in line
    assert not (tmp_path / "run").exists()


def test_the_command_of_a_frontier_has_every_digit_and_what_the_environment_says(tmp_path):
    named, said = Strengths(epsilon=(1.2345678,), bits=(4,)), {"LEAKLEDGER_AUDIT__SEEDS": "[0]"}
    command = frontier_command(Path("a.toml"), ["model.hidden=[8]"], named, said)
    assert command.startswith("leakledger frontier a.toml '--set=audit.seeds=[0]' '--set=model.hidden=[8]'")
    assert command.endswith("--epsilon=1.2345678 --bits=4 --clip-norm=1.0")
    assert frontier_command(None, [], Strengths(epsilon=(1.0,), delta=1e-9), {}).endswith("--delta=1e-09")
    assert "seeds" not in frontier_command(tmp_path, [], named, said)  # a run has its own configuration


def test_a_setting_that_is_not_in_a_frontier_is_named_with_the_reason(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text(
        '[data]\nsource = "breast_cancer"\nrows = 60\n[partition]\nparties = 2\n[model]\nhidden = [6]\n'
        '[preprocessing]\nencoder = "local"\nscaler = "local"\n[attacks]\nuse = ["span"]\n'
        "[training]\nrounds = 1\nbatch_size = 1\n"
        '[audit]\nseeds = [0]\njobs = 1\nobservers = ["server"]\nbaseline_draws = 2\n'
    )
    args = ["frontier", str(path), "--noise", "1e39", "--clip", "0.1", "-o", str(tmp_path / "run")]
    shown = CliRunner().invoke(main, args)
    assert shown.exit_code == 0, shown.output
    lost, some = shown.stdout.strip().splitlines()[-2:]
    assert lost.startswith("Not in it: gaussian-noise 1e+39 (iid-")
    assert lost.endswith("of which nothing is known here: all its cases were aborted.")
    assert some == "1 case was aborted or did not run: settings are compared on the seeds that finished."
    again = CliRunner().invoke(main, ["frontier", str(tmp_path / "run"), "--json"])
    assert again.stderr.strip().splitlines() == [lost, some]
    assert len({row["setting"] for row in json.loads(again.stdout)}) == 2


def test_of_settings_of_which_no_attack_was_scored_it_is_said_so():
    plain, dp, lone = setting("plain"), noised(0.1), setting("lone", "pruning")
    cases_ = [CaseRecord(f"{s.id}-0", s, 0) for s in (plain, dp, lone)]
    useful_ = [useful(s, 0.5) for s in (plain, dp)]
    points = frontier(cases_, [score(plain, 1.0)], useful_, ())
    blank = dict.fromkeys((f.name for f in fields(AuditRecord)), ())
    made = {**blank, "cases": tuple(cases_), "utility": tuple(useful_), "frontier": points, "missing": 0}
    found = absent(AuditRecord(**{**made, "scores": (score(plain, 1.0),)}))
    assert [line.rpartition(": ")[2] for line in found] == [
        "no attack on it was scored.",
        "nothing measures its utility.",
    ]


def test_what_is_ruled_on_assets_without_a_point_is_said():
    plain, dp = setting("plain"), noised(0.1)
    cases_ = [CaseRecord(f"{s.id}-0", s, 0) for s in (plain, dp)]
    useful_ = [useful(s, 0.5) for s in (plain, dp)]
    scores = [score(s, 1.0, "mean", asset="statistics") for s in (plain, dp)]
    rulings = [Ruling(s.id, "server", "records", "inconclusive", 0.1) for s in (plain, dp)]
    rulings += [Ruling(s.id, who, "vocabulary", v, 0.1) for s in (plain, dp) for who, v in VOCABULARY.items()]
    rulings += [Ruling(plain.id, "server", "mean", "leaks", 0.1), Ruling(plain.id, "server", "check", "leaks", 0.1)]
    blank = dict.fromkeys((f.name for f in fields(AuditRecord)), ())
    made = {"cases": tuple(cases_), "utility": tuple(useful_), "scores": tuple(scores), "rulings": tuple(rulings)}
    points = frontier(cases_, scores, useful_, rulings)
    (line,) = absent(AuditRecord(**{**blank, **made, "frontier": points, "missing": 0}))
    assert line == "Not in it, as no advantage was measured of them: values (leaks), records (inconclusive)."


@pytest.mark.slow
def test_a_frontier_is_a_run_that_continues_and_is_printed_again(tmp_path):
    path, out = tmp_path / "a.toml", tmp_path / "run"
    path.write_text(
        '[data]\nsource = "fair"\nrows = 150\n[partition]\nparties = 3\n[model]\nhidden = [6]\n'
        '[training]\nrounds = 1\nbatch_size = 1\n[attacks]\nuse = ["span"]\n'
        '[audit]\nseeds = [0]\njobs = 1\nobservers = ["server"]\nbaseline_draws = 2\n'
    )
    args = ["frontier", str(path), "--multiplier", "0.5", "--clip", "0.1", "-o", str(out), "--json"]
    first = CliRunner().invoke(main, args)
    assert first.exit_code == 0, first.output
    rows = json.loads(first.stdout)
    assert {r["family"] for r in rows} >= {"none", "example-clipping"}
    assert all({"leakage", "leakage_low", "bound", "utility", "front", "strength"} <= r.keys() for r in rows)
    assert " defenses. Roughly" in first.stderr.splitlines()[0]
    again = CliRunner().invoke(main, args)
    assert again.stdout == first.stdout
    assert json.loads((out / "results.json").read_text())["frontier"] == rows
    assert "are run" not in again.stderr
    shown = CliRunner().invoke(main, ["frontier", str(out), "--json"])
    assert shown.stdout == first.stdout
    assert (out / "report.html").is_file()


def test_numbers_of_a_defense_are_kept_with_the_setting():
    plain = config(**{**MADE, "defense": {"name": "quantisation", "bits": 4}})
    assert cases(plain)[0].setting.steps == (("quantisation bits", 4.0),)
    assert isinstance(plain, Config)


def test_of_nothing_there_is_no_front():
    assert with_front([]) == []
    assert FrontierPoint.__dataclass_fields__["front"].default is False
