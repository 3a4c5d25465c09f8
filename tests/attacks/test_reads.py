"""An attack is handed the kinds of message that it declares, and no others: these are enough, and each is needed."""

from functools import cache

import numpy as np
import pytest

from leakledger.attacks import ATTACKS
from leakledger.attacks.base import AuxiliaryKnowledge, ControlSpec
from leakledger.audit.control_federations import NAMES, held, played
from leakledger.audit.play import view_of
from leakledger.audit.reading import alike
from leakledger.audit.run import granted_knowledge
from leakledger.preprocess.messages import KINDS, SecureSum
from tests.audit.example import config, truth

OBSERVERS = ("server", "first", "last", "all but first", "all but last")
WHOLE = {"columns": "all"}
FEDERATIONS = (
    ControlSpec("mean", "server-dictionary", {}, "server-zscore", WHOLE),
    ControlSpec("mean", "server-dictionary", {}, "server-minmax", WHOLE),
    ControlSpec("mean", "pooled", {}, "pooled", WHOLE),
    ControlSpec("mean", "local", {}, "zscore-sac"),
    ControlSpec("mean", "target", {"exchange": "shared"}, "zscore-sac", {"sharing": "ring", "passes": 1}),
    ControlSpec("mean", "uhe", {"ring_route": "relay"}, "zscore-sac", {"sharing": "ring"}),
    ControlSpec("mean", "dh-psi", {"unused": "drop"}),
    ControlSpec("mean", "otmp-psi"),
    ControlSpec("mean", "apsi"),
    ControlSpec("mean", "bytes-norm", {"sharing": "ring"}),
    ControlSpec("mean", "bytes-norm", {"sharing": "ring", "passes": 1}, "server-minmax", WHOLE),
    ControlSpec("mean", "mod-norm", {"sharing": "ring"}),
    ControlSpec("mean", "mod-norm"),
    ControlSpec("mean", "dh-psi", {"directions": "upward"}),
    ControlSpec("mean", "apsi", {"unused": "drop"}),
    ControlSpec("mean", "otmp-psi", {"unused": "drop"}),
    ControlSpec("mean", "server-dictionary", {}, "zscore-sac", WHOLE),
    ControlSpec("mean", "target", {}, "zscore-sac", {"route": "direct"}),
    ControlSpec("mean", "bytes-norm", {"publish": "everyone"}, "server-minmax", WHOLE),
)
NAMED = {name for s in FEDERATIONS for name in (s.encoder, s.scaler)}
OTHERS = tuple(  # of attacks that read what nothing above sends
    s
    for attack in ATTACKS.values()
    for s in attack.controls
    if s.expects not in ("records", "fields") and (s.evaluation or not {s.encoder, s.scaler} <= NAMED)
)
DROPPING = ControlSpec("mean", "apsi", {"unused": "drop"})
TRAININGS = ("fedsgd", "fedavg")
CHEAP = {"restarts": 2, "iterations": 5}


def cheap(name):
    """The attack with few iterations."""
    kind = ATTACKS[name]
    if name == "portfolio":
        return kind(tableak=CHEAP, tableak_fedavg={**CHEAP, "refinement": 2}, spear={"starts": 50, "draws": 100})
    own = {"starts": 50, "draws": 100} if name == "spear" else {}
    return kind(**(CHEAP if name.startswith("tableak") else own))


@cache
def trained(algorithm):
    """The views and the knowledge of a small trained federation."""
    settings = config(training={"algorithm": algorithm, "rounds": 1, "batch_size": 4}, data={"rows": 60})
    found = truth(training={"algorithm": algorithm, "rounds": 1, "batch_size": 4}, data={"rows": 60})
    return [view_of([who], found) for who in ("server", "P1")], granted_knowledge(settings, found)


@cache
def corpus():
    """(view, knowledge): every encoder and scaler that sends anything, seen by everybody; two trainings."""
    known = AuxiliaryKnowledge(dictionaries={f: tuple(sorted(v)) for f, v in held()[NAMES[-1]].items()})
    views = [(played(spec).view(who), known) for spec in (*FEDERATIONS, *OTHERS) for who in OBSERVERS]
    views += [
        (played(DROPPING, draw).view(who), known) for draw in (1, 2, 3) for who in ("all but first", "last")
    ]  # values that are shared
    return views + [(view, known) for algorithm in TRAININGS for views, known in [trained(algorithm)] for view in views]


def claims(attack, view, knowledge):
    return repr(attack.run(view, knowledge))


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_claims_the_same_from_what_it_declares_as_from_everything(name):
    attack = cheap(name)
    for view, knowledge in corpus():
        assert claims(attack, view.restricted(attack.accepts), knowledge) == claims(attack, view, knowledge), (
            view.topics
        )


def declared(attack):
    """What stands or falls together: a kind, or all sums that are read alike."""
    accepted = [k for k in KINDS.values() if issubclass(k, attack.reads) and k.__module__.startswith("leakledger.")]
    return {alike(k): [other for other in accepted if alike(other) == alike(k)] for k in accepted}


def without(attack, kinds):
    """Reads what the attack does, but for these kinds."""
    return lambda kind: attack.accepts(kind) and kind not in kinds


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_needs_every_kind_that_it_declares(name):
    attack = cheap(name)
    needless = []
    for kinds in declared(attack).values():
        relevant = [(v, k) for v, k in corpus() if v.has(*kinds)]
        rest = [
            (v.restricted(lambda k, gone=tuple(kinds): attack.accepts(k) and k not in gone), k) for v, k in relevant
        ]
        full = [(v.restricted(attack.accepts), k) for v, k in relevant]
        pairs = zip(full, rest, strict=True)
        if not any(claims(attack, *one) != claims(attack, *other) for one, other in pairs):
            needless += [k.topic for k in kinds]
    assert needless == []


def test_the_corpus_has_every_kind_that_preprocessing_and_training_send():
    seen = {k for view, _ in corpus() for k in view.kinds}
    missing = {alike(k) for k in KINDS.values() if k.__module__.startswith("leakledger.")} - {alike(k) for k in seen}
    assert missing <= NOT_SENT


NOT_SENT = {
    KINDS[t]
    for t in (
        "channel.public-key",
        "schema.agreed",
        "schema.agreed-classes",
        "schema.local",
        "schema.local-classes",
        "train.participants",
    )
}
assert np.all([not issubclass(k, SecureSum) for k in NOT_SENT])
