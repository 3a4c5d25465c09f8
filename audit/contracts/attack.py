"""The contract of an attack."""

import inspect
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from leakledger.attacks import ATTACKS
from leakledger.attacks.base import Abstained, Attack, AuxiliaryKnowledge, NotApplicable, claims_in
from leakledger.audit.contracts.protocol import assert_registered
from leakledger.audit.control_federations import played
from leakledger.audit.federation_controls import federation_controls
from leakledger.audit.field_controls import field_controls
from leakledger.audit.outcomes import outcome_of
from leakledger.audit.own_update import CLIENT, layout_of, view_of_update
from leakledger.audit.planted_controls import planted_controls
from leakledger.audit.records import Control
from leakledger.preprocess.models import as_arrays, as_tensors, gradient, initial_weights
from leakledger.preprocess.views import ModelSpec, View

LAYOUT = layout_of({"age": (50.0, 15.0), "ward": ["a", "b", "c"]})
SPEC = ModelSpec(LAYOUT.width, 2, (30, 30))
ROW, LABEL = [[0.5, 0.0, 1.0, 0.0]], [1]


class AttackContract:
    """Tests of `attack` under `options`: what it declares, and every control that it declares."""

    attack: ClassVar[type[Attack]]
    options: ClassVar[Mapping[str, Any]] = {}

    def made(self) -> Attack:
        return self.attack(**self.options)

    def test_it_is_installed_under_its_name_and_says_what_it_reads_and_assumes(self) -> None:
        assert_registered(ATTACKS, self.attack.technique, self.attack)
        for name in ("reference", "assumes", "asset", "reads", "controls"):
            assert getattr(self.attack, name), f"{name} is empty"

    def test_it_takes_a_view_and_declared_knowledge_and_nothing_else(self) -> None:
        assert list(inspect.signature(self.attack.run).parameters) == ["self", "view", "knowledge"]

    def test_an_empty_view_gives_no_claim_and_a_reason(self) -> None:
        for view in self._views():
            empty = View(view.observers, (), view.public)
            outcome = outcome_of(self.made(), empty, AuxiliaryKnowledge())
            assert isinstance(outcome, NotApplicable | Abstained)
            assert outcome.reason

    def test_the_same_view_gives_the_same_claims_about_parties_outside_on_evidence_in_it(self) -> None:
        for view in self._views():
            shown, known = view.restricted(self.attack.accepts), _labels(view)
            one, other = (outcome_of(self.made(), shown, known) for _ in range(2))
            assert repr(one) == repr(other)
            for claim in claims_in(one):
                about = getattr(claim, "victim", None) or getattr(claim, "party", None)
                assert about not in view.observers
                assert set(claim.evidence) <= {m.sequence for m in shown.messages}

    def test_it_passes_the_controls_that_it_declares(self) -> None:
        found = list(self._controls())
        assert found, "no control could be played"
        failed = [f"{c.kind}: {c.expected}, got {c.value:.3f}" for c in found if not c.passed]
        assert not failed, failed

    def _views(self) -> Iterator[View]:
        """A view for each control: that of its federation, or of one update."""
        for spec in self.attack.controls:
            if spec.expects in ("records", "fields"):
                yield one_update()
            else:
                yield played(spec).view(spec.observers)

    def _controls(self) -> Iterator[Control]:
        for spec in self.attack.controls:
            if spec.expects == "records":
                view = one_update()
                yield from planted_controls(self.made(), view, _labels(view), np.random.default_rng(0))
            elif spec.expects == "fields":
                yield from field_controls(self.made(), one_update())
            else:
                yield from federation_controls(self.made(), spec)


def one_update() -> View:
    """A server that received the gradient of one row."""
    weights = as_tensors(initial_weights(SPEC, np.random.default_rng(0)))
    step = gradient(SPEC, weights, _tensor(ROW), _tensor(LABEL).long())
    arrays = as_arrays(weights), as_arrays(step)
    return view_of_update(*arrays, trained=False, layout=LAYOUT, rows=1, activation=SPEC.activation)


def _tensor(values: Any) -> Any:
    import torch

    return torch.tensor(values, dtype=torch.float32)


def _labels(view: View) -> AuxiliaryKnowledge:
    granted = {(CLIENT, 0): np.array(LABEL)} if CLIENT in view.public.clients else {}
    return AuxiliaryKnowledge(labels=granted)
