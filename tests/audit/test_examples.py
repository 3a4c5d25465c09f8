"""The examples that are no setting of a paper: each is valid, and has the cases that its head speaks of."""

from pathlib import Path

from leakledger.audit.case import cases
from leakledger.audit.config_file import load_config
from leakledger.audit.federate import whole_table
from leakledger.preprocess.data.embedded import EMBEDDED
from tests.every import every

FOLDER = Path(__file__).parents[2] / "examples"


@every("path", sorted(FOLDER.glob("*.toml")))
def test_every_example_is_valid_asks_for_cases_and_fits_its_table(path):
    config = load_config(path, environment={})
    assert cases(config)
    if config.data.source in EMBEDDED:
        assert len(whole_table(config))


def test_the_parts_of_dp_sgd_are_audited_one_by_one_on_poisson_samples():
    todo = cases(load_config(FOLDER / "dp-sgd.toml", environment={}))
    told = dict.fromkeys(c.setting.defense for c in todo)
    assert list(told) == [
        "none",
        "example-clipping 1",
        "gaussian-noise 0.05",
        "example-clipping 1 then gaussian-noise 0.05",
    ]
    assert {c.setting.training for c in todo} == {"fedsgd B=8 in expectation (poisson), 100 rounds"}
