"""What docs/differential-privacy.md says, against what the commands, the readers and the audits say."""

import re
import shlex
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from leakledger.audit.cli import main
from leakledger.audit.dp_audit.one_run import Guesses, guess, one_run_epsilon
from leakledger.audit.dp_audit.one_run_gaussian import one_run_mu
from leakledger.audit.dp_audit.two_worlds import audit_two_worlds
from leakledger.audit.dp_claims.check import EXIT_CODES
from leakledger.audit.dp_claims.readers import READERS
from leakledger.defenses.accounting.gaussian import epsilon_of
from leakledger.defenses.accounting.reconstruction import gaussian_success
from leakledger.preprocess.options import options_of

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "differential-privacy.md").read_text(encoding="utf-8")
SEEDS = range(20)
DELTA = 1e-5


def table(first):
    """The rows of the table whose header begins with a cell."""
    lines = PAGE.split(f"| {first} |", 1)[1].splitlines()[2:]
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return rows


def number(text):
    return float(text.replace(",", ""))


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.S)


def test_commands_of_the_page_print_what_it_shows():
    (block,) = blocks("console")
    command, shown = block.split("\n", 1)
    result = CliRunner().invoke(main, shlex.split(command.removeprefix("$ leakledger ")))
    assert result.stdout == shown
    assert result.exit_code == 1


def test_the_example_in_python_prints_what_the_page_shows():
    printed = StringIO()
    with redirect_stdout(printed):
        exec(blocks("python")[0], {})
    assert printed.getvalue() == blocks("text")[0]


def test_the_exit_codes_are_those_of_the_command():
    assert {int(row[0]) for row in table("exit code")} == {*EXIT_CODES.values(), 2}


def test_every_format_is_on_the_page_with_keys_and_classes_that_exist():
    rows = {row[0].strip("`"): row for row in table("`format`")}
    assert set(rows) == set(READERS)
    for name, row in rows.items():
        known = options_of(READERS[name])
        if name != "nvflare-gaussian":
            assert set(re.findall(r"`(\w+)`", row[2])) <= set(known), name
            assert {o.name for o in known.values() if o.required} <= set(re.findall(r"`(\w+)`", row[2])), name
        assert all(c in row[1] for c in READERS[name].classes[:1]) or name == "nvflare-gaussian"


@pytest.mark.parametrize("row", table("file"), ids=lambda row: row[0].strip("`"))
def test_every_wrong_claim_of_the_page_is_found_as_it_says(row):
    name, claimed, found, _ = row
    result = CliRunner().invoke(main, ["check-dp", str(ROOT / "examples" / "dp" / name.strip("`"))])
    assert f"claimed     epsilon {claimed} at" in result.stdout
    assert re.search(rf"found       .*{re.escape(found)}", result.stdout)
    assert result.exit_code == (0 if name == "`dp-sgd.toml`" else 1)


def test_the_page_lists_every_example():
    assert {row[0].strip("`") for row in table("file")} == {p.name for p in (ROOT / "examples" / "dp").iterdir()}


def test_the_bounds_on_any_adversary_are_computed():
    for row in table("κ"):
        kappa, *bounds = map(float, row)
        assert [round(gaussian_success(kappa, mu), 3) for mu in (0.5, 1, 2, 4)] == bounds


def test_the_true_epsilons_of_the_audited_mechanisms_are_computed():
    for mu, stated in re.findall(r"([\d.]+) \(μ = (\d)\)", PAGE):
        assert round(epsilon_of(DELTA, int(stated)), 3) == float(mu)


def spread(values):
    return [round(float(v), 2) for v in (np.median(values), min(values), max(values))]


def stated(cell):
    return [float(v) for v in re.findall(r"[\d.]+", cell)]


@pytest.mark.slow
def test_what_audits_of_two_worlds_show_is_computed():
    for row in table("samples of each world"):
        samples, mu = int(number(row[0])), int(row[2])
        found = []
        for seed in SEEDS:
            coins = np.random.default_rng(seed)
            worlds = coins.normal(mu, 1, samples), coins.normal(0, 1, samples)
            found.append(audit_two_worlds(*worlds, delta=DELTA, coins=coins))
        assert round(found[0].ceiling, 2) == float(row[1])
        assert spread([f.epsilon for f in found]) == pytest.approx(stated(row[3]), abs=0.011)
        assert spread([f.mu for f in found]) == pytest.approx(stated(row[4]), abs=0.011)
        assert spread([f.epsilon_if_gaussian for f in found]) == pytest.approx(stated(row[5]), abs=0.011)


@pytest.mark.slow
def test_what_canaries_show_is_computed():
    for row in table("canaries"):
        number_of, mu = int(number(row[0])), int(row[2])
        made = number_of // 10
        assert round(one_run_epsilon(Guesses(number_of, made, made), DELTA), 2) == float(row[1])
        found = []
        for seed in SEEDS:
            coins = np.random.default_rng(seed)
            included = coins.random(number_of) < 0.5
            found.append(guess(coins.normal(included * mu, 1), included, made))
        assert spread([one_run_epsilon(g, DELTA) for g in found]) == pytest.approx(stated(row[3]), abs=0.011)
        assert spread([one_run_mu(g) for g in found]) == pytest.approx(stated(row[4]), abs=0.011)
