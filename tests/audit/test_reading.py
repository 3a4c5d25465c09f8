"""What nobody read forbids the verdict that no leak was found; what is new is read by what it discloses."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from leakledger.attacks import ATTACKS
from leakledger.attacks.base import (
    Abstained,
    Attack,
    AuxiliaryKnowledge,
    ControlSpec,
    FindingClaim,
    StatisticClaim,
    VocabularyClaim,
)
from leakledger.attacks.transcript.holdings import positions, sources
from leakledger.attacks.transcript.plaintext import Plaintext
from leakledger.attacks.transcript.vocabulary import Vocabulary
from leakledger.audit import federation_controls as federation_module
from leakledger.audit.case import cases
from leakledger.audit.control_federations import frozen, played, run_methods
from leakledger.audit.federate import federate
from leakledger.audit.federation_controls import federation_controls
from leakledger.audit.field_controls import field_controls
from leakledger.audit.hiding import Trace, hides, is_hidden, tells_apart
from leakledger.audit.reading import Ran, unread
from leakledger.audit.records import Control
from leakledger.audit.run import hiding_of, run_audit
from leakledger.preprocess.encoders import ENCODERS
from leakledger.preprocess.encoders.local import Local
from leakledger.preprocess.messages import (
    About,
    Ciphertext,
    ClientGradient,
    Disclosure,
    EncryptedSum,
    EncryptedUpdate,
    GlobalMeans,
    GlobalModel,
    LocalMeans,
    LocalSquares,
    MaskedUpdate,
    PaddedSizes,
    Payload,
    Share,
)
from leakledger.preprocess.scalers import SCALERS
from leakledger.preprocess.scalers.local import Local as LocalScaler
from leakledger.preprocess.scalers.pooled import Pooled
from leakledger.preprocess.secret import PUBLIC_MASTER
from leakledger.preprocess.views import Method
from tests.audit.example import SMALL, config


@dataclass(frozen=True)
class ToyCounts(Payload):
    """Feature -> value -> how many of the sender's rows hold it."""

    topic = "toy.counts"
    discloses = Disclosure.AGGREGATE
    about = About.SENDER
    bare = True

    counts: dict[str, dict[str, int]] = field(repr=False)


@dataclass(frozen=True)
class ToyHint(Payload):
    """The same, by a kind of message that says it is only about how the protocol goes on."""

    topic = "toy.hint"
    discloses = Disclosure.CONTROL
    about = About.NOBODY
    bare = True

    counts: dict[str, dict[str, int]] = field(repr=False)


@dataclass(frozen=True)
class ToyShare(Payload):
    """The same again, in the type that is made for what hides."""

    topic = "toy.share"
    discloses = Disclosure.SHARE
    about = About.SENDER
    bare = True

    counts: Share = field(repr=False)


@dataclass(frozen=True)
class ToyStep(Payload):
    """How many rows the sender has, by a kind of message that says it is only about how the protocol goes on."""

    topic = "toy.step"
    discloses = Disclosure.CONTROL
    about = About.NOBODY

    rows: int


@dataclass(frozen=True)
class ToyOutcome(Payload):
    """The same, by a kind of message that says it is about all clients together."""

    topic = "toy.outcome"
    discloses = Disclosure.AGGREGATE
    about = About.EVERYONE

    counts: dict[str, dict[str, int]] = field(repr=False)


@dataclass(frozen=True)
class ToyNumbers(Payload):
    """A raw column, without a word on which feature it is."""

    topic = "toy.numbers"
    discloses = Disclosure.AGGREGATE
    about = About.SENDER

    numbers: list[float] = field(repr=False)


def in_numbers(table) -> ToyNumbers:
    return ToyNumbers(table.numbers()[:, 0].tolist())


def counted(table):
    counts = {f: table.frame[f].astype(str).value_counts().sort_index() for f in table.schema.categorical}
    return {f: {v: int(n) for v, n in of.items()} for f, of in counts.items()}


def in_counts(table) -> ToyCounts:
    return ToyCounts(counted(table))


def in_a_hint(table) -> ToyHint:
    return ToyHint(counted(table))


def in_a_share(table) -> ToyShare:
    return ToyShare(Share(counted(table)))


def in_a_step(table) -> ToyStep:
    return ToyStep(len(table))


def values_in_a_step(table) -> ToyStep:
    return ToyStep(table.frame[table.schema.categorical[0]].nunique())


def rows_in_a_share(table) -> ToyShare:
    return ToyShare(Share(len(table)))


@dataclass(frozen=True)
class Toy(Local):
    """`local`, and every client's value counts, sent to the server in the clear."""

    name = "toy"

    def fit(self, fed, schema, tables):
        fed.gather({c: fed.local(c, TOLD[self.name], t) for c, t in tables.items()}, to=fed.server)
        return super().fit(fed, schema, tables)


@dataclass(frozen=True)
class Hinting(Toy):
    name = "hinting"


@dataclass(frozen=True)
class Sharing(Toy):
    name = "sharing"


@dataclass(frozen=True)
class Numbering(Toy):
    name = "numbering"


@dataclass(frozen=True)
class Stepping(Toy):
    name = "stepping"


@dataclass(frozen=True)
class CountingValues(Toy):
    name = "counting-values"


@dataclass(frozen=True)
class SharingRows(Toy):
    name = "sharing-rows"


TOLD = {"toy": in_counts, "hinting": in_a_hint, "sharing": in_a_share, "numbering": in_numbers}
TOLD |= {"stepping": in_a_step, "counting-values": values_in_a_step, "sharing-rows": rows_in_a_share}


@pytest.fixture
def registered(monkeypatch):
    for kind in (Toy, Hinting, Sharing, Numbering, Stepping, CountingValues, SharingRows):
        monkeypatch.setitem(ENCODERS, kind.name, kind)


def audited(folder, encoder):
    given = {
        "preprocessing": {"encoder": "local", "scaler": "local"},
        "attacks": {"use": ["plaintext", "sac_audit"]},
        "audit": {"seeds": [0], "jobs": 1, "observers": ["server"]},
    }
    settings = config(**given)
    chosen = settings.preprocessing[0].model_copy(update={"encoder": encoder})
    return run_audit(settings.model_copy(update={"preprocessing": [chosen]}), folder, master=PUBLIC_MASTER)


def test_value_counts_on_a_topic_that_no_attack_knows_are_called_leaking(registered, tmp_path):
    record = audited(tmp_path / "run", "toy")
    assert record.verdict.status == "leaks"
    exact = [s for s in record.scores if s.attack == "plaintext" and s.asset == "vocabulary" and s.metric == "f1"]
    assert [s.value for s in exact] == [1.0]
    assert not any(u.topic == "toy.counts" for c in record.cases for u in c.unread)


@pytest.mark.parametrize(("encoder", "topic"), [("hinting", "toy.hint"), ("sharing", "toy.share")])
def test_what_says_that_it_hides_and_does_not_is_listed_with_what_gives_it_away(registered, tmp_path, encoder, topic):
    (case,) = audited(tmp_path / "run", encoder).cases
    (found,) = (u for u in case.unread if u.topic == topic)
    assert "depends on values" in found.reason or "depend on values" in found.reason


@pytest.mark.parametrize("encoder", ["stepping", "counting-values", "sharing-rows"])
def test_how_much_a_party_holds_is_not_hidden_by_a_message_that_states_it(registered, encoder):
    """Two worlds in which every party holds as many rows and values as in the other cannot tell."""
    (told,) = hides(encoder, (), "local", ()).values()
    assert told == "it depends on values and not on coins"


def test_numbers_that_are_read_out_but_not_understood_are_not_called_read(registered, tmp_path):
    record = audited(tmp_path / "run", "numbering")
    assert ("plaintext", "stated") in {(f.attack, f.check) for f in record.cases[0].findings}
    (found,) = (u for u in record.cases[0].unread if u.topic == "toy.numbers")
    assert found.reason == "it is read out by what it discloses, and no claim that can be scored follows from it"
    assert record.verdict.status != "no leak"


@pytest.mark.parametrize("name", ["zscore-sac", "federated-zscore"])
def test_shares_over_a_ring_and_sealed_messages_hide_and_proportional_parts_do_not_claim_to(name):
    options = (("route", "relay"), ("sharing", "ring")) if name == "zscore-sac" else ()
    found = hides("target", (), name, options)
    assert set(found.values()) <= {""}
    assert bool(found) == (name == "zscore-sac")
    sealed = hides("target", (), "zscore-sac", (("route", "sealed"), ("sharing", "proportional")))
    assert set(sealed.values()) == {""}
    assert "zscore-sac.mean.part" in sealed


@pytest.mark.parametrize("encoder", ["dh-psi", "otmp-psi"])
def test_what_intersections_send_hides_what_it_is_about(encoder):
    found = hides(encoder, (), "local", ())
    assert found
    assert set(found.values()) == {""}


def test_lengths_of_sealed_messages_may_tell_a_relay_how_many_values_are_shared():
    """Who holds what is sealed, and a list has a length for each value that two parties share."""
    sealed = (("psi_route", "sealed"), ("ring_route", "sealed"))
    found = hides("otmp-psi", sealed, "local", ())
    assert {topic for topic, why in found.items() if why} == {"otmp.matches", "otmp.positions", "otmp.numbers"}
    assert set(hides("otmp-psi", (("sealed_bytes", 20_000), *sealed), "local", ()).values()) == {""}
    assert set(hides("dh-psi", sealed, "local", ()).values()) == {""}


@pytest.mark.parametrize(
    ("preprocessing", "training", "unchecked"),
    [
        (
            {"encoder": "bytes-norm", "scaler": "local", "passes": 1, "route": "sealed"},
            {"rounds": 1, "batch_size": 4, "aggregation": "he-aggregation"},
            "bytes-norm.moments.part",
        ),
        (
            {"encoder": "local", "scaler": "local"},
            {"rounds": 1, "batch_size": 1, "aggregation": "secure-aggregation", "ring_bits": 32, "fraction_bits": 25},
            "secure-aggregation.masked",
        ),
    ],
)
def test_a_method_that_refuses_what_the_check_makes_up_ends_no_case_and_its_messages_count_as_unread(
    tmp_path, preprocessing, training, unchecked
):
    """All values of one made-up feature begin alike, and made-up updates are larger than those of one row."""
    settings = config(
        data={"source": "breast_cancer", "rows": 90} if preprocessing["encoder"] == "local" else {"rows": 90},
        preprocessing=[preprocessing],
        training=training,
        attacks={"use": ["plaintext"]},
        audit={"seeds": [0], "jobs": 1, "observers": ["server"]},
    )
    (case,) = run_audit(settings, tmp_path / "run", master=PUBLIC_MASTER).cases
    why = {u.topic: u.reason for u in case.unread}
    assert "was not checked, since made-up values were refused: " in why[unchecked]
    assert all("not checked" not in why.get(t, "") for t in ("he-aggregation.update", "train.model"))


@dataclass(frozen=True)
class Masquerading(Local):
    """`local`, and of these tables, not of made-up ones, every client's numbers under the name of a masked update."""

    name = "masquerading"

    def fit(self, fed, schema, tables):
        if "rate_marriage" in schema.categorical:
            fed.gather({c: fed.local(c, as_if_masked, t) for c, t in tables.items()}, to=fed.server)
        return super().fit(fed, schema, tables)


@dataclass(frozen=True)
class MasqueradingScaler(LocalScaler):
    """The same in a step of its own, the last one before training."""

    name = "masquerading"

    def fit(self, fed, columns):
        fitted = super().fit(fed, columns)
        if len(columns) == SMALL["partition"]["parties"]:
            with fed.scope("search"):
                fed.gather({c: fed.local(c, as_if_masked, x) for c, x in columns.items()}, to=fed.server)
        return fitted


def as_if_masked(held) -> MaskedUpdate:
    numbers = held if isinstance(held, np.ndarray) else held.numbers()
    return MaskedUpdate(Ciphertext(numbers.astype("<f8").tobytes()))


@pytest.mark.parametrize(("role", "table"), [("encoder", ENCODERS), ("scaler", SCALERS)])
def test_that_an_aggregation_hides_vouches_for_nothing_that_another_method_sends_on_its_topic(monkeypatch, role, table):
    """Every number of everyone lay open before the server, and no kind was unread."""
    kind = {"encoder": Masquerading, "scaler": MasqueradingScaler}[role]
    monkeypatch.setitem(table, kind.name, kind)
    settings = config(
        data={"rows": 90},
        preprocessing=[{"encoder": "local", "scaler": "local"}],
        training={"rounds": 1, "aggregation": "secure-aggregation"},
        attacks={"use": ["plaintext"]},
        audit={"observers": ["server"]},
    )
    left = {}
    for name in ("local", kind.name):
        chosen = settings.preprocessing[0].model_copy(update={role: name})
        (case,) = cases(settings.model_copy(update={"preprocessing": [chosen]}))
        ledger, public = (found := federate(settings, case, PUBLIC_MASTER)).ledger, found.public
        view, hiding = ledger.view(["server"], public), hiding_of(case, ledger)
        left[name] = {u.topic for u in unread(view, ledger, [Ran(Plaintext(), True)], [], hiding)}
    assert left[kind.name] - left["local"] == {MaskedUpdate.topic}


def told_apart(worlds):
    return tells_apart([[[Trace.of(body) for body in run] for run in world] for world in worlds])


def test_two_worlds_are_told_apart_by_number_size_constancy_and_bytes():
    coins = np.random.default_rng(0)
    fair = [[[coins.bytes(4_000)] for _ in range(3)] for _ in range(2)]
    assert told_apart(fair) == ""
    assert told_apart([[[b"a"]], [[b"a"], [b"b", b"c"]]]) == "how many messages there are depends on values"
    assert told_apart([[[b"a"], [b"b"]], [[b"aa"], [b"bb"]]]) == "its size depends on values"
    assert told_apart([[[b"a"], [b"a"]], [[b"b"], [b"b"]]]) == "it depends on values and not on coins"
    biased = [fair[0], [[bytes(x & 0x7F for x in coins.bytes(4_000))] for _ in range(3)]]
    assert told_apart(biased) == "the frequencies of its bytes depend on values"
    assert told_apart([[[b"same"]] * 3] * 2) == ""


@pytest.mark.parametrize("after", [0, 8, 4_000])
def test_a_secret_beside_a_fresh_nonce_is_found(after):
    coins = np.random.default_rng(0)
    secrets = (1234).to_bytes(8, "little"), (987654321).to_bytes(8, "little")
    beside = [[[coins.bytes(16) + s + coins.bytes(after)] for _ in range(10)] for s in secrets]
    assert told_apart(beside) == "some of its bytes depend on values and not on coins"
    last = [[[coins.bytes(4_000) + s] for _ in range(10)] for s in secrets]
    assert told_apart(last) == "some of its bytes depend on values and not on coins"
    alike = [[[coins.bytes(16) + secrets[0] + coins.bytes(after)] for _ in range(10)] for _ in secrets]
    assert told_apart(alike) == ""


def seen(encoder, *observers, scaler="local", **options):
    """A view of a made-up federation, its ledger, and what hides there."""
    made = run_methods(encoder, frozen(options), scaler, frozen({}), 1)
    view = made.fed.ledger.view(observers, made.public, inputs=made.inputs, coins=made.fed.party_secrets())
    return view, made.fed.ledger, {m.topic: "" for m in made.fed.ledger if is_hidden(m)}


@pytest.mark.parametrize("who", ["server", "P2"])
def test_a_sealed_message_hides_from_who_passes_it_on_and_not_from_its_recipient(who):
    view, ledger, hiding = seen("otmp-psi", who, psi_route="sealed", ring_route="sealed")
    assert any(m.sealed for m in view.messages)
    topics = {u.topic for u in unread(view, ledger, [], [], hiding)}
    assert ("otmp.positions" in topics) == (who == "P2")
    assert not topics & {"otmp.request", "otmp.answer", "otmp.shares"}  # ciphertexts and shares, whoever has them


def test_who_has_the_key_of_a_ciphertext_has_to_be_attacked():
    view, ledger, hiding = seen("dh-psi", "P2")
    assert "dh-psi.answer" in {u.topic for u in unread(view, ledger, [], [], hiding)}
    vocabulary = ATTACKS["vocabulary"]()
    read = Control("vocabulary", "leaky", 1.0, 0.0, 1.0, True, "-", kinds=("dh-psi.answer",))
    assert "dh-psi.answer" not in {u.topic for u in unread(view, ledger, [Ran(vocabulary, True)], [read], hiding)}
    assert "dh-psi.answer" not in {u.topic for u in unread(*seen("dh-psi", "server")[:2], [], [], hiding)}


def test_what_was_worked_out_of_a_ciphertext_is_read_in_its_place():
    """Every client has the key of `he-aggregation`: it hides from the server alone."""
    made = run_methods("target", frozen({}), "local", frozen({}), 1)
    fed = made.fed
    with fed.scope("train", 0):
        for i, client in enumerate(fed.clients):
            fed.send(fed.at(client, EncryptedUpdate(Ciphertext(bytes([i])))), to=fed.server, kind=EncryptedUpdate)
    span = Ran(ATTACKS["span"](), True)
    shown = Control("span", "leaky", 1.0, 0.0, 1.0, True, "-", kinds=("train.gradient",))
    topic = EncryptedUpdate.topic
    for observers, left in ((("server",), False), (("server", "P1"), True)):
        view = fed.ledger.view(observers, made.public)
        assert (topic in {u.topic for u in unread(view, made.fed.ledger, [span], [shown], {topic: ""})}) == left
    told = [m for m in view.messages if m.topic == topic and m.sender != "P1"]
    worked_out = [m.carrying(ClientGradient(1, {})) for m in told]
    whole = replace(view, messages=(*view.messages, *worked_out))
    assert topic not in {u.topic for u in unread(whole, made.fed.ledger, [span], [shown], {topic: ""})}
    part = replace(view, messages=(*view.messages, *worked_out[1:]))
    assert topic in {u.topic for u in unread(part, made.fed.ledger, [span], [shown], {topic: ""})}


def test_all_shares_of_a_sum_hide_it_from_nobody():
    view, ledger, hiding = seen("bytes-norm", "P2", sharing="ring")
    topics = {u.topic for u in unread(view, ledger, [], [], hiding)}
    assert "bytes-norm.mean.share-partial" in topics
    assert "bytes-norm.mean.share" not in topics


@pytest.mark.parametrize("encoder", ["bytes-norm", "mod-norm"])
def test_sums_of_codes_are_not_read_by_who_takes_only_the_rows_beside_them(encoder):
    """Parts in proportion, passed on openly, add up to every party's codes; counts and sizes alone are claimed."""
    view, ledger, hiding = seen(encoder, "server", sharing="proportional")
    statistics = ATTACKS["statistics"]()
    specs = [s for s in statistics.controls if s.scaler == "zscore-sac" or s.encoder == "mod-norm"]
    played = [c for s in specs for c in federation_controls(statistics, s)]
    checks = Control("sac_audit", "leaky", 1.0, 0.0, 1.0, True, "-", kinds=("zscore-sac.mean.part",))
    ran = [Ran(statistics, True), Ran(ATTACKS["sac_audit"](), True)]
    told = {u.topic for u in unread(view, ledger, ran, [*played, checks], hiding)}
    assert {f"{encoder}.{stage}.part" for stage in ("mean", "variance")} <= told
    assert f"{encoder}.unique.part" not in told


def test_a_control_proves_the_kinds_that_its_claims_rest_on_and_no_others():
    statistics = ATTACKS["statistics"]()
    spec = ControlSpec("mean", scaler="federated-zscore")
    leaky = next(c for c in federation_controls(statistics, spec) if c.kind == "leaky")
    assert leaky.passed
    assert "zscore.mean" in leaky.kinds
    assert not any(k.startswith("evaluate") for k in leaky.kinds)
    membership = ATTACKS["membership"]()
    asked = next(s for s in membership.controls if s.encoder == "dh-psi" and s.encoder_options)
    leaky = next(c for c in federation_controls(membership, asked) if c.kind == "leaky")
    assert "dh-psi.answer" in leaky.kinds
    assert "ids.unused-all" not in leaky.kinds  # shown, and of no use to it


@pytest.mark.parametrize("attack", ["vocabulary", "membership"])
def test_a_control_shows_the_matches_of_an_intersection_and_fails_where_they_are_not_read(attack, monkeypatch):
    """The observer sends its shares and gets none: what it learns are the matches that it is told."""
    played = ATTACKS[attack]()
    spec = next(s for s in played.controls if s.encoder == "otmp-psi" and "ring" in s.encoder_options)
    found = federation_controls(played, spec)
    assert [c.kind for c in found if c.passed] == ["leaky", "null", "shuffled"]
    assert "otmp.matches" in found[0].kinds
    assert "otmp.shares" not in found[0].kinds
    monkeypatch.setattr(positions, "_matched", lambda *_: ())
    monkeypatch.setattr(federation_module, "_PLAYED", {})
    monkeypatch.setattr(sources, "_LATEST", [])
    assert not federation_controls(played, spec)[0].passed


class Citing(Vocabulary):
    """Cites whatever it is handed."""

    reads = (Payload,)

    def run(self, view, knowledge):
        everything = tuple(m.sequence for m in view.messages)
        return [replace(c, evidence=everything) for c in super().run(view, knowledge)]


class Waiting(Citing):
    """Says nothing, or fails, unless it is handed everything."""

    def run(self, view, knowledge):
        if not list(view.received(LocalMeans)):
            return Abstained("means are missing")
        next(iter(view.received(LocalSquares)))
        return super().run(view, knowledge)


@pytest.mark.parametrize("attack", [Citing, Waiting])
def test_what_the_attack_of_a_plugin_only_cites_or_waits_for_it_has_not_read(attack):
    spec = ControlSpec("vocabulary", encoder="server-dictionary", scaler="federated-zscore")
    leaky = next(c for c in federation_controls(attack(), spec) if c.kind == "leaky")
    assert leaky.passed
    assert leaky.kinds == ("dictionary.local",)  # and not the statistics of numbers beside it


def test_what_everyone_is_told_is_read_out_unless_it_leaves_one_client():
    plaintext = Ran(ATTACKS["plaintext"](), True)
    for observers, left in ((("P1", "P2"), False), (("P1", "P2", "P3"), True)):
        view, ledger, hiding = seen("server-dictionary", *observers)
        assert ("dictionary.global" in {u.topic for u in unread(view, ledger, [plaintext], [], hiding)}) == left
        assert "dictionary.global" in {u.topic for u in unread(view, ledger, [], [], hiding)}  # nobody read it out
    vocabulary = Ran(ATTACKS["vocabulary"](), True)
    view, ledger, hiding = seen("dh-psi", "P2", unused="drop")
    topics = {u.topic for u in unread(view, ledger, [plaintext, vocabulary], [], hiding)}
    assert "ids.unused-all" in topics  # numbers beside others
    assert "ring.maximum" not in topics


@pytest.mark.parametrize(("observer", "topic"), [("server", "ids.unused"), ("P2", "ids.unused-all")])
def test_numbers_that_nobody_uses_stay_unread_whoever_reads_them(observer, topic):
    """They tell how many values each party shares with those before it, which is behind no claim."""
    view, ledger, hiding = seen("dh-psi", observer, unused="drop")
    ran = [Ran(ATTACKS[a](), True) for a in ("plaintext", "ring_size", "vocabulary", "membership")]
    specs = [(r.attack, s) for r in ran for s in r.attack.controls if s.encoder == "dh-psi"]
    played = [c for attack, s in specs for c in federation_controls(attack, s)]
    assert topic in {u.topic for u in unread(view, ledger, ran, played, hiding)}
    shown = Control("ring_size", "leaky", 1.0, 0.0, 1.0, True, "-", kinds=("ids.unused",))
    told = {u.topic: u.reason for u in unread(view, ledger, ran, [*played, shown], hiding)}
    assert topic in told
    if observer == "server":
        assert told[topic] == "it is read in part: it tells more of rows than is claimed"


def test_counts_that_the_server_alone_decrypts_are_unread_by_all_but_one_client_with_it():
    pytest.importorskip("tenseal")
    options = frozen({"counts_to": "server", "search_from": "declared", "search_precision": 0.2})
    made = run_methods("target", frozen({}), "ppf-robust", options, 1)
    hiding = {m.topic: "" for m in made.fed.ledger if is_hidden(m)}
    for observers, left in ((("server",), False), (("P1", "P2", "P3"), False), (("server", "P1", "P2", "P3"), True)):
        view = made.fed.ledger.view(observers, made.public, inputs=made.inputs)
        topics = {u.topic for u in unread(view, made.fed.ledger, [], [], hiding)}
        assert ("threshold-ckks.private-decryption-share" in topics) == left
        assert "threshold-ckks.decryption-share" not in topics


class Everything(Attack):
    """Says that it reads everything, and has never been shown a thing."""

    technique, reference, asset, assumes = "everything", "-", ("statistics",), "-"
    reads = (Payload,)
    controls = (ControlSpec("mean", scaler="federated-zscore"),)

    def run(self, view, knowledge):
        return [StatisticClaim("P1", "", "count", 1, 1, 1)]


def test_an_attack_reads_only_kinds_that_a_passed_control_has_shown_it(server_view):
    passed = Control("everything", "leaky", 1.0, 0.0, 1.0, True, "-", kinds=("minmax.local",))
    ran = [Ran(Everything(), True)]
    topics = {u.topic for u in unread(server_view, server_view.messages, ran, [passed], {})}
    assert "minmax.local" not in topics
    assert {"dictionary.local", "evaluate.counts", "train.gradient"} <= topics
    failed = replace(passed, passed=False)
    assert "minmax.local" in {u.topic for u in unread(server_view, server_view.messages, ran, [failed], {})}
    null = replace(passed, kind="null")
    assert "minmax.local" in {u.topic for u in unread(server_view, server_view.messages, ran, [null], {})}
    assert "minmax.local" in {
        u.topic for u in unread(server_view, server_view.messages, [Ran(Everything(), False)], [passed], {})
    }


@pytest.mark.parametrize("training", [{}, {"patience": 2}, {"algorithm": "fedavg", "patience": 2}])
def test_of_what_training_and_evaluation_tell_the_server_losses_over_validation_rows_alone_stay_unread(
    tmp_path, training
):
    settings = config(
        preprocessing={"encoder": "local", "scaler": "local"},
        training={"rounds": 2, "batch_size": 4, "learning_rate": 0.05, **training},
        attacks={"use": ["plaintext", "span"]},
        audit={"observers": ["server"]},
    )
    record = run_audit(settings, tmp_path / "run", master=PUBLIC_MASTER)
    (case,) = record.cases
    left = {u.topic: u.reason for u in case.unread}
    partly = ["train.validation"] if "patience" in training else []
    partly += ["train.weights"] if "algorithm" in training else []  # of which their number of rows alone is read
    assert left == dict.fromkeys(partly, "it is read in part: it tells more of rows than is claimed")
    assert not any("evaluate" in f.text or "train.validation" in f.text for f in case.findings)
    ruled = {r.asset: r for r in record.rulings}
    assert ruled["held_out_rate"].verdict == ruled["held_out_count"].verdict == "leaks"
    said = {text for r in record.rulings for text in r.missing if "unread" in text}
    kinds = "1 kind" if len(partly) == 1 else f"{len(partly)} kinds"
    assert said == ({f"{kinds} of message unread: {', '.join(sorted(partly))}"} if left else set())


def test_a_mean_of_losses_that_clients_are_told_is_no_more_read_than_the_losses_behind_it():
    """It was, as what everyone is told: under the models of all rounds it is an equation in a few rows of others."""
    settings = config(training={"rounds": 2, "batch_size": 4, "patience": 2})
    federated = federate(settings, cases(settings)[0], PUBLIC_MASTER)
    view = federated.ledger.view(["P1"], federated.public)
    found = {u.topic: u.reason for u in unread(view, federated.ledger, [Ran(Plaintext(), True)], [], {})}
    assert found["train.validation-loss"] == "no attack that reads this kind has passed a control with it"
    shown = Control("plaintext", "leaky", 1.0, 0.0, 1.0, True, "-", kinds=("train.validation-loss",))
    found = {u.topic: u.reason for u in unread(view, federated.ledger, [Ran(Plaintext(), True)], [shown], {})}
    assert found["train.validation-loss"].endswith("no claim that can be scored follows from it")
    assert "minmax.global" in {m.topic for m in view.messages} - found.keys()  # which everyone is told, too


def test_nothing_is_read_where_no_attack_was_played(server_view):
    found = list(unread(server_view, server_view.messages, [], [], {}))
    assert {u.topic for u in found} == {m.topic for m in server_view.messages if m.sender != "server"}
    assert all(u.reason == "no attack that was played reads this kind" for u in found)
    assert all(u.observers == ("server",) and u.messages > 0 and u.discloses for u in found)


@pytest.fixture(scope="module")
def server_view():
    from tests.audit.example import truth

    federated = truth().federated
    return federated.ledger.view(["server"], federated.public)


def test_plaintext_claims_no_more_than_a_finding_where_no_feature_is_named(server_view):
    @dataclass(frozen=True)
    class Odd(Payload):
        topic = "test.odd"
        discloses = Disclosure.AGGREGATE
        about = About.SENDER

        numbers: list[float]

    from leakledger.audit.field_controls import with_message

    claims = Plaintext().run(with_message(server_view, Odd([1.0, 2.0])), None)
    assert [(c.check, c.party) for c in claims] == [("stated", "control")]
    assert not any(isinstance(c, VocabularyClaim | StatisticClaim) for c in claims)


def test_plaintext_makes_one_claim_of_what_several_messages_of_a_new_kind_say(server_view):
    from leakledger.audit.field_controls import FEATURE, with_message

    def told(kind, *of):
        views = [with_message(server_view, kind({FEATURE: each})) for each in of]
        messages = tuple(replace(v.messages[0], sequence=i) for i, v in enumerate(views))
        (claim,) = Plaintext().run(replace(views[0], messages=messages), None)
        return claim

    counts = {"a": 3, "b": 1}
    assert told(ToySizes, 2, 3) == StatisticClaim("control", FEATURE, "size", 3, 3, 3, (0, 1))
    assert told(ToyCounts, counts, counts).counts == (3, 1)
    both = told(ToyCounts, counts, {"b": 1, "c": 2})
    assert (both.values, both.counts, both.evidence) == (("a", "b", "c"), (), (0, 1))


def federation():
    """One of its own, in which a test sends what it likes: those of `run_methods` are kept for all."""
    return run_methods.__wrapped__("local", frozen({}), "local", frozen({}), 1)


def test_what_several_clients_each_tell_otherwise_is_about_each_of_them_whatever_it_says():
    plaintext = Ran(ATTACKS["plaintext"](), True)
    for counts, left in (((1, 2, 1, 1), True), ((1, 1, 1, 1), False)):  # what all tell alike may be the outcome
        made = federation()
        fed = made.fed
        for client, count in zip(fed.clients, counts, strict=True):
            told = fed.at(client, PaddedSizes({"ward": count}))
            fed.send(told, to=fed.server, kind=PaddedSizes)
        view = fed.ledger.view(["server"], made.public)
        assert (PaddedSizes.topic in {u.topic for u in unread(view, made.fed.ledger, [plaintext], [], {})}) == left


@pytest.mark.parametrize("sender", ["P1", "server"])
def test_what_is_not_told_to_everyone_alike_is_no_outcome_whatever_it_says(sender):
    """Each client tells the next one of itself, or the server each client of another, on a kind about everyone."""
    plaintext = Ran(ATTACKS["plaintext"](), True)
    for alike in (True, False):
        made = federation()
        fed = made.fed
        for k, client in enumerate(fed.clients):
            previous = sender if sender == fed.server else fed.clients[k - 1]
            told = fed.at(previous, PaddedSizes({"ward": 1 if alike else k}))
            fed.send(told, to=client, kind=PaddedSizes)
        view = fed.ledger.view(["P2"], made.public)
        left = {u.topic for u in unread(view, fed.ledger, [plaintext], [], {})}
        assert (PaddedSizes.topic in left) != alike


def test_what_one_client_tells_the_server_alone_is_no_outcome():
    made = federation()
    told = made.fed.at("P1", PaddedSizes({"ward": 1}))
    made.fed.send(told, to="server", kind=PaddedSizes)
    view, plaintext = made.fed.ledger.view(["server"], made.public), Ran(ATTACKS["plaintext"](), True)
    assert PaddedSizes.topic in {u.topic for u in unread(view, made.fed.ledger, [plaintext], [], {})}


@pytest.mark.parametrize("sender", ["P1", "server"])
def test_that_a_kind_of_a_plugin_is_about_everyone_is_no_reason_to_take_it_for_read(sender):
    """One client's counts, told to all alike, on a kind that says it is about all clients together."""
    made = federation()
    told = made.fed.at(sender, ToyOutcome({"ward": {"surgery": 1}}))
    for party in {*made.fed.clients, made.fed.server} - {sender}:
        made.fed.send(told, to=party, kind=ToyOutcome)
    view, plaintext = made.fed.ledger.view(["P2"], made.public), Ran(ATTACKS["plaintext"](), True)
    left = {u.topic for u in unread(view, made.fed.ledger, [plaintext], [], {})}
    assert ToyOutcome.topic in left
    assert PaddedSizes.topic not in left


@dataclass(frozen=True)
class ToyScaler(Pooled):
    """Says in kinds of this package what it likes."""

    name = "toy-scaler"


class NamingMeans(Plaintext):
    """An attack of a plugin, written for means that everyone is told."""

    technique, reads = "naming-means", (GlobalMeans,)


@pytest.mark.parametrize("step", ["scale", "search"])
@pytest.mark.parametrize(("scaler", "left"), [("local", False), ("toy-scaler", True)])
def test_what_the_method_of_a_plugin_tells_everyone_is_no_outcome_though_its_kind_is_of_this_package(
    monkeypatch, scaler, left, step
):
    """A row of P1 as the means of all: nothing was unread, and a gate passed where sums under sealed parts stood."""
    monkeypatch.setitem(SCALERS, ToyScaler.name, ToyScaler)
    made = federation()
    public = replace(made.public, scaler=Method(scaler))
    with made.fed.scope(step):
        for party in {*made.fed.clients, made.fed.server} - {"P1"}:
            made.fed.send(made.fed.at("P1", GlobalMeans(np.ones(made.public.layout.width))), to=party, kind=GlobalMeans)
    view = made.fed.ledger.view(["server"], public)
    shown = [
        Control(name, "leaky", 1.0, 0.0, 1.0, True, "-", kinds=(GlobalMeans.topic,))
        for name in ("plaintext", NamingMeans.technique)
    ]
    why = {u.topic: u.reason for u in unread(view, made.fed.ledger, [Ran(Plaintext(), True)], shown, {})}
    said = "a plugin sends it, and that it is about everyone only its author says"
    assert why.get(GlobalMeans.topic) == (said if left else None)
    named = [Ran(Plaintext(), True), Ran(NamingMeans(), True)]
    assert GlobalMeans.topic not in {u.topic for u in unread(view, made.fed.ledger, named, shown, {})}


@pytest.mark.parametrize(("scaler", "left"), [("local", False), ("toy-scaler", True)])
def test_a_model_that_the_method_of_a_plugin_tells_everyone_in_a_step_of_its_own_is_not_read_as_one(
    monkeypatch, scaler, left
):
    """A table of P1 as the model of a late round: an attack on updates names models, and nothing was unread."""
    monkeypatch.setitem(SCALERS, ToyScaler.name, ToyScaler)
    made = federation()
    with made.fed.scope("search", 5_000):
        made.fed.broadcast(made.fed.at("P1", GlobalModel({"0.weight": np.ones((9, 3), np.float32)}), GlobalModel))
    view = made.fed.ledger.view(["P2"], replace(made.public, scaler=Method(scaler)))
    shown = [Control("linear_layer", "leaky", 1.0, 0.0, 1.0, True, "-", kinds=(GlobalModel.topic,))]
    ran = [Ran(ATTACKS["linear_layer"](), True)]
    assert (GlobalModel.topic in {u.topic for u in unread(view, made.fed.ledger, ran, shown, {})}) == left


@pytest.mark.parametrize("scaler", ["local", "toy-scaler"])
def test_a_sum_that_an_aggregation_encrypts_in_a_step_of_its_own_is_no_message_of_a_plugin(monkeypatch, scaler):
    monkeypatch.setitem(SCALERS, ToyScaler.name, ToyScaler)
    made = federation()
    with made.fed.scope("train", 0), made.fed.scope("he-aggregation"):
        made.fed.broadcast(made.fed.at("server", EncryptedSum(Ciphertext([b"sum"])), EncryptedSum))
    view = made.fed.ledger.view(["P2"], replace(made.public, scaler=Method(scaler)))
    why = {u.topic: u.reason for u in unread(view, made.fed.ledger, [], [], {})}
    assert why[EncryptedSum.topic] == "no attack that was played reads this kind"


@dataclass(frozen=True)
class ToyValues(Payload):
    """Values of the sender, or anything under their name."""

    topic = "toy.values"
    discloses = Disclosure.VALUE
    about = About.SENDER

    values: dict[str, Any] = field(repr=False)


@dataclass(frozen=True)
class ToyMeans(LocalMeans):
    """Means as `federated-zscore` sends them."""

    topic = "toy.means"


@dataclass(frozen=True)
class ToyMeansAndRows(LocalMeans):
    """The same, and rows beside."""

    topic = "toy.means-and-rows"

    rows: list[str] = field(repr=False)


@pytest.mark.parametrize(("kind", "rows"), [(ToyMeans, ()), (ToyMeansAndRows, (["blue, 31, no"],))])
def test_what_a_plugin_adds_to_a_kind_is_not_read_by_an_attack_that_names_the_kind(kind, rows):
    made = federation()
    told = made.fed.at("P1", kind(20, np.ones(4), *rows))
    made.fed.send(told, to=made.fed.server, kind=kind)
    view, plaintext = made.fed.ledger.view(["server"], made.public), ATTACKS["plaintext"]()
    numbers = frozenset(m.sequence for m in view.messages)
    held = list(field_controls(plaintext, view))
    left = {u.topic for u in unread(view, made.fed.ledger, [Ran(plaintext, True, numbers)], held, {})}
    assert (kind.topic in left) == bool(rows)


@pytest.mark.parametrize(("kind", "observer"), [(LocalMeans, "server"), (GlobalMeans, "P2")])
def test_means_of_more_columns_than_rows_have_are_not_read(kind, observer):
    """Of forty numbers under four columns four were claimed, or none of an outcome, and nothing was unread."""
    for more in (0, 1):
        made = federation()
        width = made.public.layout.width
        of_kind = {"count": 20} if kind is LocalMeans else {}
        sender = "P1" if kind is LocalMeans else made.fed.server
        told = made.fed.at(sender, kind(mean=np.ones(width + more), **of_kind))
        for party in [made.fed.server] if kind is LocalMeans else made.fed.clients:
            made.fed.send(told, to=party, kind=kind)
        view, plaintext = made.fed.ledger.view([observer], made.public), ATTACKS["plaintext"]()
        held = list(field_controls(plaintext, view))
        why = {u.topic: u.reason for u in unread(view, made.fed.ledger, [Ran(plaintext, True)], held, {})}
        assert why.get(kind.topic) == (f"it is about {width + 1} columns, and rows have {width}" if more else None)


@dataclass(frozen=True)
class ToySizes(Payload):
    """How many values the sender holds, and what it likes to say beside."""

    topic = "toy.sizes"
    discloses = Disclosure.SIZE
    about = About.SENDER

    sizes: dict[str, int] = field(repr=False)
    beside: list[float] | None = field(repr=False, default=None)


@pytest.mark.parametrize(
    ("payload", "left"),
    [
        (ToyValues({"colour": ["blue", "red"]}), False),
        (ToyValues({"colour": {"blue": 2, "red": 1}}), False),
        (ToyValues({"colour": {"values": ["blue", "red"], "counts": [2, 1]}}), False),
        (ToySizes({"colour": 2}, []), True),
        (ToyValues({"colour": ["red", "blue"]}), True),
        (ToyValues({"colour": ["blue", "blue", "red"]}), True),
        (ToyValues({"colour": {"red": 1, "blue": 2}}), True),
        (ToyValues({"colour": {"blue": 2.25, "red": 1.0}}), True),
        (ToyValues({"colour": {"blue": 2, "red": 1, "white": 0}}), True),
        (ToyValues({"colour": {"values": ["red", "blue"], "counts": [2, 1]}}), True),
        (ToyValues({"colour": ["blue", "red"], "row 1": ["blue, 31, no"]}), True),
        (ToySizes({"colour": 2}, [31.0, 44.0]), True),
        (ToySizes({"colour": 2, "blue, 31, no": 1}, None), True),
        (ToyValues({"colour": ["blue", "red"], "height": ["31.0", "44.0"]}), True),
    ],
    ids=str,
)
def test_what_stands_beside_a_claim_is_not_read_with_it(payload, left):
    """Of a kind that no attack names: rows beside sizes, a column in the order of its rows, numbers in a fraction."""
    plaintext = ATTACKS["plaintext"]()
    made = federation()
    made.fed.send(made.fed.at("P1", payload), to=made.fed.server, kind=type(payload))
    view = made.fed.ledger.view(["server"], made.public)
    claims = plaintext.run(view, AuxiliaryKnowledge())
    ran = Ran(plaintext, True, frozenset(n for c in claims if not isinstance(c, FindingClaim) for n in c.evidence))
    why = {u.topic: u.reason for u in unread(view, made.fed.ledger, [ran], list(field_controls(plaintext, view)), {})}
    assert (payload.topic in why) == left
    if left:
        assert why[payload.topic] == "it is read in part: it tells more of rows than is claimed"


@pytest.mark.parametrize(
    "payload",
    [ToyValues({"label": {"no": 9, "yes": 2}}), ToyValues({"height": ["31.0", "44.0"]}), ToySizes({"height": 7})],
    ids=str,
)
def test_what_is_told_of_numbers_or_of_the_target_is_a_finding_and_not_read(payload):
    """Claimed as values of a categorical feature, which the table does not have, it was scored nowhere and read."""
    plaintext, made = ATTACKS["plaintext"](), federation()
    assert {"height", "label"} <= {*made.public.schema["numeric"], made.public.schema["target"]}
    made.fed.send(made.fed.at("P1", payload), to=made.fed.server, kind=type(payload))
    view = made.fed.ledger.view(["server"], made.public)
    claims = [c for c in plaintext.run(view, AuxiliaryKnowledge()) if view.messages[-1].sequence in c.evidence]
    assert [(type(c), c.party) for c in claims] == [(FindingClaim, "P1")]
    left = unread(view, made.fed.ledger, [Ran(plaintext, True)], list(field_controls(plaintext, view)), {})
    assert payload.topic in {u.topic for u in left}


def test_what_no_control_of_an_attack_rests_on_is_unread_though_the_attack_names_it():
    """Numbers that parties of otmp-psi give each other: no federation of controls leaves values between them."""
    attacks = [ATTACKS[name]() for name in ("vocabulary", "membership")]
    specs = [s for s in attacks[0].controls if s.encoder == "otmp-psi"]
    held = [c for a in attacks for s in a.controls if s.encoder == "otmp-psi" for c in federation_controls(a, s)]
    assert all(c.passed for c in held)
    ran = [Ran(a, True) for a in attacks]
    left = {
        u.topic: u.reason for u in unread(played(specs[0]).view("last"), played(specs[0]).fed.ledger, ran, held, {})
    }
    assert left["otmp.numbers"] == "no attack that reads this kind has passed a control with it"
    assert "otmp.shares" not in left
