import json
import pickle
from dataclasses import dataclass, fields, is_dataclass
from itertools import product

import pytest
from pydantic import ValidationError

from leakledger.attacks import ATTACKS
from leakledger.audit.case import cases
from leakledger.audit.config import Config, DefenseChoice
from leakledger.audit.config_file import ConfigError, config_of, load_config
from leakledger.audit.granted import make_attack
from leakledger.defenses import DEFENSES, Defense
from leakledger.preprocess.aggregation import AGGREGATIONS
from leakledger.preprocess.encoders import ENCODERS
from leakledger.preprocess.options import options_of
from leakledger.preprocess.scalers import SCALERS
from leakledger.preprocess.views import Mechanism


def written(tmp_path, text):
    path = tmp_path / "audit.toml"
    path.write_text(text)
    return path


def refusal(path, overrides=(), environment=None):
    with pytest.raises(ConfigError) as error:
        load_config(path, overrides, environment or {})
    assert "\n" not in str(error.value)
    return str(error.value)


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
    assert [(t.options["batch_size"], t.options["rounds"]) for t in config.training] == [(8, 3), (16, 3)]


def test_the_environment_reaches_what_a_file_does_and_a_mistake_in_it_is_an_error(tmp_path):
    path = written(tmp_path, "[[training]]\nbatch_size = 8\n[[training]]\nbatch_size = 16\n")
    environment = {"LEAKLEDGER_TRAINING__ROUNDS": "3", "LEAKLEDGER_ATTACKS__SPAN__BUDGET": "7"}
    config = load_config(path, environment=environment)
    assert [t.options["rounds"] for t in config.training] == [3, 3]
    assert config.attacks.options["span"]["budget"] == 7
    assert "adit: unknown key (did you mean 'audit'?)" in refusal(path, environment={"LEAKLEDGER_ADIT__X": "3"})
    unknown = {"LEAKLEDGER_TRAINING__LOCAL_EPOCHS": "3"}
    assert "training[1].local_epochs: fedsgd has no such option" in refusal(path, environment=unknown)


def test_text_needs_no_quotes_on_the_command_line():
    assert load_config(None, ["data.source=people.csv"], {}).data.source == "people.csv"


def test_a_batch_size_of_zero_means_all_rows(tmp_path):
    config = load_config(written(tmp_path, "[training]\nbatch_size = 0\n"), environment={})
    assert config.training[0].options["batch_size"] is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[audit]\nseed = [1]\n", "audit.seed: unknown key (did you mean 'seeds'?); known here: "),
        ("[adit]\n", "adit: unknown key (did you mean 'audit'?)"),
        ("[attacks.tableak]\nrestart = 3\n", "attacks.tableak.restart: unknown key (did you mean 'restarts'?)"),
        ("[training]\nlearningrate = 3\n", "training.learningrate: unknown key (did you mean 'learning_rate'?)"),
        ("[training]\nlocal_epochs = 2\n", "training.local_epochs: fedsgd has no such option; fedavg has"),
        (
            "[[preprocessing]]\nbuckets = 7\n",
            "preprocessing.buckets: server-dictionary has no such option; rolling-hash has",
        ),
        (
            '[[preprocessing]]\nroute = "sealed"\n',
            "preprocessing.route: server-dictionary and federated-zscore have no such option; "
            "bytes-norm, mod-norm and zscore-sac have",
        ),
        (
            '[[preprocessing]]\n[[preprocessing]]\nencoder = "rolling-hash"\nbuckets = 0\n',
            "preprocessing[2].buckets: Input should be greater than or equal to 1 (got 0)",
        ),
        ('[[preprocessing]]\nencoder = "bytes-norm"\nlongest = 100\n', "preprocessing: longest 100 is outside 1 to 62"),
        ('[[defense]]\nname = "none"\nsigma = 0.1\n', "defense.sigma: none has no such option; gaussian-noise has"),
        (
            "[attacks.span]\nrestarts = 3\n",
            "attacks.span.restarts: span has no such option; tableak and tableak_fedavg",
        ),
        ("[attacks.spann]\n", "attacks.spann: unknown key (did you mean 'span'?)"),
        ("[attacks.spear]\nstarts = -1\n", "attacks.spear.starts: Input should be greater than or equal to 0 (got -1)"),
        ("[audit]\nfloor = 0.1\n", "audit: floor 0.1 must be below ceiling 0.1"),
        ("[attacks]\nspan = 3\n", "attacks.span: Input should be a valid dictionary (got 3)"),
        ('[attacks.tableak]\npooling = "modus"\n', "attacks.tableak.pooling: 'modus' is unknown; choose one of median"),
        ('[attacks.tableak]\ntemperature = "cold"\n', "attacks.tableak.temperature: temperature 'cold' is not one of"),
        ("[attacks.tableak]\nsoftmax = false\ntemperature = [2, 0.9]\n", "attacks.tableak: temperature (2.0, 0.9) is"),
        ("[attacks.tableak_fedavg]\nprior_weights = [-1]\n", "attacks.tableak_fedavg.prior_weights"),
        ('[[preprocessing]]\nencoder = "onehot"\n', "preprocessing.encoder: 'onehot' is unknown"),
        ('[[preprocessing]]\nscaler = "server-zscor"\n', "(did you mean 'federated-zscore'?); choose one of"),
        (
            '[training]\nalgorithm = "fedavg"\nlocal_epochs = -1\n',
            "training.local_epochs: Input should be greater than or equal to 1 (got -1)",
        ),
        ("[partition]\nparties = 1\n", "partition.parties: Input should be greater than or equal to 2 (got 1)"),
        ('[[defense]]\nname = "gaussian-noise"\n', "defense.sigma: gaussian-noise needs it: standard deviation"),
        (
            '[[defense]]\nname = "example-clipping"\nclip_norm = 0\n',
            "defense.clip_norm: Input should be greater than 0 (got 0)",
        ),
        (
            '[[defense]]\nname = "client-clipping"\nclip_norm = -1\n',
            "defense.clip_norm: Input should be greater than 0 (got -1)",
        ),
        ('[[defense]]\nname = "pruning"\nshare = 1\n', "defense.share: Input should be less than 1 (got 1)"),
        ('[[defense]]\nname = "pruning"\nshare = -0.1\n', "defense.share: Input should be greater than 0"),
        ('[[defense]]\nname = "quantisation"\nbits = 0\n', "defense.bits: Input should be greater than or equal to 2"),
        ('[[defense]]\nname = "quantisation"\nbits = 4\nrounding = "up"\n', "defense.rounding: "),
        (
            '[[defense]]\nname = "gaussian-noise"\nsigma = 1\nthen = [{ name = "example-clipping", clip_norm = 1 }]\n',
            "defense: example-clipping must come first, not after gaussian-noise: it clips the gradient of each row",
        ),
        (
            '[[defense]]\nname = "pruning"\nshare = 0.5\nthen = [{ name = "gaussian-noise", sigma = 0 }]\n',
            "defense.then.sigma: Input should be greater than 0 (got 0)",
        ),
        (
            '[[defense]]\nname = "none"\nthen = [{ name = "gaussian-noise", sigma = 1 }]\n',
            "defense: nothing can follow none: name gaussian-noise in its place",
        ),
        (
            '[[defense]]\nname = "none"\n[[defense]]\nname = "example-clipping"\nclip_norm = 1\n'
            '[[training]]\n[[training]]\nalgorithm = "fedavg"\n',
            "defense[2]: example-clipping: the gradients of rows are clipped (to 1) where one gradient of them is sent,"
            " and fedavg sends none: use fedsgd",
        ),
        ('[training]\nsampling = "bernoulli"\n', "training.sampling: "),
        ('[training]\nalgorithm = "fedavg"\nsampling = "poisson"\n', "training.sampling: fedavg has no such option"),
        ('[training]\nsampling = "poisson"\nbatch_size = 0\n', 'training: sampling "poisson" needs a batch_size'),
        ("[audit]\nseeds = []\n", "audit.seeds: "),
        ("[audit]\nobservers = []\n", "audit.observers: List should have at least 1 item"),
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
    path = written(tmp_path, "[[training]]\nrounds = 1\n")
    message = "training.rounds sets it in every [[training]]; to change one of them, edit the file"
    for place in ("0", "[1]"):
        assert refusal(path, [f"training.{place}.rounds=2"]) == f"--set training.{place}.rounds: {message}"


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
    for twice in ({"use": ["span", "plaintext", "span"]}, {"rounds": [0, 0]}):  # each would count its clusters twice
        with pytest.raises(ValueError, match=rf"attacks\.{next(iter(twice))} repeats an entry"):
            cases(Config.model_validate({"attacks": twice}))


def test_a_round_to_attack_must_be_one_that_every_training_has():
    trained = {"training": [{"rounds": 4}, {"rounds": 6}]}
    assert cases(Config.model_validate({**trained, "attacks": {"rounds": [0, 3]}}))
    with pytest.raises(ValueError, match=r"attacks.rounds has round 4, but one training ends with 3"):
        cases(Config.model_validate({**trained, "attacks": {"rounds": [0, 4]}}))
    aligned = {
        "partition": {"kind": "schemas"},
        "alignment": {"rounds": 1, "encoder": "random"},
        "attacks": {"rounds": [1]},
    }
    with pytest.raises(ValueError, match=r"attacks.rounds has round 1, but one training ends with 0"):
        cases(Config.model_validate(aligned))


def test_the_reference_is_marked_where_either_half_is_pooled():
    config = Config.model_validate(
        {"preprocessing": [{"encoder": "pooled"}, {"scaler": "pooled"}, {"encoder": "local"}]}
    )
    assert [c.setting.reference for c in cases(config)][::2] == [True, True, False]


def test_an_option_of_an_attack_reaches_it_and_those_that_it_plays(tmp_path):
    text = """
        [attacks]
        use = ["portfolio", "vocabulary"]
        labels = "recovered"
        label_recovery = "weights"
        [attacks.linear_layer]
        residual = 1e-3
        [attacks.span]
        budget = 7
        [attacks.spear]
        draws = 8
        [attacks.tableak]
        pooling = false
        temperature = [2, 0.5]
        [attacks.tableak_fedavg]
        prior_weights = [0.5]
        [attacks.vocabulary]
        least = 0.25
    """
    config = load_config(written(tmp_path, text), environment={})
    case = cases(config)[0]
    portfolio = make_attack("portfolio", config, case)
    assert portfolio.linear_layer["residual"] == 1e-3
    assert (portfolio.span["budget"], portfolio.spear["draws"]) == (7, 8)
    assert (portfolio.tableak["pooling"], portfolio.tableak["temperature"]) == ("none", (2.0, 0.5))
    assert portfolio.tableak["label_recovery"] == "weights"
    assert portfolio.tableak_fedavg["prior_weights"] == (0.5,)
    assert make_attack("vocabulary", config, case).least == 0.25


def test_every_option_of_every_attack_can_be_set():
    for name, kind in ATTACKS.items():
        for key, option in options_of(kind).items():
            config = Config.model_validate({"attacks": {"use": [name], name: {key: option.default}}})
            assert config.attacks.options[name][key] == option.default


SET_BY_THE_AUDIT = {"seed", "device", "rounds", "victims", "progress", "recover_labels", "label_recovery", "dictionary"}
SET_BY_THE_PIPELINE = {"ranges"}  # from the schema
WITHOUT_EFFECT = {"style", "unseen"}  # of encoders with codes of their own


def test_every_field_of_a_method_is_an_option_but_for_what_the_audit_sets():
    for name, kind in [*ENCODERS.items(), *SCALERS.items(), *AGGREGATIONS.items(), *DEFENSES.items(), *ATTACKS.items()]:
        plain = {f.name for f in fields(kind)} - options_of(kind).keys() if is_dataclass(kind) else set()
        assert plain <= SET_BY_THE_AUDIT | SET_BY_THE_PIPELINE | WITHOUT_EFFECT | set(
            getattr(kind, "composed_of", ())
        ), name


def test_values_in_force_are_those_of_the_methods_in_use_defaults_included():
    unused = {"attacks": {"use": ["vocabulary"], "tableak": {"restarts": 3}}}
    force = Config.model_validate({"preprocessing": {"encoder": "target"}, **unused}).in_force()
    assert force["preprocessing"][0].keys() == {
        *("encoder", "scaler", "smoothing", "folds", "likelihood", "exchange", "columns", "ddof"),
        *("encoder_epsilon", "encoder_delta", "scaler_epsilon", "scaler_delta"),
    }
    assert force["attacks"]["vocabulary"] == {"least": None}
    assert not force["attacks"].keys() & (ATTACKS.keys() - {"vocabulary"})


def test_values_in_force_give_the_same_configuration_again():
    config = Config.model_validate(
        {
            "preprocessing": [
                {"encoder": "uhe", "ring": ["P2", "P1"], "scaler": "zscore-sac"},
                {"encoder": "fasttext"},
            ],
            "training": [{"algorithm": "fedavg", "batch_size": 0}],
            "defense": [
                {"name": "gaussian-noise", "sigma": 0.1},
                {"name": "pruning", "share": 0.5, "then": [{"name": "quantisation", "bits": 4}]},
            ],
            "attacks": {"use": ["portfolio"], "tableak": {"temperature": [1, 0.5]}},
        }
    )
    assert Config.model_validate(json.loads(json.dumps(config.in_force()))) == config
    assert pickle.loads(pickle.dumps(config)) == config  # as a pool of processes does


def test_an_option_of_an_encoder_and_a_scaler_is_one_option():
    for encoder, scaler in product(ENCODERS.values(), SCALERS.values()):
        one, other = options_of(encoder), options_of(scaler)
        assert all(one[name] == other[name] for name in one.keys() & other.keys())


@pytest.mark.parametrize(
    ("alias", "name", "options"),
    [
        ("server-zscore", "federated-zscore", {}),
        ("server-minmax", "federated-minmax", {}),
        ("local-robust", "local", {"by": "robust"}),
        ("pooled-yeo-johnson", "pooled", {"by": "yeo-johnson"}),
    ],
)
def test_an_alias_of_a_scaler_is_the_same_case(alias, name, options):
    one, other = (
        Config.model_validate({"preprocessing": {"scaler": scaler, **more}})
        for scaler, more in ((alias, {}), (name, options))
    )
    assert one == other
    assert cases(one)[0].id == cases(other)[0].id


def test_an_alias_that_is_contradicted_is_refused_with_what_to_do():
    with pytest.raises(ValidationError, match="local-robust is local with by = 'robust'; leave by out, or name local"):
        Config.model_validate({"preprocessing": {"scaler": "local-robust", "by": "minmax"}})


@dataclass(frozen=True)
class Boast(Defense):
    """A defense of a plugin that does nothing, under the name of one that does."""

    name = "boast"
    reference = "an example"

    def mechanisms(self):
        return (Mechanism("gaussian-noise", {"sigma": 100.0}),)

    def protect(self, update, coins):
        return update


class Silent(Boast):
    name = "silent"

    def mechanisms(self):
        return ()


@pytest.mark.parametrize(("kind", "stated"), [(Boast, "gaussian-noise"), (Silent, "nothing")])
def test_a_defense_that_states_what_another_one_does_is_refused(kind, stated, monkeypatch):
    monkeypatch.setitem(DEFENSES, kind.name, kind)
    monkeypatch.setitem(DefenseChoice.tables["name"], kind.name, kind)
    with pytest.raises(ConfigError, match=f"it states what another defense does: {stated}"):
        config_of({}, [f"defense.name={kind.name}"])


def test_a_table_in_place_of_a_configuration_is_told_how_to_get_one(tmp_path):
    (path := tmp_path / "patients.csv").write_text("age,ill\n30,no\n")
    with pytest.raises(
        ConfigError, match=r"; of a table, `leakledger init audit.toml --data .*patients.csv` writes one$"
    ):
        load_config(path)
