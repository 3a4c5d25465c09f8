"""`leakledger check-dp` from outside: answers, exit codes, one line for bad input, and the shipped examples."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from leakledger.audit.cli import main
from leakledger.audit.dp_claims.readers import READERS
from tests.every import every

EXAMPLES = Path(__file__).parents[3] / "examples" / "dp"
VERDICTS = {  # exit code, and what the answer has to say
    "dp-sgd.toml": (0, "HOLDS: the settings give epsilon 1.828"),
    "percentile.json": (1, "no epsilon"),
    "sensitivity-apart-from-clipping.toml": (1, "epsilon 852,250,122"),
    "shuffled-batches.toml": (1, "epsilon between 6.3936 and 46.2113"),
    "svt-defaults.json": (1, "epsilon 70,333.0 or more"),
    "textbook-noise-above-one.toml": (1, "epsilon 10.39"),
    "weighted-mean.toml": (1, "epsilon 91.8"),
    "weighted-sampler.toml": (1, "epsilon between 10.9"),
}
ONE = ("--noise-multiplier", "1", "--delta", "1e-5")


def call(*args, code=0):
    result = CliRunner().invoke(main, ["check-dp", *map(str, args)])
    assert result.exit_code == code, result.output
    return result


def test_every_example_has_a_known_verdict():
    assert {p.name for p in EXAMPLES.iterdir()} == set(VERDICTS)


@pytest.mark.parametrize("name", VERDICTS)
def test_the_wrong_claims_that_are_shipped_are_refuted_and_the_right_one_holds(name):
    code, said = VERDICTS[name]
    result = call(EXAMPLES / name, code=code)
    assert said in result.stdout
    assert result.stderr == ""


def test_options_alone_are_enough():
    assert "HOLDS" in call(*ONE, "--epsilon", "4.38").stdout
    refuted = call(*ONE, "--epsilon", "4.37", code=1).stdout
    assert "REFUTED" in refuted
    assert "gap         epsilon is 0.007178" in refuted
    assert "NO CLAIM" in call(*ONE).stdout


def test_the_answer_prints_unit_relation_and_delta_and_what_nobody_can_know():
    text = call(*ONE, "--epsilon", "5", "--unit", "client", "--relation", "replace", code=1).stdout
    for part in ("one client", "(replace)", "delta 1e-05", "not known", "add-remove", "success"):
        assert part in text


def test_the_help_names_every_format_and_every_exit_code():
    text = " ".join(call("--help").stdout.split())
    assert all(name in text for name in READERS)
    assert all(f" {code} " in text for code in (0, 1, 2, 11))


def test_a_delta_that_allows_to_publish_one_of_all_is_called_that():
    ten = ("--batch", 1, "--population", 10, "--noise-multiplier", 1)
    assert "drawn by lot" in call(*ten, "--delta", 0.1).stdout
    assert "drawn by lot" not in call(*ten, "--delta", 0.09).stdout


def test_json_has_the_numbers_and_no_infinity():
    found = json.loads(call(*ONE, "--epsilon", "4.38", "--json").stdout)
    assert "standard deviation of 1 times the clip norm on each entry of the sum" in found["explained"][0]
    assert (found["verdict"], found["claimed"], found["delta"]) == ("holds", 4.38, 1e-5)
    assert found["epsilon"] == found["at_least"] == pytest.approx(4.3772, abs=1e-4)
    assert found["success"] == pytest.approx(0.092, abs=5e-4)
    text = call(EXAMPLES / "svt-defaults.json", "--json", code=1).stdout
    assert "Infinity" not in text
    assert json.loads(text)["epsilon"] is None


def test_an_option_is_set_over_a_file_and_an_undecided_claim_has_a_code_of_its_own():
    assert "852,250,122" not in call(EXAMPLES / "sensitivity-apart-from-clipping.toml", "--rounds", 3, code=1).stdout
    small = ("--set", "epsilon_release=0.5", "--set", "claimed_epsilon=0.7")
    assert "UNDECIDED" in call(EXAMPLES / "svt-defaults.json", *small, code=11).stdout


@every(
    ("args", "message"),
    [
        ((), "delta is missing"),
        (("--noise-multiplier", "1", "--delta", "2"), "delta is 2.0; it must be below 1"),
        ((*ONE, "--relation", "swap"), "relation 'swap' is unknown"),
        ((*ONE, "--set", "colour=3"), "colour: unknown key of plain"),
        ((*ONE, "--format", "flwr"), "format 'flwr' is unknown"),
        (("nowhere.toml",), "nowhere.toml: no such file"),
        ((*ONE, "--rounds", 10**400), "rounds is a whole number of 401 digits; it must be at most 1e+15"),
        ((*ONE, "--batch", 10**400, "--population", 10**401), "batch is a whole number of 401 digits"),
        ((*ONE, "--set", f"mean_of={10**400}"), "mean_of is a whole number of 401 digits"),
        ((*ONE, "--set", f"epsilon={10**400}"), "epsilon is a whole number of 401 digits"),
        (("--format", "nvflare-svt", "--set", f"parameters={10**400}"), "parameters is a whole number of 401 digits"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_two(args, message):
    result = call(*args, code=2)
    (line,) = result.stderr.strip().splitlines()
    assert message in line
    assert result.stdout == ""


def test_a_file_that_steers_a_terminal_is_shown_and_not_obeyed(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"\x1b[2J": 1}))
    assert "\x1b" not in call(path, code=2).stderr


def test_a_claim_without_sampling_loads_neither_torch_nor_pandas_nor_the_numeric_accountant():
    program = (
        "import sys\nfrom leakledger.audit.cli import main\n"
        f"try: main({['check-dp', *ONE]!r})\nexcept SystemExit: pass\n"
        "heavy = {'torch', 'pandas', 'dp_accounting', 'pydantic', 'scipy.stats'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


def test_a_claim_of_the_epsilon_that_is_printed_holds():
    sampled = ("--sampling-rate", 0.01, "--sampling", "poisson")
    settings = ("--noise-multiplier", 1, *sampled, "--rounds", 1000, "--delta", 1e-5)
    said = re.search(r"found +epsilon (.*) at most", call(*settings, "--epsilon", 2).stdout)
    assert call(*settings, "--epsilon", said.group(1)).stdout.startswith("HOLDS")


@pytest.mark.parametrize("multiplier", [0.001, 0.03, 0.7, 1.3, 1e6])
def test_what_is_printed_is_not_below_what_is_found_and_a_gap_not_above(multiplier):
    settings = ("--noise-multiplier", multiplier, "--delta", 1e-5, "--epsilon", 1e-9)
    code = int(multiplier < 1e5)
    said, found = call(*settings, code=code).stdout, json.loads(call(*settings, "--json", code=code).stdout)

    def number(pattern):
        return float(re.search(pattern, said).group(1).replace(",", ""))

    assert number(r"found +epsilon ([\d.,e+-]+)") >= found["epsilon"]
    assert number(r"otherwise +epsilon ([\d.,e+-]+)") >= found["other_relation"]
    assert number(r"is right in ([\d.]+)% at most") >= 100 * found["success"]
    assert number(r"takes noise of ([\d.,e+-]+)") >= found["noise_needed"]
    if found["gap"]:
        assert number(r"epsilon is ([\d.,e+-]+) above") <= found["gap"]
