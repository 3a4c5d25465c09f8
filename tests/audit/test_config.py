import pytest

from audit.case import cases
from audit.config import Config, ConfigError, load_config
from audit.start import STARTER


def written(tmp_path, text):
    path = tmp_path / "audit.toml"
    path.write_text(text)
    return path


def refusal(path, overrides=(), environment=None):
    with pytest.raises(ConfigError) as error:
        load_config(path, overrides, environment or {})
    assert "\n" not in str(error.value)
    return str(error.value)


def test_the_file_that_init_writes_holds_the_defaults_but_for_the_second_method(tmp_path):
    config = load_config(written(tmp_path, STARTER), environment={})
    assert config.model_copy(update={"preprocessing": Config().preprocessing}) == Config()
    assert [(p.encoder, p.scaler) for p in config.preprocessing] == [
        ("server-dictionary", "server-zscore"),
        ("local", "local"),
    ]


def test_the_command_line_beats_the_environment_beats_the_file_beats_the_defaults(tmp_path):
    path = written(tmp_path, "[audit]\nbaseline_draws = 2\n")
    assert load_config(None, environment={}).audit.baseline_draws == 20
    assert load_config(path, environment={}).audit.baseline_draws == 2
    environment = {"LEAKLEDGER_AUDIT__BASELINE_DRAWS": "3", "LEAKLEDGER_DEBUG": "1"}
    assert load_config(path, environment=environment).audit.baseline_draws == 3
    assert load_config(path, ["audit.baseline_draws=4"], environment).audit.baseline_draws == 4


def test_an_override_reaches_every_table_of_a_list(tmp_path):
    path = written(tmp_path, "[[training]]\nbatch_size = 8\n[[training]]\nbatch_size = 16\n")
    config = load_config(path, ["training.rounds=3"], {})
    assert [(t.batch_size, t.rounds) for t in config.training] == [(8, 3), (16, 3)]


def test_text_needs_no_quotes_on_the_command_line():
    assert load_config(None, ["data.source=people.csv"], {}).data.source == "people.csv"


def test_a_batch_size_of_zero_means_all_rows(tmp_path):
    assert load_config(written(tmp_path, "[training]\nbatch_size = 0\n"), environment={}).training[0].batch_size is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[audit]\nseed = [1]\n", "audit.seed: unknown key (did you mean 'seeds'?); known here: "),
        ("[adit]\n", "adit: unknown key (did you mean 'audit'?)"),
        ("[attacks.tableak]\nrestart = 3\n", "attacks.tableak.restart: unknown key (did you mean 'restarts'?)"),
        ("[[training]]\nepochs = 3\n", "training.epochs: unknown key (did you mean 'local_epochs'?)"),
        ('[[preprocessing]]\nencoder = "onehot"\n', "preprocessing.encoder: 'onehot' is unknown"),
        ('[[preprocessing]]\nscaler = "server-zscor"\n', "(did you mean 'server-zscore'?); choose one of"),
        (
            "[training]\nlocal_epochs = -1\n",
            "training.local_epochs: Input should be greater than or equal to 1 (got -1)",
        ),
        ("[partition]\nparties = 1\n", "partition.parties: Input should be greater than or equal to 2 (got 1)"),
        ('[[defense]]\nname = "gaussian-noise"\n', "defense: sigma goes with gaussian-noise"),
        ("[audit]\nseeds = []\n", "audit.seeds: "),
        ("[data]\ntest_fraction = nan\n", "data.test_fraction: "),
        ("[[training]]\n[[training]]\nrounds = 0\n", "training[2].rounds: Input should be greater than or equal to 1"),
        ("[audit\n", "cannot be read as TOML"),
    ],
)
def test_a_mistake_is_one_line_with_file_key_and_what_to_do(tmp_path, text, expected):
    path = written(tmp_path, text)
    assert expected in (message := refusal(path))
    assert message.startswith(str(path))


def test_a_missing_file_says_how_to_make_one(tmp_path):
    assert "`leakledger init" in refusal(tmp_path / "none.toml")


def test_overrides_that_name_no_key_are_refused(tmp_path):
    assert refusal(None, ["audit.seeds"]) == "--set audit.seeds: write section.key=value"
    assert "name a section and a key" in refusal(None, ["seeds=[1]"])
    path = written(tmp_path, "[attacks]\nrounds = [0]\n")
    assert "attacks.rounds is not a table" in refusal(path, ["attacks.rounds.first=1"])


def test_cases_are_all_combinations_with_distinct_stable_names():
    config = Config.model_validate(
        {
            "preprocessing": [{"encoder": "local", "scaler": "local"}, {}],
            "training": [{"batch_size": 8}, {"batch_size": 16}],
            "defense": [{"name": "none"}, {"name": "gaussian-noise", "sigma": 0.1}],
            "audit": {"seeds": [3, 4, 5]},
        }
    )
    names = [c.id for c in cases(config)]
    assert len(names) == len(set(names)) == 2 * 2 * 2 * 3
    assert names == [c.id for c in cases(config)]


def test_asking_for_the_same_case_twice_is_an_error():
    with pytest.raises(ValueError, match="more than once"):
        cases(Config.model_validate({"preprocessing": [{}, {}]}))
    with pytest.raises(ValueError, match="repeats a seed"):
        cases(Config.model_validate({"audit": {"seeds": [1, 1]}}))


def test_the_reference_is_marked_where_either_half_is_pooled():
    config = Config.model_validate(
        {"preprocessing": [{"encoder": "pooled"}, {"scaler": "pooled"}, {"encoder": "local"}]}
    )
    assert [c.setting.reference for c in cases(config)][::2] == [True, True, False]
