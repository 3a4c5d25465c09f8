"""What all tests share: how hypothesis runs, and where the real tables are."""

import os
from pathlib import Path

import pytest
import torch
from hypothesis import settings

settings.register_profile("ci", derandomize=True, deadline=None, max_examples=30, database=None)
settings.load_profile("ci")

torch.set_num_threads(1)  # small tensors: a second thread only waits for the first


@pytest.fixture(scope="session")
def datasets():
    """The folder of real tables with their schema files."""
    named = os.environ.get("LEAKLEDGER_DATASETS")
    folder = Path(named) if named else Path(__file__).parents[2] / "shared" / "datasets"
    if not folder.is_dir():
        pytest.skip(f"no real tables at {folder}; LEAKLEDGER_DATASETS names the folder that has them")
    return folder
