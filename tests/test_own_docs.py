"""docs/own-data.md and docs/own-code.md, followed to the letter in an empty folder."""

import re
import shlex
from pathlib import Path

import pytest
import torch

from tests.audit.test_cli import call
from tests.audit.test_own_table import patients

DOCS = Path(__file__).parents[1] / "docs"


def blocks(page, kind):
    return re.findall(rf"```{kind}\n(.*?)```", (DOCS / page).read_text(), re.S)


def commands(page):
    return [shlex.split(line)[1:] for block in blocks(page, "console") for line in block.splitlines()]


@pytest.mark.slow
def test_the_page_about_ones_own_table_leads_to_a_report(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    patients(tmp_path)
    told = [call(*command).stdout for command in commands("own-data.md")]
    assert len(told) == 3
    assert "identifier?" in told[1]
    assert "LEAKS" in told[2]
    assert list(tmp_path.glob("runs/*/report.html"))
    text = (tmp_path / "audit.toml").read_text()
    (shown, _) = blocks("own-data.md", "toml")
    for line in shown.splitlines():
        assert line in text or "..." in line, line


@pytest.mark.slow
def test_the_page_about_ones_own_code_runs_from_top_to_bottom(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    names = {"__name__": "page"}
    for block in blocks("own-code.md", "python"):
        exec(compile(block, "own-code.md", "exec"), names)
    assert names["found"].rows["verified"].all()
    assert names["found"].controls["passed"].all()
    assert sorted(names["found"].rows["age"].round()) == sorted(names["ages"].tolist())
    assert names["run"].verdict == "leaks"
    assert "proved" in capsys.readouterr().out
    first, second = (call(*command).stdout for command in commands("own-code.md"))
    assert "8 rows, 8 proven" in " ".join(first.split())
    assert "surgery" not in first
    assert "surgery" in second
    examples = re.findall(r"^ +leakledger (attack round-0.*)$", call("attack", "--help").stdout, re.M)
    assert len(examples) == 2
    for example in examples:  # of the help, on the transcript that the page leads to
        call(*shlex.split(example))
