"""One configuration file per published setting of TabLeak: each is valid, and says what it is there to say."""

from pathlib import Path

from leakledger.audit.case import cases
from leakledger.audit.config import Config
from leakledger.audit.config_file import load_config
from tests.every import every

FOLDER = Path(__file__).parents[2] / "examples" / "tableak"
PAPER = {"crossovers": 0, "finish": "constant", "members": "all"}
FREE = {"restarts": 1, "pooling": "none", "softmax": False, "sigmoid": False}
SETTINGS = {  # options of the attack that are not those of the published attack
    "full": {},
    "no-pooling": {"restarts": 1, "pooling": "none"},
    "no-softmax": {"softmax": False},
    "cosine": FREE,
    "dlg": {**FREE, "loss": "squared-error"},
    "random": {},
    "labels-recovered": {},
    "start-unit": {"initialisation": "unit-uniform"},
    **{f"temperature-{name}": {"temperature": name} for name in ("cool", "heat")},
    **{f"pooling-{p}": {"pooling": p} for p in ("mean", "mixed", "vote", "median-logits", "mean-logits")},
    **{f"network-{n}": {} for n in ("50", "100", "100-100", "200-200-200", "400-400-400")},
    "trained": {"restarts": 15},
    **{f"noise-{sigma}": {} for sigma in ("0.001", "0.01", "0.1")},
}
DEFAULTS = Config().attacks.options["tableak"]


def config(name):
    return load_config(FOLDER / f"{name}.toml", environment={})


def test_every_file_is_a_setting_and_every_setting_a_file():
    assert {p.stem for p in FOLDER.iterdir()} == set(SETTINGS)
    assert all(p.suffix == ".toml" for p in FOLDER.iterdir())


@every("name", SETTINGS)
def test_a_setting_is_valid_and_differs_from_the_published_attack_in_what_it_is_named_for(name):
    loaded = config(name)
    options = loaded.attacks.options.get("tableak", {})
    expected = SETTINGS[name] if name == "random" else {**PAPER, **SETTINGS[name]}
    assert {k: v for k, v in options.items() if v != DEFAULTS[k]} == expected
    assert cases(loaded)
    assert loaded.attacks.bounds == "known"
    assert [(p.options["columns"], p.options["ddof"]) for p in loaded.preprocessing] == [("all", 1)]
    assert loaded.audit.observers == ["server"]


@every("name", [n for n in SETTINGS if not n.startswith("network")])
def test_a_setting_attacks_the_papers_network_unless_it_is_about_another(name):
    assert config(name).model.hidden == (100, 100)


@every("name", [n for n in SETTINGS if n.startswith("network")])
def test_a_network_is_that_of_its_name(name):
    assert "-".join(map(str, config(name).model.hidden)) == name.removeprefix("network-")


@every("name", SETTINGS)
def test_a_fresh_network_is_attacked_unless_the_setting_is_about_training(name):
    loaded = config(name)
    rounds = 15 if name == "trained" else 1
    assert {t.options["rounds"] for t in loaded.training} == {rounds}
    assert loaded.attacks.rounds == list(range(rounds))


@every("name", SETTINGS)
def test_noise_labels_and_batch_sizes_are_as_published(name):
    loaded = config(name)
    sigma = float(name.removeprefix("noise-")) if name.startswith("noise") else None
    assert [d.options.get("sigma") for d in loaded.defense] == [sigma]
    recovered = ("recovered", "weights") if name == "labels-recovered" else ("known", "bias")
    assert (loaded.attacks.labels, loaded.attacks.label_recovery) == recovered
    sizes = [1, 2, 4, 8, 16, 32, 64, 128] if name == "full" else [32]
    assert [t.options["batch_size"] for t in loaded.training] == sizes


def test_the_random_baseline_is_the_published_one():
    attacks = config("random").attacks
    assert (attacks.use, attacks.options["random_baseline"]["per"]) == (["random_baseline"], "batch")
