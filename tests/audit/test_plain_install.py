"""An installation without any extra: everything that does not name one of them runs."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from leakledger.audit.config import Config
from leakledger.audit.installed import check_extras
from leakledger.preprocess.crypto.seal import sealapi

ROOT = Path(__file__).parents[2]
PROVIDED = {"distributed": ["distributed", "dask"], "tenseal": ["tenseal"], "transformers": ["transformers"]}
WITHOUT = """
import sys
from leakledger.audit.cli import main
sys.modules.update(dict.fromkeys(sys.argv.pop().split(",")))  # importing one of these fails
main()
"""
AUDIT = """
[data]
source = "fair"
rows = 240
[partition]
parties = 3
[[training]]
rounds = 1
batch_size = 4
[audit]
seeds = [0]
"""


def extras():
    """What the extras install, those for development apart."""
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    return {r.partition(">")[0] for name, own in wanted.items() if name != "test" for r in own}


def leakledger(folder, *words):
    """Runs the command where the packages of no extra can be imported."""
    blocked = ",".join(module for modules in PROVIDED.values() for module in modules)
    command = [sys.executable, "-c", WITHOUT, *words, blocked]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=500)


def test_no_extra_is_forgotten_here():
    assert extras() == PROVIDED.keys()


@pytest.mark.slow
def test_an_audit_by_default_settings_needs_no_extra(tmp_path):
    (tmp_path / "audit.toml").write_text(AUDIT)
    ran = leakledger(tmp_path, "run", "audit.toml")
    assert ran.returncode == 0, ran.stderr
    assert ", 0 failed" in ran.stdout
    assert list(tmp_path.glob("runs/*/report.html"))


FEATURES = """
[data]
source = "fair"
rows = 120
test_fraction = 0.5
[partition]
kind = "vertical"
parties = 2
[[features]]
judges = "open"
transformations = ["sum"]
[audit]
seeds = [0]
"""


@pytest.mark.slow
def test_features_that_were_exchanged_under_masks_are_audited_and_attacked_without_an_extra(tmp_path):
    (tmp_path / "audit.toml").write_text(FEATURES)
    ran = leakledger(tmp_path, "run", "audit.toml")
    assert ran.returncode == 0, ran.stderr
    (transcript,) = tmp_path.glob("runs/*/transcripts/*.parquet")
    attacked = leakledger(tmp_path, "attack", str(transcript))
    assert attacked.returncode == 0, attacked.stderr
    assert "feature_exchange" in attacked.stdout


@pytest.mark.parametrize(
    ("section", "extra"),
    [('[[preprocessing]]\nencoder = "apsi"', "psi"), ("[[training]]\naggregation = 'he-aggregation'", "he")],
)
def test_a_method_of_an_extra_is_refused_in_one_line_that_names_it(tmp_path, section, extra):
    (tmp_path / "audit.toml").write_text(f'[data]\nsource = "fair"\nrows = 240\n{section}\n[audit]\nseeds = [0]\n')
    ran = leakledger(tmp_path, "run", "audit.toml")
    assert ran.returncode == 2
    assert f"leakledger[{extra}]" in ran.stderr
    assert len(ran.stderr.strip().splitlines()) == 1


def test_what_was_run_elsewhere_can_be_read_without_the_extra_that_it_took(monkeypatch):
    monkeypatch.setitem(sys.modules, "tenseal.sealapi", None)
    sealapi.cache_clear()
    try:
        config = Config.model_validate(
            {
                "data": {"source": "fair"},
                "training": {"aggregation": "he-aggregation"},
                "preprocessing": {"encoder": "apsi"},
            }
        )
        with pytest.raises(ValueError, match=r"apsi needs tenseal; install leakledger\[psi\]"):
            check_extras(config)
    finally:
        sealapi.cache_clear()
