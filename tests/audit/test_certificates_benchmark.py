import pytest

from leakledger.attacks.gradient.atoms import annealed as atoms_annealed
from leakledger.audit.benchmarks import certificates
from leakledger.audit.benchmarks.base import Options, Row
from leakledger.audit.benchmarks.certificates import Setting, amounts, classified, measure, run, shared, totals, written
from tests.preprocess.registered import IN_THE_CLEAR


def test_made_up_amounts_are_whole_skewed_and_end_at_a_million():
    table = amounts(0)
    columns = [c for c in table if c.startswith("amount")]
    assert 8 <= len(columns) <= 13
    for name in columns:
        assert (table[name] % 10 == 0).all()
        assert 0 <= table[name].min() <= table[name].max() <= 10**6
        assert table[name].mean() > table[name].median()


def test_made_up_tables_have_a_schema_beside_them(tmp_path):
    assert [p.rsplit("/", 1)[1] for p in written(tmp_path, 2)] == ["amounts0.csv", "amounts1.csv"]
    assert (tmp_path / "amounts1.schema.json").exists()


def test_the_shared_tables_are_those_in_the_folder_that_the_environment_names(tmp_path, monkeypatch):
    monkeypatch.delenv("LEAKLEDGER_DATASETS", raising=False)
    assert shared() == ()
    (tmp_path / "b.csv.gz").touch()
    (tmp_path / "a.csv.gz").touch()
    monkeypatch.setenv("LEAKLEDGER_DATASETS", str(tmp_path))
    assert shared() == (str(tmp_path / "a.csv.gz"), str(tmp_path / "b.csv.gz"))


def test_tables_with_a_numeric_target_are_left_out(tmp_path):
    rows = range(20)
    for name, label in (("classes", lambda k: "ab"[k % 2]), ("numbers", lambda k: k / 7)):
        (tmp_path / f"{name}.csv").write_text("x,y\n" + "".join(f"{k},{label(k)}\n" for k in rows))
        task = '"binary", "classes": ["a", "b"]' if name == "classes" else '"regression"'
        (tmp_path / f"{name}.schema.json").write_text('{"target": "y", "task": ' + task + ', "numeric": ["x"]}')
    sources = [str(tmp_path / f"{name}.csv") for name in ("classes", "numbers")]
    assert classified(sources) == (sources[0],)


def kind_of(counted):
    return "trained" if "epochs" in counted.setting else counted.setting.get("activation", "")


def row(attack, metric, value):
    return Row("certificates", "t", {"attack": attack}, metric, value, None, None, None, "rows", 1)


def test_totals_bound_the_share_that_is_false():
    """Of n rows without a false one the bound is 1 - 0.05^(1/n)."""
    rows = [row("span", "verified rows", 60), row("span", "false verified rows", 0)]
    rows += [row("spear", "verified rows", 40), row("spear", "false verified rows", 2)]
    found = {(r.setting["attack"], r.metric): r for r in totals(rows)}
    assert found["span", "share that is false"].high == pytest.approx(100 * (1 - 0.05 ** (1 / 60)))
    assert found["all", "verified rows"].measured == 100
    assert found["all", "share that is false"].measured == 2


def test_all_scalers_and_attacks_are_counted(monkeypatch):
    monkeypatch.setattr(certificates, "ROUNDS", 1)
    for name, few in {"CHAINS": 16, "SWEEPS": 10}.items():  # where atoms finds no row of four it anneals for a minute
        monkeypatch.setattr(atoms_annealed, name, few)
    kinds = Setting(4), Setting(4, 2), Setting(4, activation="tanh")
    monkeypatch.setattr(certificates, "SETTINGS", kinds)
    rows = list(run(Options(data=("breast_cancer",), jobs=1)))
    counted = {(r.setting["attack"], r.setting["scaler"], kind_of(r)) for r in rows if r.dataset != "all"}
    for scaler in IN_THE_CLEAR:
        for kind, attacks in (("", certificates.SHORT), ("trained", certificates.SUMS), ("tanh", certificates.SMOOTH)):
            assert {a for a, s, k in counted if (s, k) == (scaler, kind)} == set(attacks)
    last = {(r.setting["attack"], r.metric): r.measured for r in rows if r.dataset == "all"}
    assert last["all", "verified rows"] > 100
    assert last["all", "false verified rows"] == 0


def test_rows_that_the_posterior_verifies_are_counted_too():
    sampled = [what for what in (*certificates.SETTINGS, *certificates.QUICK) if what.sampled]
    assert [what.attacks for what in sampled] == [("posterior",), ("posterior",)]
    rows = list(measure(Options(jobs=1), "breast_cancer", "federated-zscore", certificates.QUICK[-1], 1))
    found = {(r.setting["attack"], r.metric): r.measured for r in totals(rows)}
    assert found["posterior", "verified rows"] == found["all", "verified rows"] > 0
    assert found["posterior", "false verified rows"] == 0


@pytest.mark.slow
def test_numbers_that_sigmoid_shows_to_a_thousandth_are_not_certified_beyond_it(datasets):
    """Of 96 rows verified here four were off by 0.0010 to 0.0014 deviations, as errors were taken for smaller."""
    what = Setting(16, activation="sigmoid")
    found = {
        r.metric: r.measured for r in measure(Options(jobs=1), str(datasets / "cc_fraud.csv.gz"), "pooled", what, 1)
    }
    assert found["false verified rows"] == 0
    assert found["verified rows"] > 0
