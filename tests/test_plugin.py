"""`examples/plugin`, installed as its README says: found by its entry points, held to the contracts, and audited."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

from leakledger.attacks import ATTACKS
from leakledger.attacks.gradient.span import Span
from leakledger.attacks.transcript.vocabulary import Vocabulary
from leakledger.audit import plugins
from leakledger.audit.config_file import ConfigError, config_of
from leakledger.audit.contracts import AttackContract, DefenseContract, EncoderContract, ReaderContract, ScalerContract
from leakledger.defenses import DEFENSES, GaussianNoise
from leakledger.preprocess.encoders import ENCODERS
from leakledger.preprocess.encoders.server_dictionary import ServerDictionary
from leakledger.preprocess.messages import About, Disclosure, Payload
from leakledger.preprocess.messages.base import KINDS
from leakledger.preprocess.scalers.federated_zscore import FederatedZScore

EXAMPLE = Path(__file__).parents[1] / "examples" / "plugin"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder that has the plugin as pip installs it, and a copy of its tests."""
    folder = tmp_path_factory.mktemp("plugin")
    source = folder / "source"
    for path in EXAMPLE.rglob("*"):
        if path.is_file() and path.suffix in (".py", ".toml", ".md") and "egg-info" not in str(path):
            target = source / path.relative_to(EXAMPLE)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--no-build-isolation", "--target", folder / "site", source], check=True, capture_output=True)
    return folder


def ran(folder, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(folder / "site")}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def leakledger(folder, *arguments):
    return ran(folder, "-c", "from leakledger.audit.cli import main; main()", *arguments)


@pytest.mark.slow
def test_the_example_keeps_the_contracts(installed):
    done = ran(installed, "-m", "pytest", "-q", "-p", "no:cacheprovider", "source/tests")
    assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-1_000:]
    assert " passed" in done.stdout


@pytest.mark.slow
def test_the_example_is_listed_configured_and_found_to_leak(installed):
    listed = {(r["kind"], r["name"]) for r in json.loads(leakledger(installed, "list", "--json").stdout)}
    assert {
        ("encoder", "tally"),
        ("scaler", "max-abs"),
        ("attack", "tally-counts"),
        ("defense", "sign"),
        ("reader", ".jsonl"),
    } <= listed
    done = leakledger(installed, "run", "source/audit.toml", "-o", "run")
    assert done.returncode == 0, done.stderr
    results = json.loads((installed / "run" / "results.json").read_text())
    assert results["verdict"]["status"] == "leaks"
    assert results["run"]["versions"]["leakledger-tally"] == "0.1.0"
    assert all(c["passed"] for c in results["controls"] if c["attack"] == "tally-counts")


@pytest.mark.slow
class TestEncoder(EncoderContract):
    encoder = ServerDictionary


@pytest.mark.slow
class TestScaler(ScalerContract):
    scaler = FederatedZScore


@pytest.mark.slow
class TestAttackOnTranscripts(AttackContract):
    attack = Vocabulary


class TestAttackOnUpdates(AttackContract):
    attack = Span


class TestDefense(DefenseContract):
    defense = GaussianNoise(0.1)


class TestReader(ReaderContract):
    suffix = ".parquet"

    def write(self, frame, path):
        frame.to_parquet(path)


BROKEN = {
    "missing": ("nowhere.at_all:Thing", "ModuleNotFoundError"),
    "wrong-kind": ("pathlib:Path", "it is no subclass of Encoder"),
    "another-name": ("leakledger.preprocess.encoders.local:Local", "it calls itself 'local'"),
    "local": ("leakledger.preprocess.encoders.uhe:Uhe", "it calls itself 'uhe'"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_plugin_is_left_out_and_its_name_says_why(name, monkeypatch):
    value, why = BROKEN[name]
    monkeypatch.setattr(plugins, "FAILED", {})
    before = dict(ENCODERS)
    plugins.register([("leakledger.encoders", EntryPoint(name, value, "leakledger.encoders"))])
    assert before == ENCODERS
    assert why in plugins.FAILED[name]
    if name not in ENCODERS:
        with pytest.raises(ConfigError, match="a plugin of that name is installed and cannot be used"):
            config_of({}, [f"preprocessing.encoder={name}"])


def test_a_plugin_that_takes_a_name_is_left_out(monkeypatch):
    monkeypatch.setattr(plugins, "FAILED", {})
    taken = type("Other", (ENCODERS["local"],), {"__module__": __name__})
    monkeypatch.setitem(globals(), "Other", taken)
    plugins.register([("leakledger.encoders", EntryPoint("local", f"{__name__}:Other", "leakledger.encoders"))])
    assert ENCODERS["local"] is not taken


def test_a_plugin_with_a_message_that_cannot_be_made_up_is_left_out(monkeypatch):
    @dataclass(frozen=True)
    class LocalBits(Payload):
        topic = "bits"
        discloses = Disclosure.VALUE
        about = About.SENDER

        bits: np.ndarray

    LocalBits.__module__ = own = "a_plugin"
    monkeypatch.setattr(plugins, "FAILED", {})
    monkeypatch.setattr(plugins, "KINDS", {"bits": LocalBits})
    KINDS.pop("bits")
    monkeypatch.setitem(globals(), "Bits", type("Bits", (ENCODERS["local"],), {"__module__": own, "name": "bits"}))
    plugins.register([("leakledger.encoders", EntryPoint("bits", f"{__name__}:Bits", "leakledger.encoders"))])
    assert "bits" not in ENCODERS
    assert "LocalBits.bits: numpy.ndarray says no element type; write NDArray[np.float64]" in plugins.FAILED["bits"]


def test_contracts_fail_for_what_breaks_them():
    class Forgetful(GaussianNoise):
        def protect(self, update, coins):
            return {name: a * coins.normal() for name, a in list(update.items())[1:]}

    class TestForgetful(DefenseContract):
        defense = Forgetful(0.1)

    contract = TestForgetful()
    with pytest.raises(AssertionError):
        contract.test_names_shapes_and_types_stay_and_what_is_sent_is_finite()
    with pytest.raises(AssertionError, match="not"):
        contract.test_it_is_installed_under_its_name_and_says_where_it_is_from()
    assert DEFENSES["gaussian-noise"] is GaussianNoise
    assert ATTACKS["span"] is Span
