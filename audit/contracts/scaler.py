"""The contract of a scaler."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from leakledger.audit.contracts.protocol import assert_keeps_the_rules, assert_registered, assert_same_both_ways
from leakledger.audit.control_federations import COLUMNS, frozen, run_methods
from leakledger.audit.hiding import hides
from leakledger.preprocess.scalers import SCALERS, Scaler

ENCODER = "target"  # each client by itself: no messages
ROUNDING = 1e-4  # of float32 columns


class ScalerContract:
    """Tests of `scaler` under `options`, on made-up federations of four parties."""

    scaler: ClassVar[type[Scaler]]
    options: ClassVar[Mapping[str, Any]] = {}

    def test_it_is_installed_under_its_name_and_says_where_it_is_from(self) -> None:
        assert_registered(SCALERS, self.scaler.name, self.scaler)
        assert self.scaler.reference

    def test_scaled_columns_are_finite_and_what_is_public_undoes_them(self) -> None:
        played = run_methods(ENCODER, (), self.scaler.name, frozen(self.options), 0)
        layout = played.public.layout
        assert layout is not None
        for party, table in played.tables.items():
            rows = played.inputs[party]["encoded"]
            assert np.isfinite(rows).all(), party
            for block in (b for b in layout.numeric if b.feature in COLUMNS and b.scaled):
                raw = table.frame[block.feature].to_numpy(np.float64)
                again = block.raw(rows[:, block.start])
                assert np.allclose(again, raw, rtol=ROUNDING, atol=ROUNDING * np.abs(raw).max()), block.feature

    def test_its_protocol_does_nothing_that_a_protocol_must_not_do(self) -> None:
        assert_keeps_the_rules(self.scaler)

    def test_what_it_claims_to_hide_is_hidden(self) -> None:
        told = {
            topic: what for topic, what in hides(ENCODER, (), self.scaler.name, frozen(self.options)).items() if what
        }
        assert not told, told

    def test_with_a_process_per_party_it_tells_and_gives_the_same(self) -> None:
        methods = {"encoder": ENCODER, "scaler": self.scaler.name, "encoder_options": {}}
        assert_same_both_ways({**methods, "scaler_options": dict(self.options)})
