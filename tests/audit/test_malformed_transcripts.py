"""`leakledger attack` on transcripts that a foreign party wrote: what is wrong with a message ends the attacks that
read it, in one line each, and no other attack.
"""

import json
import random
import re
import resource
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

import leakledger
from leakledger.audit.cli import main
from leakledger.audit.transcript_attack import UPDATES, attack_transcript, played_by_default
from leakledger.preprocess.aggregation import AGGREGATIONS
from leakledger.preprocess.messages import (
    KINDS,
    DhRequest,
    GlobalMeans,
    LocalDictionary,
    LocalLoss,
    LocalMeans,
    LocalRows,
    LocalSizes,
    LocalSquares,
)
from leakledger.preprocess.messages.base import Ciphertext
from leakledger.preprocess.public_check import check_public, check_senders
from leakledger.preprocess.transcript import write_transcript
from leakledger.preprocess.views import CategoricalBlock, ModelSpec, NumericBlock, PublicFacts, TrainingSpec
from leakledger.preprocess.wire import decode, encode
from tests.audit.malformed import TOPICS, disordered, recorded, wrong

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of numbers that are out of every range

SAMPLED = 5  # of what can be wrong with messages of one kind, where not everything is tried
FACTS = 40  # of what can be wrong with public facts
NUMBER, VALUES = NumericBlock("age", 0).to_plain(), CategoricalBlock("ward", 0, 2, ("a", "b")).to_plain()
MODEL = ModelSpec(3, 2, (4,)).to_plain()
MEMORY = 2**19  # KiB, of all that is tried
SLOW_ALONE = {"portfolio": ("linear_layer", "span")}  # attacks of a minute each, and those of its parts that are not


@pytest.fixture
def alone(monkeypatch):
    """Attacks without the controls on made-up federations, which look at nothing of a transcript and take minutes."""
    monkeypatch.setattr("leakledger.audit.transcript_attack.federation_controls", lambda attack, spec: ())


def check(tmp_path, ledger, public, topic, observers):
    """That all attacks are played, and those that read no message of the topic to their end."""
    path = tmp_path / "t.parquet"
    write_transcript(path, ledger, public)
    names = [n for name in played_by_default(public) for n in SLOW_ALONE.get(name, (name,))]
    found = attack_transcript(path, observers, names)
    assert [one.technique for one in found.played] == names
    for one in found.played:
        if one.failed:
            of_updates = any(map(one.attack.accepts, UPDATES)) and topic.partition(".")[0] in AGGREGATIONS
            assert one.attack.accepts(KINDS[topic]) or of_updates, one.failed
            assert one.technique in one.failed
            assert len(one.failed.splitlines()) == 1
    return found


def tried(tmp_path, topic, sampled=None):
    """Checks what can be wrong with messages of a topic, or a sample of it, by the server and by a client."""
    known = recorded()[topic]
    cases = [
        *(
            lambda plain=plain, every=every: known.with_content(topic, plain, every)
            for every in (False, True)
            for _, plain in wrong(known.content(topic))
        ),
        *(lambda messages=messages: known.with_messages(messages) for _, messages in disordered(known.messages, topic)),
    ]
    chosen = cases if sampled is None else random.Random(topic).sample(cases, min(sampled, len(cases)))
    for k, ledger in enumerate(chosen):
        for observers in ("server", "P1") if sampled is None else (("server", "P1")[k % 2],):
            check(tmp_path, ledger(), known.public, topic, observers)


def refusal(path):
    """Why a transcript is bad input, or "": then all attacks are played."""
    names = ["plaintext", "linear_layer", "statistics", "ring_size"]
    try:
        found = attack_transcript(path, names=names)
    except ValueError as error:
        return str(error)
    assert [one.technique for one in found.played] == names
    return ""


def recorder():
    """A client that tells its values, and others whose messages a test adds."""
    told = leakledger.Recorder(["P1", "P2"], training=TrainingSpec(patience=1))
    told.send(LocalDictionary({"ward": ["surgery", "heart"]}), "P1", "server")
    return told


def attacked(told, folder, *options):
    """Exit code, output and JSON of the command on what was recorded."""
    told.write(folder / "t.parquet")
    results = [
        CliRunner().invoke(main, ["attack", str(folder / "t.parquet"), *options, *more]) for more in ([], ["--json"])
    ]
    assert all(r.exception is None or isinstance(r.exception, SystemExit) for r in results)
    assert not any(r.stderr for r in results)
    return results[0].exit_code, " ".join(results[0].stdout.split()), json.loads(results[1].stdout)


def test_the_command_names_the_attack_and_the_message_plays_the_others_and_is_inconclusive(tmp_path):
    told = recorder()
    told.send(LocalRows(-1), "P2", "server")
    code, printed, found = attacked(told, tmp_path, "-a", "plaintext", "-a", "vocabulary")
    said = "the attack plaintext cannot read message 1 (quantiles.local-rows, from P2): count is less than 0"
    assert code == 11
    assert f"Inconclusive (server): {said}." in printed
    assert "No claim by plaintext" not in printed
    assert (
        "Not read by server: quantiles.local-rows (1 of it): an attack that reads this kind was not played" in printed
    )
    assert [(a["attack"], a["failed"], a["claims"]) for a in found["attacks"]] == [
        ("plaintext", True, 0),
        ("vocabulary", False, 1),
    ]
    assert found["attacks"][0]["reason"] == said
    assert {row["attack"] for row in found["claims"]} == {"vocabulary"}


def test_a_request_of_no_whole_number_of_elements_leaves_what_the_other_messages_tell_and_an_open_end(tmp_path):
    told = recorder()
    told.send(LocalSizes({"ward": 3}), "P2", "server")
    told.send(DhRequest(Ciphertext(bytes(31))), "P2", "server")
    code, printed, found = attacked(told, tmp_path, "-a", "ring_size")
    (ring,) = found["attacks"]
    assert (code, ring["failed"]) == (11, True)
    assert ring["claims"] > 0
    assert "(dh-psi.request) is not a list of group elements" in printed


def test_an_attack_that_passes_over_a_malformed_message_was_not_played_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr("leakledger.audit.transcript_attack.outcome_of", lambda attack, view, knowledge: [])
    told = recorder()
    told.send(LocalRows(-1), "P2", "server")
    code, printed, found = attacked(told, tmp_path, "-a", "plaintext", "-a", "vocabulary")
    assert code == 11
    assert "the attack plaintext cannot read message 1 (quantiles.local-rows, from P2)" in printed
    assert [(a["attack"], a["failed"]) for a in found["attacks"]] == [("plaintext", True), ("vocabulary", False)]


def test_the_command_ends_well_where_every_attack_is_played_to_its_end(tmp_path):
    code, printed, found = attacked(recorder(), tmp_path, "-a", "plaintext", "-a", "ring_size")
    assert code == 0
    assert "Inconclusive" not in printed
    assert not any(a["failed"] for a in found["attacks"])


def test_no_memory_is_taken_for_numbers_of_rows_that_a_message_makes_up(tmp_path):
    for rows in (2**33, 2**40):
        told = recorder()
        told.send(LocalLoss(1.0, rows), "P2", "server")
        code, printed, _ = attacked(told, tmp_path, "-a", "plaintext", "--reveal")
        assert code == 0
        assert f"{10 * rows:.6g}" in printed
    told = recorder()
    told.send(LocalLoss(1.0, 2**60), "P2", "server")
    code, printed, _ = attacked(told, tmp_path, "-a", "plaintext")
    assert code == 11
    assert "cannot read message 1 (train.validation, from P2): rows is more than 2^53" in printed


def test_sizes_that_no_feature_has_are_named_and_no_law_of_them_is_made(tmp_path):
    told = recorder()
    told.send(LocalSizes({"ward": 2**33}), "P2", "server")
    code, printed, found = attacked(told, tmp_path, "-a", "ring_size")
    assert code == 11
    said = "the attack ring_size cannot use what was sent: more than 4,194,304 values of ward are stated"
    assert f"Inconclusive (server): {said}, which no feature has." in printed
    assert found["attacks"][0]["failed"]


def test_messages_of_one_method_that_are_about_other_numbers_of_columns_are_named(tmp_path):
    told = recorder()
    for party, columns in (("P1", 3), ("P2", 4)):
        told.send(LocalMeans(9, np.zeros(columns)), party, "server")
        told.send(LocalSquares(np.ones(columns)), party, "server")
    told.send(GlobalMeans(np.zeros(3)), "server", "P1")
    code, printed, _ = attacked(told, tmp_path, "-a", "plaintext")
    assert code == 11
    assert "(zscore.mean, from P2): it has 4 columns, and message 1 (zscore.mean, from P1) 3" in printed


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("topic", ["train.gradient", "train.weights", "dictionary.local"])
def test_public_facts_that_are_wrong_are_named_or_end_no_attack_but_what_they_are_about(topic, tmp_path):
    known = recorded()[topic]
    cases = list(wrong(decode(encode(known.public.to_plain()))))
    path, before = tmp_path / "t.parquet", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for what, plain in random.Random(topic).sample(cases, FACTS):
        facts = SimpleNamespace(to_plain=lambda plain=plain: plain)
        write_transcript(path, known.with_messages(known.messages), facts)
        refused = refusal(path)
        assert not refused or refused.startswith(str(path)), what
        assert len(refused.splitlines()) <= 1, what
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MEMORY


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"server": "P1"}, "need names of their own"),
        ({"clients": ["P1"]}, "message 0 (dictionary.local, from P1): 'server' is none of the parties P1, broker"),
        ({"layout": [NUMBER | {"scale": 0.0}]}, "layout: age: scale is not above 0"),
        ({"layout": [NUMBER | {"shift": float("nan")}]}, "layout: age: shift is not finite"),
        ({"layout": [NUMBER | {"low": 9.0, "high": 3.0}]}, "layout: age: low is above high"),
        ({"layout": [NUMBER | {"start": -1}]}, "layout: age: start is less than 0"),
        ({"layout": [NUMBER | {"integer": 1}]}, "layout: age: integer is int, not bool"),
        ({"layout": [VALUES | {"size": 2**40, "values": None}]}, "layout: ward: size is more than 2147483647"),
        ({"layout": [VALUES | {"scale": [1.0]}]}, "layout: ward: scale has 1 number for 2 columns"),
        ({"layout": [VALUES], "model": MODEL}, "layout has 2 columns, the model 3 inputs"),
        ({"model": MODEL | {"dropout": 1.0}}, "model: dropout is 1.0; from 0 to below 1 are needed"),
        ({"model": MODEL | {"hidden": ["4"]}}, "model: hidden is str, not int"),
        ({"model": MODEL | {"inputs": 2**200}}, "model: inputs is more than 2147483647"),
        ({"training": TrainingSpec().to_plain() | {"rounds": 0}}, "rounds is 0; it must be at least 1"),
        ({"training": TrainingSpec().to_plain() | {"algorithm": "x"}}, 'training: algorithm is none of "fedsgd"'),
        ({"scaler": {"name": 7, "options": {}}}, "a method: name is int, not str"),
    ],
)
def test_public_facts_that_cannot_be_are_bad_input(change, said, tmp_path):
    told = recorder()
    stated = told.public.to_plain() | ({"server": "broker"} if "clients" in change else {}) | change
    facts = SimpleNamespace(to_plain=lambda: stated)
    write_transcript(tmp_path / "t.parquet", told.ledger, facts)
    result = CliRunner().invoke(main, ["attack", str(tmp_path / "t.parquet")])
    printed = " ".join(result.stderr.split())
    assert result.exit_code == 2, printed
    assert "what is public in it cannot be: " in printed
    assert said in printed


@pytest.mark.parametrize("topic", TOPICS)
def test_public_facts_of_our_own_transcripts_can_be(topic):
    known = recorded()[topic]
    public = PublicFacts.from_plain(decode(encode(known.public.to_plain())))
    check_public(public)
    check_senders(known.messages, public)


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("topic", ["train.gradient", "train.weights", "train.model"])
def test_one_update_of_another_model_than_is_stated_leaves_its_attacks_inconclusive(topic, tmp_path):
    known = recorded()[topic]
    plain = known.content(topic)
    tensors = plain["gradient" if topic == "train.gradient" else "weights"]
    tensors["0.weight"] = tensors["0.weight"][:, :-1]
    found = check(tmp_path, known.with_content(topic, plain, every=False), known.public, topic, "server")
    said = [one.failed for one in found.played if one.technique in ("linear_layer", "span")]
    assert len(said) == 2
    assert all(re.search(rf"cannot read message \d+ \({topic}, from \w+\): .*0\.weight", one) for one in said), said


def test_an_error_of_an_attack_that_no_message_explains_says_which_message_it_was_at(tmp_path, monkeypatch):
    monkeypatch.setattr("leakledger.attacks.transcript.vocabulary.Vocabulary.run", fails)
    code, printed, found = attacked(recorder(), tmp_path, "-a", "vocabulary", "-a", "plaintext")
    assert code == 11
    assert "the attack vocabulary raised KeyError at message 0 (dictionary.local, from P1) in" in printed
    assert "age=42" not in printed
    assert [a["claims"] for a in found["attacks"]] == [0, 2]


def fails(self, view, knowledge):
    message = view.messages[0]
    raise KeyError(f"age=42 in {message.payload}")


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("name", ["plaintext", "feature_exchange"])
def test_an_error_in_a_control_of_our_own_stays_one_of_the_command(name, tmp_path, monkeypatch):
    known = recorded()["flfe.sketch" if name == "feature_exchange" else "dictionary.local"]
    write_transcript(tmp_path / "t.parquet", known.with_messages(known.messages), known.public)
    controls = "federation_controls" if name == "feature_exchange" else "field_controls"
    monkeypatch.setattr(f"leakledger.audit.transcript_attack.{controls}", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        attack_transcript(tmp_path / "t.parquet", names=[name])


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    ("topic", "change"),
    [
        ("train.model", lambda told: {"weights": {}}),
        ("train.model", lambda told: {"weights": {n: w[None] for n, w in told["weights"].items()}}),
        ("train.gradient", lambda told: told | {"rows": -1}),
        ("train.weights", lambda told: told | {"rows": 2**40}),
    ],
)
def test_a_model_or_update_that_no_rows_can_be_planted_in_ends_no_other_attack(topic, change, tmp_path):
    known = recorded()[topic]
    ledger = known.with_content(topic, change(known.content(topic)), every=False)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    check(tmp_path, ledger, known.public, topic, "server")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MEMORY


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("topic", TOPICS)
def test_a_malformed_message_ends_no_attack_but_those_that_read_its_kind(topic, tmp_path):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tried(tmp_path, topic, SAMPLED)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MEMORY


@pytest.mark.soak
@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("topic", TOPICS)
def test_nothing_that_is_wrong_with_a_message_ends_other_attacks(topic, tmp_path):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tried(tmp_path, topic)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MEMORY
