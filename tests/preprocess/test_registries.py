"""Every method has a file and every file is registered."""

from pathlib import Path

import pytest

import preprocess.encoders
import preprocess.scalers
import preprocess.training
from preprocess.encoders import ENCODERS
from preprocess.scalers import SCALERS
from preprocess.training import ALGORITHMS

TABLES = {
    preprocess.encoders: (ENCODERS, {"base", "codebook", "ring_ids", "ring_psi"}),
    preprocess.scalers: (SCALERS, {"base"}),
    preprocess.training: (ALGORITHMS, {"base", "evaluation"}),
}


@pytest.mark.parametrize("package", TABLES, ids=lambda p: p.__name__)
def test_every_file_of_a_method_is_registered_under_its_name(package):
    table, helpers = TABLES[package]
    files = {p.stem for p in Path(package.__file__).parent.glob("*.py")} - helpers - {"__init__"}
    assert files == {name.replace("-", "_") for name in table}
