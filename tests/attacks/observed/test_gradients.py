import numpy as np
import pytest

from leakledger.attacks.base import Abstained, AuxiliaryKnowledge, NotApplicable
from leakledger.attacks.candidates import restated
from leakledger.attacks.observed.gradients import find_gradients, unsuitable
from leakledger.attacks.observed.update import ObservedUpdate
from leakledger.preprocess.models import initial_weights
from leakledger.preprocess.views import (
    CategoricalBlock,
    FeatureLayout,
    Message,
    ModelSpec,
    NumericBlock,
    PublicFacts,
    View,
)
from leakledger.preprocess.wire import encode
from tests.every import every

SPEC = ModelSpec(3, 2, (4,))
LAYOUT = FeatureLayout((NumericBlock("age", 0), CategoricalBlock("sex", 1, 2)))
WEIGHTS = initial_weights(SPEC, np.random.default_rng(0))
OTHER_WEIGHTS = initial_weights(SPEC, np.random.default_rng(1))
GRADIENT = initial_weights(SPEC, np.random.default_rng(2))
LABELS = {("ann", 0): np.array([0, 1])}


def model(to="ann", round=0, weights=WEIGHTS):
    return ("train.model", round, "server", to, {"weights": weights})


def update(sender="ann", round=0, rows=2, gradient=GRADIENT):
    return ("train.gradient", round, sender, "server", {"rows": rows, "gradient": gradient})


def changed(name, value):
    return {**GRADIENT, name: value}


def find(*told, labels=LABELS, observers=("server",), layout=LAYOUT, spec=SPEC, sealed=(), **options):
    messages = []
    for i, (topic, round, sender, recipient, payload) in enumerate(told):
        body = encode(payload)
        content = None if i in sealed else body
        messages.append(Message(i, "train", round, topic, sender, recipient, None, i in sealed, body, content))
    public = PublicFacts(("ann", "bob"), "server", layout=layout, model=spec)
    view = View(frozenset(observers), tuple(messages), public)
    return find_gradients(view, AuxiliaryKnowledge(labels=labels), **options)


def test_a_gradient_is_found_with_its_model_and_labels():
    (found,) = find(model(), update())
    assert (found.victim, found.round, found.rows, found.evidence) == ("ann", 0, 2, (0, 1))
    assert found.labels.tolist() == [0, 1]
    assert np.array_equal(found.weights["0.weight"], WEIGHTS["0.weight"])
    assert np.array_equal(found.gradient["1.bias"], GRADIENT["1.bias"])


@pytest.mark.parametrize(
    ("told", "model_number"),
    [
        ([model(weights=OTHER_WEIGHTS), model(), update()], 1),
        ([model(), model("bob", weights=OTHER_WEIGHTS), update()], 0),
        ([model(), update(), model(weights=OTHER_WEIGHTS)], 0),
        ([model(), model(round=1, weights=OTHER_WEIGHTS), update()], 0),
        ([model("bob"), update()], 0),
    ],
    ids=["the last", "the victim's own", "before the gradient", "of the round", "another's of the round"],
)
def test_the_model_is_the_one_that_the_victim_had(told, model_number):
    (found,) = find(*told)
    assert np.array_equal(found.weights["0.weight"], WEIGHTS["0.weight"])
    assert found.evidence[0] == model_number


def test_a_model_that_was_told_to_another_client_stands_in_for_a_sealed_one():
    (found,) = find(model("bob"), model(), update(), sealed=(1,))
    assert found.evidence == (0, 2)


def test_labels_that_nobody_granted_are_left_open():
    (found,) = find(model(), update(), labels={})
    assert found.labels.shape == (0,)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_the_precision_is_that_of_the_gradient_that_travelled(kind):
    (found,) = find(model(), update(gradient={name: g.astype(kind) for name, g in GRADIENT.items()}))
    assert found.precision == found.roundoff == np.finfo(kind).eps
    assert found.gradient["0.weight"].dtype == np.float64


def test_tensors_of_several_precisions_have_that_of_the_coarsest():
    (found,) = find(model(), update(gradient=changed("1.bias", GRADIENT["1.bias"].astype(np.float16))))
    assert found.precision == np.finfo(np.float16).eps


def test_a_gradient_is_of_no_local_training():
    (found,) = find(model(), update())
    assert (found.schedule, found.rate) == (None, 0.0)
    with pytest.raises(ValueError, match="gradient of ann in round 0 is of no local training"):
        _ = found.training


def test_rounds_and_victims_restrict_what_is_attacked():
    told = [m for r in (0, 1) for c in ("ann", "bob") for m in (model(c, r), update(c, r))]
    labels = {(c, r): np.array([0, 1]) for c in ("ann", "bob") for r in (0, 1)}
    found = [find(*told, labels=labels, **o) for o in ({}, {"rounds": (1,)}, {"victims": ("bob",)})]
    assert [[(u.victim, u.round) for u in some] for some in found] == [
        [("ann", 0), ("bob", 0), ("ann", 1), ("bob", 1)],
        [("ann", 1), ("bob", 1)],
        [("bob", 0), ("bob", 1)],
    ]
    assert isinstance(find(*told, labels=labels, rounds=(7,)), NotApplicable)


def test_gradients_that_cannot_be_read_do_not_hide_those_that_can():
    found = find(model(), update(gradient=changed("0.bias", np.full(4, np.nan))), update())
    assert [u.evidence for u in found] == [(0, 2)]


@every(
    ("told", "options", "reason"),
    [
        ([], {}, "train.gradient"),
        ([model()], {}, "train.gradient"),
        ([model(), update()], {"observers": ("ann",)}, "train.gradient"),
        ([model(), update()], {"sealed": (1,)}, "train.gradient"),
        ([update()], {}, "train.model"),
        ([model(), update()], {"sealed": (0,)}, "train.model"),
        ([model(round=1), update()], {}, "train.model"),
        ([model(), update()], {"labels": {("ann", 0): np.array([0, 1, 1])}}, r"labels of shape \(3,\)"),
        ([model(), update()], {"labels": {("ann", 0): np.array([0, 2])}}, "class numbers from 0 to 1"),
        ([model(), update()], {"layout": None}, "feature layout"),
        ([model(), update()], {"spec": None}, "no model"),
        ([model(), update()], {"layout": FeatureLayout(LAYOUT.blocks[:1])}, "the layout is 1 wide, the model takes 3"),
        ([model(), update()], {"spec": ModelSpec(3, 1, (4,), task="regression")}, "regression"),
        ([model(), update()], {"spec": ModelSpec(3, 1, (4,))}, r"1\.(weight|bias)"),
        ([model(), update()], {"spec": ModelSpec(3, 2, (4,), "softplus")}, "softplus"),
        ([model(), update()], {"spec": ModelSpec(3, 2, (5,))}, r"0\.(weight|bias)"),
        ([model(), update(rows=0)], {}, "how many rows"),
        ([model(), update(rows=None)], {}, "it is no ClientGradient: rows is NoneType"),
        ([model(), update(gradient=None)], {}, "it is no ClientGradient: gradient is NoneType"),
        ([model(), update(gradient={})], {}, r"0\.weight"),
        ([model(), update(gradient=changed("1.bias", np.zeros((2, 1), np.float32)))], {}, r"1\.bias"),
        ([model(), update(gradient=changed("0.weight", np.full((4, 3), np.nan)))], {}, r"0\.weight"),
        ([model(), update(gradient=changed("0.bias", np.full(4, np.inf)))], {}, r"0\.bias"),
        ([model(), update(gradient=changed("0.bias", [0.0] * 4))], {}, "gradient is list, not an array"),
        (
            [model(), update(gradient=changed("0.bias", np.zeros(4, np.int64)))],
            {},
            "an array of int64, not an array of floating",
        ),
        ([model(weights={**WEIGHTS, "1.weight": np.full((2, 4), np.nan)}), update()], {}, r"weights.*1\.weight"),
        ([model(weights=None), update()], {}, "it is no GlobalModel: weights is NoneType"),
    ],
)
def test_a_missing_or_broken_precondition_is_named(told, options, reason):
    outcome = find(*told, **options)
    assert isinstance(outcome, NotApplicable)
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(outcome.reason)


def test_a_gradient_of_zeros_is_abstained_from_and_its_tensors_are_named():
    outcome = find(model(), update(gradient={name: np.zeros_like(g) for name, g in GRADIENT.items()}))
    assert isinstance(outcome, Abstained)
    assert all(name in outcome.reason for name in GRADIENT)


def test_labels_in_any_numeric_type_are_read_alike():
    for kind in (np.int8, np.float32, bool):
        (found,) = find(model(), update(), labels={("ann", 0): np.array([0, 1], kind)})
        assert isinstance(found, ObservedUpdate)
        assert found.labels.dtype == np.int64


def test_candidates_whose_codes_no_memory_holds_are_not_applicable():
    """Five features that share 5,000 hash buckets, nobody knowing which values there are."""
    layout = FeatureLayout(tuple(CategoricalBlock(f"f{i}", 0, 5_000) for i in range(5)))
    spec = ModelSpec(5_000, 2, (4,))
    view = View(frozenset(["server"]), (), PublicFacts(("ann",), "server", layout=layout, model=spec))
    outcome = restated(view, AuxiliaryKnowledge(), [])
    assert isinstance(outcome, NotApplicable)
    assert "1.2e+08 numbers" in outcome.reason
    assert unsuitable(layout, spec) == outcome.reason
    assert unsuitable(layout, spec, shared=False) is None  # until it is known whether they can be restated
