import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from leakledger.audit.account import account_of
from leakledger.audit.case import cases
from leakledger.audit.cli import main
from leakledger.audit.config import Config
from leakledger.audit.dry_run import rehearse
from leakledger.audit.estimate import MANY, Estimate, check_fits, distinct_values, estimate, many_values, weights_of
from leakledger.audit.provenance import partitioned
from leakledger.audit.run import run_audit
from leakledger.preprocess.scalers import SCALERS
from leakledger.preprocess.scalers.local import Local
from leakledger.preprocess.secret import PUBLIC_MASTER


def config(**sections: object) -> Config:
    given = {
        "data": {"source": "fair", "rows": 200},
        "partition": {"parties": 2},
        "model": {"hidden": [16]},
        "training": {"rounds": 3, "batch_size": 4},
        "attacks": {"use": ["plaintext"]},
        "audit": {"seeds": [0], "jobs": 1, "baseline_draws": 2},
    }
    return Config.model_validate(given | sections)


def estimated(settings: Config) -> Estimate:
    todo = cases(settings)
    return estimate(settings, todo, next(iter(partitioned(settings, todo).values())))


def test_sizes_are_those_of_the_run_and_disk_is_within_a_factor_of_three(tmp_path: Path) -> None:
    settings = config(training={"rounds": 40, "batch_size": 4})
    record = run_audit(settings, tmp_path / "run", master=PUBLIC_MASTER)
    (case,) = cases(settings)
    parties = next(iter(partitioned(settings, [case]).values()))
    table = next(iter(parties.values()))
    inputs, weights = weights_of(settings, case, distinct_values(parties), table)
    width = next(u.value for u in record.utility if u.metric == "input_width")
    assert inputs == pytest.approx(width, rel=0.1)  # held-out rows are counted too
    assert weights == (inputs + 1) * 16 + 17 * 2
    (stored,) = (tmp_path / "run" / "transcripts").iterdir()
    assert 1 / 3 < stored.stat().st_size / estimated(settings).disk < 3


@pytest.mark.parametrize(
    ("sections", "what"),
    [
        ({"training": {"rounds": 3000}}, ("seconds", "memory", "disk")),
        ({"partition": {"parties": 8}}, ("disk",)),
        ({"model": {"hidden": [2000, 2000]}}, ("seconds", "memory", "disk")),
        ({"audit": {"seeds": [0, 1, 2]}}, ("disk",)),
        ({"attacks": {"use": ["posterior"], "posterior": {"chains": 99}}}, ("seconds",)),
        ({"defense": {"name": "gaussian-noise", "sigma": 0.1}, "attacks": {}}, ("seconds",)),
        ({"attacks": {"use": ["tableak"], "tableak": {"restarts": 100, "iterations": 5000}}}, ("seconds",)),
    ],
    ids=lambda s: "-".join(s),
)
def test_what_makes_a_run_larger_makes_its_estimate_larger(sections: dict[str, object], what: tuple[str, ...]) -> None:
    small, large = estimated(config()), estimated(config(**sections))
    for name in what:
        assert getattr(large, name) > getattr(small, name), name


def test_rounds_that_are_read_together_take_the_time_of_their_models() -> None:
    def seconds(most: int, batch: int = 0, rows: int = 24) -> float:
        attacks = {"use": ["posterior"], "posterior": {"together": most}}
        sections = {"training": {"rounds": 3, "batch_size": batch}, "defense": {"name": "gaussian-noise", "sigma": 0.1}}
        return estimated(config(attacks=attacks, data={"source": "fair", "rows": rows}, **sections)).seconds

    assert seconds(0) < seconds(2) < seconds(3) == seconds(8)
    assert seconds(0, batch=4) == seconds(8, batch=4)
    assert seconds(2, rows=120) == seconds(8, rows=120)  # of more rows by two


def test_more_at_a_time_takes_less_time_and_more_memory() -> None:
    audit = {"seeds": [0, 1, 2, 3], "baseline_draws": 2}
    one, four = (estimated(config(audit=audit | {"jobs": jobs})) for jobs in (1, 4))
    assert four.seconds == pytest.approx(one.seconds / 4)
    assert four.memory == pytest.approx(one.memory * 4)
    assert (one.disk, one.jobs, four.jobs) == (four.disk, 1, 4)


def test_what_does_not_fit_even_if_the_estimate_is_as_wrong_as_it_says_is_refused() -> None:
    check_fits(Estimate(seconds=3e8, memory=3e9, disk=0.0, jobs=1), memory=1e9)
    with pytest.raises(ValueError, match=r"^this takes roughly 2\.9 GiB of memory, and this machine has 950 MiB; "):
        check_fits(Estimate(seconds=1.0, memory=3.1e9, disk=0.0, jobs=1), memory=1e9)
    with pytest.raises(ValueError, match=r"^this takes roughly 4600 days; lower training\.rounds, "):
        check_fits(Estimate(seconds=4e8, memory=1.0, disk=0.0, jobs=1), memory=1e9)


def test_transcripts_that_do_not_fit_the_disk_are_refused_where_they_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=2000, free=1000))
    settings, folder = config(), tmp_path / "run"
    with pytest.raises(
        ValueError, match=r"of transcripts, and the disk of .*run has 0\.98 KiB left; .*--no-transcripts"
    ):
        run_audit(settings, folder)
    assert not folder.exists()
    assert run_audit(settings, folder, transcripts=False).missing == 0
    with pytest.raises(ValueError, match="of transcripts, and the disk of runs has"):
        account_of(settings, "a", "run")
    with pytest.raises(ValueError, match=r"the disk of .*elsewhere has"):
        account_of(settings, "a", "run", tmp_path / "elsewhere")
    assert account_of(settings, "a", "run", transcripts=False).estimate.disk == 0


def test_a_run_on_a_cluster_is_held_against_this_disk_and_not_against_this_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = "tcp://127.0.0.1"  # refused before anything is asked
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=2000, free=1000))
    monkeypatch.setattr(os, "sysconf", lambda _: 1)
    with pytest.raises(ValueError, match="of transcripts, and the disk of"):
        run_audit(config(), tmp_path / "run", cluster=nobody)
    with pytest.raises(ValueError, match=r"--cluster tcp://127\.0\.0\.1: is no address"):
        run_audit(config(), tmp_path / "run", cluster=nobody, transcripts=False)
    assert not (tmp_path / "run").exists()


def test_a_batch_is_not_larger_than_the_rows_of_a_client() -> None:
    huge = estimated(config(training={"rounds": 3, "batch_size": 10**12}))
    assert huge.seconds == pytest.approx(estimated(config(training={"rounds": 3, "batch_size": 0})).seconds)


def test_an_estimate_says_how_rough_it_is() -> None:
    words = Estimate(5400, 3 * 2**30, 750 * 2**20, 2).in_words()
    assert words == (
        "Roughly (time within a factor of ten, the rest of three): 1.5 h, 3 GiB of memory for 2 at a time, "
        "7.5e+02 MiB of transcripts."
    ).replace("7.5e+02", "750")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    n = 2 * MANY
    frame = pd.DataFrame({"id": [f"v{i}" for i in range(n)], "age": np.arange(n) % 70, "label": ["n", "y"] * MANY})
    frame.to_csv(tmp_path / "table.csv", index=False)
    (tmp_path / "audit.toml").write_text('[data]\nsource = "table.csv"\ntarget = "label"\n[partition]\nparties = 2\n')
    return tmp_path


def test_validate_warns_of_a_column_with_very_many_values(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(table)
    shown = CliRunner().invoke(main, ["validate", "audit.toml"])
    assert shown.exit_code == 0, shown.output
    text = " ".join(shown.stdout.split())
    assert f"Warning: column 'id' has {2 * MANY} distinct values, each an input of the network" in text
    assert "Roughly (time within a factor of ten, the rest of three): " in text
    assert "v17" not in text
    told = json.loads(CliRunner().invoke(main, ["validate", "audit.toml", "--json"]).stdout)
    assert told["estimate"].keys() == {"seconds", "memory", "disk", "jobs"}
    assert [w.partition(" ")[2].partition(" ")[0] for w in told["warnings"]] == ["'id'"] * 2


def test_few_values_or_codes_are_no_reason_to_warn(table: Path) -> None:
    source = {"data": {"source": str(table / "table.csv"), "target": "label"}}
    for more, lines in [({}, 1), ({"preprocessing": {"encoder": "rolling-hash"}}, 0)]:
        settings = config(**source, **more)
        todo = cases(settings)
        assert len(many_values(todo, next(iter(partitioned(settings, todo).values())))) == lines
    few = config()
    assert many_values(cases(few), next(iter(partitioned(few, cases(few)).values()))) == []


@pytest.mark.parametrize("said", [(float("nan"), 0), (float("inf"), 0), (-1e9, -5), (1, 2, 3), "12", None])
def test_an_effort_of_a_plugin_that_is_none_is_refused_and_not_shown(
    monkeypatch: pytest.MonkeyPatch, said: object
) -> None:
    monkeypatch.setitem(SCALERS, "odd", type("Odd", (Local,), {"name": "odd", "effort": said}))
    with pytest.raises(ValueError, match="the scaler odd has an effort that is no pair of seconds and bytes"):
        estimated(config(preprocessing=[{"encoder": "local", "scaler": "odd"}]))


@pytest.mark.parametrize("said", [None, 3])
def test_a_rehearsal_of_a_plugin_that_is_no_scaler_is_refused(monkeypatch: pytest.MonkeyPatch, said: object) -> None:
    monkeypatch.setitem(SCALERS, "odd", type("Odd", (Local,), {"name": "odd", "rehearsal": lambda self: said}))
    settings = config(preprocessing=[{"encoder": "local", "scaler": "odd"}])
    todo = cases(settings)
    with pytest.raises(ValueError, match=r"the scaler odd rehearses with a value of type .*, which is no scaler"):
        rehearse(settings, todo)
