"""What all tests share: how hypothesis runs, and where the real tables are."""

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
from hypothesis import settings

from leakledger.preprocess.secret import PUBLIC_MASTER

settings.register_profile("ci", derandomize=True, deadline=None, max_examples=30, database=None)
settings.load_profile("ci")

torch.set_num_threads(1)  # small tensors: a second thread only waits for the first
if "PYTEST_XDIST_WORKER" in os.environ:
    os.cpu_count = lambda: 1  # others test on the other cores: an audit needs no processes beside this one
    os.environ["LEAKLEDGER_AUDIT__JOBS"] = "1"  # nor does one that is started as a command


HELPERS = TemporaryDirectory(prefix="leakledger-tests-")


def pytest_configure():
    """Lets the processes of parties import `tests.…`, and nothing else of the repository: its root on the path would
    give every module of the project a second name."""
    Path(HELPERS.name, "tests").symlink_to(Path(__file__).parent, target_is_directory=True)
    # Audits of tests have the public master secret, so that what they find repeats.
    secrets = Path(HELPERS.name, "secrets")
    secrets.write_text(PUBLIC_MASTER.hex())
    os.environ["LEAKLEDGER_SECRETS"] = str(secrets)
    sys.path.append(HELPERS.name)


def pytest_unconfigure():
    sys.path.remove(HELPERS.name)
    HELPERS.cleanup()


@pytest.fixture(scope="session")
def datasets():
    """The folder of real tables with their schema files."""
    named = os.environ.get("LEAKLEDGER_DATASETS")
    folder = Path(named) if named else Path(__file__).parents[2] / "shared" / "datasets"
    if not folder.is_dir():
        pytest.skip(f"no real tables at {folder}; LEAKLEDGER_DATASETS names the folder that has them")
    return folder
