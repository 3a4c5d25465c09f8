"""`examples/plugin`, installed as its README says: found by its entry points, held to the contracts, and audited."""

import importlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from leakledger.attacks import ATTACKS
from leakledger.attacks.base import Abstained, Attack, ControlSpec
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
    path = os.pathsep.join(map(str, (folder / "site", EXAMPLE.parents[1])))  # this checkout, whatever is installed
    environment = {**os.environ, "PYTHONPATH": path}
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
    seen = json.loads(leakledger(installed, "view", "run", "--json").stdout)
    shown = {r["content"].partition(":")[0] for r in seen if r["topic"].startswith("leakledger-tally.")}
    assert shown
    assert "its kind is not installed" not in shown
    told = [r["content"] for r in seen if r["topic"] == "leakledger-tally.counts"]
    assert told
    assert all(" entries (first: number)" in content for content in told), "values that parties hold are not shown"
    assert all(content in (installed / "run" / "report.html").read_text() for content in told)


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


@pytest.mark.parametrize("error", [SystemExit(0), pytest.skip.Exception("not here")])
def test_one_that_would_end_every_command_when_it_is_imported_is_left_out_too(error, monkeypatch):
    def load():
        raise error

    monkeypatch.setattr(plugins, "FAILED", {})
    point = SimpleNamespace(name="ends", value="ends.it:All", load=load)
    plugins.register([("leakledger.encoders", point)])
    assert plugins.FAILED["ends"].startswith(f"ends.it:All: {type(error).__name__}: ")


def test_the_code_of_a_plugin_is_among_versions_and_changes_with_any_of_its_files(tmp_path, monkeypatch):
    package = tmp_path / "theirs_coded"
    package.mkdir()
    (package / "__init__.py").write_text("def read(path): ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("FAILED", "DISTRIBUTIONS", "PACKAGES", "CODE"):
        monkeypatch.setattr(plugins, name, {})
    monkeypatch.setattr(plugins, "GROUPS", {"readers": plugins.Group({}, None, lambda r: "")})
    point = SimpleNamespace(name=".x", value="theirs_coded:read", dist=SimpleNamespace(name="theirs", version="1"))
    point.load = lambda: importlib.import_module("theirs_coded").read

    def registered():
        plugins.register([("readers", point)])
        assert plugins.FAILED == {}
        return plugins.versions_of_plugins()

    before = registered()
    assert set(before) == {"theirs", "theirs_coded (code)"}
    assert registered() == before
    (package / "helper.py").write_text("A = 1\n")
    assert registered()["theirs_coded (code)"] != before["theirs_coded (code)"]


class Stated(Attack):
    technique, reference, assumes = "stated", "an example", "nothing"
    asset, reads, controls = ("records",), (Payload,), (ControlSpec("fields"),)

    def run(self, view, knowledge):
        return Abstained("it does nothing")


def without(name):
    """An attack that states all but this."""
    kept = {key: getattr(Stated, key) for key in ("reference", "assumes", "asset", "reads", "controls") if key != name}
    return type("Without", (Attack,), {**kept, "technique": "stated", "run": Stated.run})


def controlled(*stated, **options):
    """An attack that declares this control alone."""
    return type("Controlled", (Stated,), {"controls": (ControlSpec(*stated, **options),)})


@pytest.mark.parametrize("field", ["expects", "observers"])
def test_a_control_of_what_no_control_can_be_is_refused_where_it_is_stated(field):
    with pytest.raises(ValueError, match=f"`{field}` of a control is 'statistics'; known are "):
        ControlSpec(**{"expects": "mean", field: "statistics"})


def test_every_attack_is_about_what_a_plugin_may_be_about():
    assert {asset for attack in ATTACKS.values() for asset in attack.asset} == set(plugins.STATED_ASSETS)


class Needs(Stated):
    def __init__(self, rows):
        self.rows = rows


class Raises(Stated):
    def __init__(self):
        raise ValueError("no such device")


UNUSABLE = {
    "says no reference": (without("reference"), "it does not state `reference`"),
    "says no controls": (without("controls"), "it does not state `controls`"),
    "declares no control": (type("Empty", (Stated,), {"controls": ()}), "it declares no control"),
    "has a text for its assets": (type("Text", (Stated,), {"asset": "records"}), "`asset` is 'records'; it must be"),
    "is about no asset": (type("About", (Stated,), {"asset": ("statistic",)}), "`asset` names 'statistic'; known"),
    "reads no kind": (type("Reads", (Stated,), {"reads": (int,)}), "`reads` names int, which is no kind of message"),
    "is to succeed under no encoder": (controlled("mean", encoder="taly"), "the encoder 'taly', and there is none"),
    "is to succeed under no scaler": (controlled("mean", scaler="maxabs"), "the scaler 'maxabs', and there is none"),
    "gives a control no option": (controlled("mean", encoder="uhe", encoder_options={"pad": 1}), "argument 'pad'"),
    "does not run": (type("Idle", (Stated,), {"run": Attack.run}), "abstract"),
    "needs what is no option": (Needs, "it cannot be made without `rows`, which is no option"),
    "cannot be made": (Raises, "ValueError: no such device"),
}


@pytest.mark.parametrize("what", UNUSABLE)
def test_an_attack_that_cannot_be_used_is_left_out(what, monkeypatch):
    thing, why = UNUSABLE[what]
    monkeypatch.setattr(plugins, "FAILED", {})
    monkeypatch.setitem(globals(), "Thing", thing)
    plugins.register([("leakledger.attacks", EntryPoint("stated", f"{__name__}:Thing", "leakledger.attacks"))])
    assert "stated" not in ATTACKS
    assert why in plugins.FAILED["stated"]


@pytest.mark.parametrize(
    ("group", "name", "thing"),
    [
        ("leakledger.readers", ".csv", lambda path: None),
        ("leakledger.readers", ".gz", lambda path: None),
        ("leakledger.scalers", "server-zscore", type("Other", (FederatedZScore,), {"name": "server-zscore"})),
        ("leakledger.defenses", "none", type("Nothing", (GaussianNoise,), {"name": "none"})),
    ],
)
def test_a_plugin_under_a_name_that_means_something_else_is_left_out(group, name, thing, monkeypatch):
    monkeypatch.setattr(plugins, "FAILED", {})
    monkeypatch.setattr(plugins, "KINDS", {})  # kinds that other tests have made are none of this plugin's
    monkeypatch.setitem(globals(), "Thing", thing)
    before = dict(plugins.GROUPS[group].table)
    plugins.register([(group, EntryPoint(name, f"{__name__}:Thing", group))])
    assert before == plugins.GROUPS[group].table
    assert "the name has a meaning of its own; choose another" in plugins.FAILED[name]


def with_module(folder, points, source):
    """A folder that has a package of one module, installed with these entry points."""
    facts = folder / "site" / "foreign-0.1.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: foreign\nVersion: 0.1\n")
    (facts / "entry_points.txt").write_text(points)
    (folder / "site" / "foreign.py").write_text(source)
    return folder


NEEDS_AN_OPTION = """
from dataclasses import dataclass
from leakledger.attacks.transcript.plaintext import Plaintext
from leakledger.preprocess.options import option

@dataclass(frozen=True)
class Needs(Plaintext):
    fewest: int = option(at_least=1, help="rows")
    technique = "needs"
"""


def test_an_attack_with_an_option_without_default_is_no_matter_where_it_is_not_in_use(tmp_path):
    folder = with_module(tmp_path, "[leakledger.attacks]\nneeds = foreign:Needs\n", NEEDS_AN_OPTION)
    made = "from leakledger.audit.config_file import config_of; config_of({}, ['attacks.use=[\"%s\"]'])"
    assert ran(folder, "-c", made % "plaintext").returncode == 0
    assert "needs it: rows" in ran(folder, "-c", made % "needs").stderr


LOUD = """
import os, sys
from dataclasses import dataclass
from leakledger.preprocess.encoders.server_dictionary import ServerDictionary

def noise():
    print("NOISE")
    sys.stdout.flush()
    os.write(1, b"NOISE\\n")
    os.system("echo NOISE")

noise()

@dataclass(frozen=True)
class Loud(ServerDictionary):
    name = "loud"

    def fit(self, fed, schema, tables):
        noise()
        return super().fit(fed, schema, tables)
"""
AUDIT = """
data = { source = "fair", rows = 120 }
preprocessing = { encoder = "loud", scaler = "local" }
training = { rounds = 1 }
attacks = { use = ["vocabulary"] }
audit = { observers = ["server"], seeds = [0, 1], baseline_draws = 2 }
"""


@pytest.mark.slow
def test_what_a_plugin_prints_is_no_output_of_a_command(tmp_path):
    folder = with_module(tmp_path, "[leakledger.encoders]\nloud = foreign:Loud\n", LOUD)
    (folder / "audit.toml").write_text(AUDIT)
    jobs = [("run", "audit.toml", "-o", f"run{n}", "--json", "--set", f"audit.jobs={n}") for n in (1, 2)]
    for command in (("list", "--json"), *jobs):
        done = leakledger(folder, *command)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)
        assert "NOISE" in done.stderr


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
