"""An attack is handed the kinds of message that it declares, and no others: these are enough, and each is needed."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from leakledger.attacks import ATTACKS
from leakledger.attacks.base import AuxiliaryKnowledge, ControlSpec
from leakledger.attacks.gradient.posterior import blind, held_out, local_training, search, witnesses
from leakledger.attacks.observed.evaluated import HELD_OUT
from leakledger.attacks.texts import TextRecords
from leakledger.audit.control_federations import NAMES, held, played
from leakledger.audit.granted import granted_knowledge
from leakledger.audit.play import view_of
from leakledger.audit.reading import alike
from leakledger.preprocess.messages import (
    KINDS,
    ClientGradient,
    EvaluatedModel,
    GlobalModel,
    LocalLoss,
    Participants,
    SecureSum,
    SummedUpdate,
)
from tests.audit.example import config, truth

OBSERVERS = ("server", "first", "last", "all but first", "all but last")
WHOLE = {"columns": "all"}
UNDER_NOISE = ControlSpec(
    "mean", "server-dictionary", {"encoder_epsilon": 50.0}, "federated-zscore", {"scaler_epsilon": 50.0}
)
FEDERATIONS = (
    ControlSpec("mean", "server-dictionary", {}, "federated-zscore", WHOLE),
    ControlSpec("mean", "server-dictionary", {}, "federated-minmax", WHOLE),
    ControlSpec("mean", "pooled", {}, "pooled", WHOLE),
    ControlSpec("mean", "local", {}, "zscore-sac"),
    ControlSpec("quantile", scaler="federated-robust", scaler_options={"ranks_to": "everyone"}),
    ControlSpec("quantile", scaler="federated-robust", scaler_options={"at_points": "left-out"}),
    ControlSpec("mean", scaler="federated-yeo-johnson"),
    ControlSpec("mean", scaler="pooled", scaler_options={"by": "robust"}),
    ControlSpec("mean", "target", {"exchange": "shared"}, "zscore-sac", {"sharing": "ring", "passes": 1}),
    ControlSpec("mean", "uhe", {"ring_route": "relay"}, "zscore-sac", {"sharing": "ring"}),
    ControlSpec("mean", "dh-psi", {"unused": "drop"}),
    ControlSpec("mean", "otmp-psi"),
    ControlSpec("mean", "apsi"),
    ControlSpec("mean", "bytes-norm", {"sharing": "ring"}),
    ControlSpec("mean", "bytes-norm", {"sharing": "ring", "passes": 1}, "federated-minmax", WHOLE),
    ControlSpec("mean", "mod-norm", {"sharing": "ring"}),
    ControlSpec("mean", "mod-norm"),
    ControlSpec("mean", "dh-psi", {"directions": "upward"}),
    ControlSpec("mean", "apsi", {"unused": "drop"}),
    ControlSpec("mean", "otmp-psi", {"unused": "drop"}),
    ControlSpec("mean", "server-dictionary", {}, "zscore-sac", WHOLE),
    ControlSpec("mean", "target", {}, "zscore-sac", {"route": "direct"}),
    ControlSpec("mean", "bytes-norm", {"publish": "everyone"}, "federated-minmax", WHOLE),
    UNDER_NOISE,
    ControlSpec(
        "mean", "target", {"exchange": "shared", "encoder_epsilon": 50.0}, "federated-minmax", {"scaler_epsilon": 1e4}
    ),
)
NAMED = {name for s in FEDERATIONS for name in (s.encoder, s.scaler)}
OTHERS = tuple(  # of attacks that read what nothing above sends
    s
    for attack in ATTACKS.values()
    for s in attack.controls
    if s.expects not in ("records", "fields")
    and (s.evaluation or s.features is not None or not {s.encoder, s.scaler} <= NAMED)
)
DROPPING = ControlSpec("mean", "apsi", {"unused": "drop"})
NUMBERING = ControlSpec("mean", "otmp-psi")  # values that are shared, between which others lie
ALL_BUT_ONE = (("P1", "P2"), ("P1", "P3"), ("P2", "P3"))
TRAININGS = tuple(
    ({"algorithm": algorithm, **options}, observers)
    for algorithm in ("fedsgd", "fedavg")
    for options, observers in (
        ({}, (("server",), ("P1", "P2"))),
        ({"patience": 1}, ALL_BUT_ONE[:1]),  # the next model is a candidate before it is the model
        ({"participation": 0.67}, ALL_BUT_ONE),  # two of three take part, as announced
        ({"aggregation": "secure-aggregation"}, (("server",), ("P1", "P2"))),  # nobody is sent an update
        ({"batch_size": 0}, (("server",),)),  # what is sent counts all rows
    )
)
NOISED = (  # what clients said before counts in attacks that know the defense
    ("server-dictionary", "server-zscore"),
    ("server-dictionary", "server-minmax"),
    ("local", "local"),
    ("pooled", "pooled"),
)
CHEAP = {"restarts": 2, "iterations": 5}


def cheap(name):
    """The attack with few iterations."""
    kind = ATTACKS[name]
    sampled = {"chains": 2, "sweeps": 2, "repairs": 1, "pool": 17}
    if name == "portfolio":
        return kind(
            posterior=sampled,
            tableak=CHEAP,
            tableak_fedavg={**CHEAP, "refinement": 2},
            spear={"starts": 50, "draws": 100},
        )
    own = {"spear": {"starts": 50, "draws": 100}, "posterior": sampled}.get(name, {})
    return kind(**(CHEAP if name.startswith("tableak") else own))


def trained(options, observers, **sections):
    """What sets of observers have of a small trained federation, and what they know."""
    training = {"rounds": 1, "batch_size": 4, **options}
    rows = 60 if training["batch_size"] else 30  # a batch of all rows takes the posterior longest
    settings, found = (make(training=training, data={"rows": rows}, **sections) for make in (config, truth))
    return [view_of(who, found) for who in observers], granted_knowledge(settings, found)


def written(view, known):
    """What is known where records are texts under a public code that is as wide as the model's input."""
    width = view.public.model.inputs

    def code(records):
        return np.array([np.random.default_rng(list(str(cells).encode())).normal(size=width) for cells in records])

    records = TextRecords(code, {"age": ("1", "2", "3")}, {"age": ("age",)})
    return replace(known, texts=dict.fromkeys(view.public.clients, records))


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    """What the posterior claims here need not be right."""
    for module, steps in (
        (search, ("LEVELS", "COOLING", "CHOICES", "SWEEPS", "SMALL_SWEEPS", "SMALL_COOLING", "STIRS")),
        (local_training, ("PASSES", "SWEEPS", "REPAIRS", "ORDERS")),
        (blind, ("FEWEST", "MOST")),
        (held_out, ("STARTS", "FOLDS")),
        (witnesses, ("CHAINS", "FEW_ROWS_CHAINS", "UNSAMPLED", "LEVELS")),
    ):
        for name in steps:
            monkeypatch.setattr(module, name, 2)


@cache
def corpus():
    """(view, knowledge): every encoder and scaler that sends anything, seen by everybody; two trainings."""
    known = AuxiliaryKnowledge(dictionaries={f: tuple(sorted(v)) for f, v in held()[NAMES[-1]].items()})
    federations = {id(played(spec)): spec for spec in (*FEDERATIONS, *OTHERS)}.values()  # attacks share some
    views = [(played(spec).view(who), known) for spec in federations for who in OBSERVERS]
    views += [  # values that are shared; without coins, which open answers, final numbers and dropped ones tell
        (replace(played(DROPPING, draw).view(who), coins={}), known)
        for draw in (1, 2, 3)
        for who in ("all but first", "last")
    ]
    views += [(played(NUMBERING, draw).view("all but first"), known) for draw in (1, 2, 3)]
    for encoder, scaler in NOISED:
        noised = {
            "preprocessing": [{"encoder": encoder, "scaler": scaler}],
            "defense": [{"name": "gaussian-noise", "sigma": 0.05}],
        }
        seen, granted = trained({"batch_size": 2}, (("server",),), **noised)
        views += [(view, granted) for view in seen]
    views.append((views[-1][0], written(*views[-1])))
    # Attacks on records that are written as text read the same trainings.
    views += [(v, written(v, known)) for one in TRAININGS for views, known in [trained(*one)] for v in views]
    # Layers as wide as the table, whose means statistics tell; preprocessing sends nothing that adds up to rows.
    normed = {"model": {"hidden": [60], "norm": "batch"}, "preprocessing": [{"encoder": "local", "scaler": "local"}]}
    seen, granted = trained({"batch_size": 6}, (("server",),), **normed)
    views += [(view, granted) for view in seen]
    # Sums over other clients in each round, of columns that each are one client's.
    around = {"preprocessing": [{"encoder": "uhe", "scaler": "local"}]}
    masked = {"aggregation": "secure-aggregation", "threshold": 2, "participation": 0.67, "rounds": 2}
    seen, _ = trained({"algorithm": "fedavg", **masked}, (("server",),), **around)
    views += [(view, known) for view in seen]
    # What is told of held-out rows says how many others there are, which goes with statistics under noise.
    for task in ("binary", "regression"):
        view = played(replace(UNDER_NOISE, evaluation=task)).view("server")
        untrained = view.restricted(lambda kind: kind not in (ClientGradient, LocalLoss))
        views.append((replace(untrained, public=replace(view.public, held_out=0.4)), known))
    # So does what is told of rows that validate.
    views.append((view.restricted(lambda kind: kind not in (ClientGradient, *HELD_OUT)), known))
    # Means of rounds, in which the columns of all clients but one are nobody else's.
    for options in ({}, {"patience": 1}, {"aggregation": "secure-aggregation"}):
        seen, _ = trained({"algorithm": "fedavg", **options}, (("P1", "P2"),), **around)
        views += [(view, known) for view in seen]
    for encoder in ("dh-psi", "apsi", "otmp-psi"):  # such columns are those of values that no intersection has
        alone = {
            "preprocessing": [{"encoder": encoder, "scaler": "local"}],
            "partition": {"kind": "divergent", "parties": 2},
        }
        seen, _ = trained({"algorithm": "fedavg"}, (("P1",),), **alone)
        views += [(view, known) for view in seen]
    views += [(told_the_sum(v), k) for v, k in [*views] if v.has(Participants) and v.public.training.rounds == 1]
    # The model that is evaluated tells the sum too; of local training, not every attack reads sums.
    summed = [(v, k) for v, k in views if v.has(SummedUpdate) and v.public.training.algorithm == "fedsgd"]
    return views + [(v.restricted(lambda kind: kind is not EvaluatedModel), k) for v, k in summed]


def told_the_sum(view):
    """The view of clients that open the sum of a round, which says over whom it is to the server alone."""
    model = next(view.readable(GlobalModel))
    one = SummedUpdate([*range(len(view.public.clients))], 1000, model.payload.weights)
    return replace(view, messages=(*view.messages, replace(model, sequence=10_000).carrying(one)))


@cache
def claims(name, place, gone=()):
    """What the attack says of a view of the corpus from the kinds that it accepts, but for those that are gone."""
    attack, (view, knowledge) = cheap(name), corpus()[place]
    return repr(attack.run(view.restricted(without(attack, gone)), knowledge))


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_claims_the_same_from_what_it_declares_as_from_everything(name):
    for place, (view, knowledge) in enumerate(corpus()):
        assert claims(name, place) == repr(cheap(name).run(view, knowledge)), view.topics


def declared(attack):
    """What stands or falls together: a kind, or all sums that are read alike."""
    accepted = [k for k in KINDS.values() if issubclass(k, attack.reads) and k.__module__.startswith("leakledger.")]
    return {alike(k): [other for other in accepted if alike(other) == alike(k)] for k in accepted}


def without(attack, kinds):
    """Reads what the attack does, but for these kinds."""
    return lambda kind: attack.accepts(kind) and kind not in kinds


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_needs_every_kind_that_it_declares(name):
    needless = []
    for kinds in map(tuple, declared(cheap(name)).values()):
        relevant = [place for place, (view, _) in enumerate(corpus()) if view.has(*kinds)][::-1]  # trainings first
        if not any(claims(name, place) != claims(name, place, kinds) for place in relevant):
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
        "he-aggregation.key",
        "he-aggregation.update",
        "he-aggregation.sum",
    )
}  # of the last three, `observed.aggregation` works out what attacks read
NOT_SENT |= {kind for topic, kind in KINDS.items() if topic.startswith("threshold-ckks.")}  # all of them hide
assert np.all([not issubclass(k, SecureSum) for k in NOT_SENT])
