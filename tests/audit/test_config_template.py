import pytest

from leakledger.audit.config import Config
from leakledger.audit.config_file import ConfigError, config_of, load_config
from leakledger.audit.config_template import config_text, starter
from leakledger.preprocess.encoders import ENCODERS
from leakledger.preprocess.scalers import SCALERS


def read(tmp_path, text):
    path = tmp_path / "audit.toml"
    path.write_text(text, encoding="utf-8")
    return load_config(path, environment={})


def test_the_file_to_start_from_holds_the_defaults_but_for_the_second_method(tmp_path):
    config = read(tmp_path, starter())
    assert config.model_copy(update={"preprocessing": Config().preprocessing}) == Config()
    assert [(p.encoder, p.scaler) for p in config.preprocessing] == [
        ("server-dictionary", "federated-zscore"),
        ("local", "local"),
    ]


def test_the_file_to_start_from_has_the_options_of_the_chosen_methods_alone():
    text = starter(["preprocessing.encoder=rolling-hash", 'attacks.use=["vocabulary"]'])
    assert text.count("[[preprocessing]]") == 1
    assert "buckets = 5000" in text
    assert "style = " not in text
    assert "# least =" in text
    assert "[attacks.tableak]" not in text
    with pytest.raises(ConfigError, match="rolling-hash has"):
        starter(["preprocessing.buckets=7"])


@pytest.mark.parametrize("encoder", ENCODERS)
def test_reading_a_written_configuration_gives_the_same_one(tmp_path, encoder):
    both = [{"encoder": encoder, "scaler": scaler} for scaler in SCALERS]
    config = Config.model_validate({"preprocessing": both})
    assert read(tmp_path, config_text(config)) == config


def test_values_that_are_not_defaults_are_written_too(tmp_path):
    values = {
        "data": {"source": [f'{tmp_path}/a"b.csv', f"{tmp_path}/c\\d.csv"], "rows": 7, "schema": {"drop": ["é"]}},
        "partition": [{"kind": "files"}, {"kind": "iid", "beta": 0.5}],
        "training": [{"algorithm": "fedavg", "batch_size": 0, "patience": 2}],
        "defense": [
            {"name": "none"},
            {"name": "gaussian-noise", "sigma": 1e-7},
            {"name": "client-clipping", "clip_norm": 1.0, "then": [{"name": "quantisation", "bits": 2}]},
        ],
        "attacks": {
            "use": ["tableak"],
            "tableak": {"temperature": [1, 0.5], "pooling": False},
        },
    }
    config = config_of(values, ['attacks.determined={"a b" = "c"}', "model.hidden=[3]"])
    assert read(tmp_path, config_text(config)) == config
