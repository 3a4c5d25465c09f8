"""Every method has a file and every file is registered."""

from pathlib import Path

import pytest

import leakledger.defenses
import leakledger.preprocess.aggregation
import leakledger.preprocess.encoders
import leakledger.preprocess.scalers
import leakledger.preprocess.training
from leakledger.defenses import DEFENSES
from leakledger.preprocess.aggregation import AGGREGATIONS
from leakledger.preprocess.encoders import ENCODERS
from leakledger.preprocess.scalers import SCALERS
from leakledger.preprocess.training import ALGORITHMS
from tests.every import every

METHODS = {**{f"encoder {n}": e for n, e in ENCODERS.items()}, **{f"scaler {n}": s for n, s in SCALERS.items()}}
TABLES = {
    leakledger.preprocess.encoders: (ENCODERS, {"base", "codebook", "noised", "ring_ids", "ring_psi"}),
    leakledger.preprocess.scalers: (
        SCALERS,
        {"base", "encrypted", "encrypted_extremes", "one_party", "power_search", "quantile_search"},
    ),
    leakledger.preprocess.training: (
        ALGORITHMS,
        {"base", "checks", "divergence", "evaluation", "local_steps", "norm_state", "row_gradients"},
    ),
    leakledger.preprocess.aggregation: (AGGREGATIONS, {"base", "secure_steps"}),
    leakledger.defenses: (DEFENSES, {"base"}),
}


@pytest.mark.parametrize("package", TABLES, ids=lambda p: p.__name__)
def test_every_file_of_a_method_is_registered_under_its_name(package):
    table, helpers = TABLES[package]
    files = {p.stem for p in Path(package.__file__).parent.glob("*.py")} - helpers - {"__init__"}
    assert files == {name.replace("-", "_") for name in table}


@every("name", METHODS)
def test_every_method_says_what_it_shares_and_whose_account_that_is(name):
    what, _, source = METHODS[name].said_to_share.partition(" (")
    assert what
    assert any(word in source for word in ("table 5", "section", "ours"))
