"""What no configuration means is refused with its key, by `validate` as by `run`, before anything computes with it."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pydantic import ValidationError

from leakledger.audit.cli import main
from leakledger.audit.config import Config
from leakledger.audit.limits import LONGEST
from tests.every import every

ABSURD = {
    "training.learning_rate=1e308": "training.learning_rate: is 1e+308; it must be at most 1e+50 in size",
    "training.rounds=-1" + "0" * 60: "training.rounds: is -1e+60; it must be at most 1e+50 in size",
    "audit.ceiling=1e-308": "audit.ceiling: is 1e-308; it must be 0 or at least 1e-50 in size",
    "audit.delta=5e-324": "audit.delta: is 4.94066e-324; it must be 0 or at least 1e-50 in size",
    f"audit.seeds={list(range(LONGEST + 1))}": "audit.seeds: has 10001 entries; it must have at most 10000",
    "audit.baseline_draws=1000000000": "audit.baseline_draws: Input should be less than or equal to 100000",
    'data.source="a\\u0000.csv"': "data.source: has a character NUL, which no name or file has; remove it",
    'data.encoding="utf\\u0000"': "data.encoding: has a character NUL, which no name or file has; remove it",
    "model.hidden=[1000000000, 1000000000]": "of memory, and this machine has",
    "training.rounds=100000000000": "of memory, and this machine has",
    "attacks.tableak.iterations=100000000000000": "this takes roughly",
    "attacks.posterior.chains=1000000000000": "this takes roughly",
    "preprocessing.pad_to=100000000000": "preprocessing.pad_to: Input should be less",
    "preprocessing.noise=100000000000": "preprocessing.noise: Input should be less",
    "preprocessing.pad_to=1000000": "or pad_to and noise of an encoder",
}


@every("command", ["validate", "run"])
def test_what_is_absurd_is_one_line_with_its_key_and_leaves_nothing_behind(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.toml").write_text(
        '[data]\nrows = 60\n[partition]\nparties = 2\n[preprocessing]\nencoder = "uhe"\n[audit]\njobs = 1\n'
    )
    for given, said in ABSURD.items():
        result = CliRunner().invoke(main, [command, "a.toml", "--set", given])
        assert result.exit_code == 2, (given, result.output)
        (line,) = result.stderr.strip().splitlines()
        assert said in line, given
    assert [p.name for p in tmp_path.iterdir()] == ["a.toml"]


def test_what_a_table_holds_has_no_such_limits() -> None:
    many = [str(i) for i in range(LONGEST + 1)]
    of_table: dict[str, Any] = {"ranges": {"x": [-1e300, 1e300]}, "domains": {"c": many}}
    assert len(Config.model_validate({"data": of_table}).data.domains["c"]) > LONGEST
    with pytest.raises(ValidationError, match="NUL"):
        Config.model_validate({"data": {"domains": {"c": ["a\0"]}}})


def test_the_limits_are_wide_enough_for_accounts_and_verdicts(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text(
        "[data]\nrows = 60\n[partition]\nparties = 2\n"
        "[audit]\nfloor = 0\nceiling = 1e-50\nalpha = 1e-50\ndelta = 1e-50\n"
        '[[defense]]\nname = "example-clipping"\nclip_norm = 1e50\n'
        'then = [{ name = "gaussian-noise", sigma = 1e-50 }]\n'
    )
    result = CliRunner().invoke(main, ["validate", str(path)])
    assert result.exit_code == 0, result.output
