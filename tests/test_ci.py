import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.audit.recorded import AUDIT, call
from tests.ci_steps import act, with_tool

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder as a repository has it: a configuration, a policy, a baseline, and the run of the configuration."""
    folder = tmp_path_factory.mktemp("repository")
    (folder / "audit.toml").write_text(AUDIT.replace("seeds = [0, 1]", "seeds = [0, 1, 2, 3, 4, 5]"))
    (folder / "policy.toml").write_text("[[leakage]]\nmargin = 0.3\n")
    (folder / "pairs.toml").write_text('[[leakage]]\nadversary = "2 clients"\n')
    (folder / "void.toml").write_text('[[waiver]]\nid = "W"\n')
    assert call("run", folder / "audit.toml", "-o", folder / "leakledger-run").exit_code == 0
    call("baseline", "save", folder / "leakledger-run", "-o", folder / "b.json", "--author", "A", "--reason", "first")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("inputs", "code"),
    [
        ({"baseline": "b.json"}, 0),
        ({}, 10),
        ({"policy": "pairs.toml", "baseline": "b.json"}, 11),
        ({"baseline": "b.json", "waivers": "void.toml"}, 12),
        ({"policy": "none.toml"}, 2),
    ],
)
def test_the_action_ends_with_the_exit_code_of_the_gate(made, inputs, code):
    ended, output, summary = act(made, **inputs)
    assert (ended, output) == (code, f"exit-code={code}\n")
    assert bool(summary) == (code != 2)


@pytest.mark.slow
def test_an_input_is_never_a_command(made):
    act(made, config='audit.toml"; touch owned; "', set="x=$(touch owned)")
    assert not (made / "owned").exists()


def template_of_gitlab():
    return yaml.safe_load((ROOT / "examples" / "ci" / "gitlab.yml").read_text())[".leakledger"]


def test_the_template_of_gitlab_lets_no_exit_code_but_0_through():
    assert "allow_failure" not in template_of_gitlab()


@pytest.mark.slow
def test_the_script_of_gitlab_ends_with_the_exit_code_of_the_gate(made):
    job = template_of_gitlab()
    variables = {**job["variables"], "LEAKLEDGER_INSTALL": "", "LEAKLEDGER_BASELINE": "b.json"}
    for changed, code in (
        ({}, 0),
        ({"BASELINE": ""}, 10),
        ({"POLICY": "pairs.toml"}, 11),
        ({"WAIVERS": "void.toml"}, 12),
    ):
        named = {"LEAKLEDGER_POLICY": "policy.toml", **{f"LEAKLEDGER_{k}": v for k, v in changed.items()}}
        environment = {**with_tool(), **variables, **named}
        script = "\n".join(job["script"])
        done = subprocess.run(["bash", "-e", "-c", script], cwd=made, env=environment, capture_output=True, check=False)
        assert done.returncode == code, done.stderr


def test_the_hook_names_a_command_that_there_is(tmp_path):
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    name, *command = hook["entry"].split()
    assert name == "leakledger"
    named = [tmp_path / folder / "audit.toml" for folder in ("north", "south")]
    for path in named:
        path.parent.mkdir()
        path.write_text("[data]\nsource = 'fair'\n")
    assert all(re.search(hook["files"], str(path)) for path in named)
    assert call(*command, *named).exit_code == 0  # a change of both is one call
    assert "--policy" not in hook["entry"]  # whoever uses it names one; so what it says is
    assert "with --policy in `args`" in hook["description"]


@pytest.mark.slow
def test_the_fixture_holds_an_audit_against_its_baseline(made):
    (made / "test_it.py").write_text(
        "def test_same(leakledger):\n"
        "    leakledger.run('audit.toml').assert_no_regression(baseline='b.json')\n"
        "def test_open(leakledger):\n"
        "    leakledger.run('audit.toml').assert_no_regression(policy='pairs.toml', baseline='b.json')\n"
        "def test_leaks(leakledger):\n"
        "    leakledger.run('audit.toml').assert_no_leak()\n"
    )
    told = pytested(made, "test_it.py")
    assert "1 passed" in told, told
    assert "2 failed" in told
    assert "INCONCLUSIVE:" in told


def pytested(folder, *arguments):
    """What pytest prints about tests under `folder`, of which it is the root; the fixture comes with the package."""
    command = ["python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", folder, *arguments]
    done = subprocess.run(command, cwd=folder, env=with_tool(), capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_the_fixture_shows_no_secret_and_no_row_where_an_audit_cannot_run(tmp_path):
    (tmp_path / "audit.toml").write_text('[data]\nsource = "people.csv"\n[data.schema]\ntarget = "ill"\n')
    people = "\n".join(f"{'?' if k == 7 else k},Jane{k},{'yn'[k % 2]}" for k in range(40))
    (tmp_path / "people.csv").write_text(f"age,name,ill\n{people}\n")
    (tmp_path / "secrets").write_text("5a" * 32)
    (tmp_path / "test_it.py").write_text(
        "def test_run(leakledger):\n    leakledger.run('audit.toml', secrets='secrets')\n"
        "def test_slip(leakledger, monkeypatch):\n"
        "    monkeypatch.setattr('leakledger.audit.run.partitioned', lambda *_: 1 / 0)\n"
        "    leakledger.run('audit.toml', secrets='secrets')\n"
    )
    told = pytested(tmp_path, "--tb=long", "-l", "test_it.py")
    assert "2 failed" in told, told
    assert "column 'age' holds numbers, but text in 1 row" in told
    assert "ZeroDivisionError" in told
    assert "Jane" not in told
    assert "ZZ" not in told  # the secret's bytes


@pytest.mark.slow
def test_the_fixture_finds_what_it_is_told_of_from_the_root_and_runs_again_under_other_secrets(made):
    (made / "below").mkdir()
    for name, byte in (("one", "01"), ("two", "02")):
        (made / name).write_text(byte * 32)
    (made / "below" / "test_below.py").write_text(
        "import os\n"
        "def test_paths(leakledger, monkeypatch):\n"
        "    monkeypatch.chdir(os.path.dirname(__file__))\n"
        "    few = 'audit.seeds=[0]', 'audit.baseline_draws=2'\n"
        "    one, two = (leakledger.run('audit.toml', *few, secrets=name) for name in ('one', 'two'))\n"
        "    assert one.record.head != two.record.head\n"
        "    assert 'Record' not in repr(one)\n"
        "    assert one.gate(policy='policy.toml', baseline='b.json').checks\n"
    )
    told = pytested(made, "below/test_below.py")
    assert "1 passed" in told, told
