"""The contract of an encoder."""

from collections.abc import Mapping
from typing import Any, ClassVar

from leakledger.audit.contracts.protocol import assert_keeps_the_rules, assert_registered, assert_same_both_ways
from leakledger.audit.control_federations import FEATURES, frozen, run_methods
from leakledger.audit.hiding import hides
from leakledger.preprocess.encoders import ENCODERS, Encoder
from leakledger.preprocess.views import CategoricalBlock


class EncoderContract:
    """Tests of `encoder` under `options`, on made-up federations of four parties, with the scaler `local`."""

    encoder: ClassVar[type[Encoder]]
    options: ClassVar[Mapping[str, Any]] = {}

    def test_it_is_installed_under_its_name_and_says_where_it_is_from(self) -> None:
        assert_registered(ENCODERS, self.encoder.name, self.encoder)
        assert self.encoder.reference

    def test_every_feature_has_a_block_and_all_columns_are_in_one(self) -> None:
        played = run_methods(self.encoder.name, frozen(self.options), "local", (), 0)
        layout = played.public.layout
        assert layout is not None
        assert {b.feature for b in layout.blocks} >= set(FEATURES)
        for party in played.tables:
            assert played.inputs[party]["encoded"].shape == (len(played.tables[party]), layout.width), party

    def test_named_candidates_are_what_the_rows_hold(self) -> None:
        played = run_methods(self.encoder.name, frozen(self.options), "local", (), 0)
        layout = played.public.layout
        assert layout is not None
        for block in layout.blocks:
            if isinstance(block, CategoricalBlock) and block.values is not None:
                held = {v for t in played.tables.values() for v in t.values(block.feature)}
                assert held <= set(block.values), f"{block.feature}: the block names other values than the parties hold"

    def test_its_protocol_does_nothing_that_a_protocol_must_not_do(self) -> None:
        assert_keeps_the_rules(self.encoder)

    def test_what_it_claims_to_hide_is_hidden(self) -> None:
        told = {
            topic: what for topic, what in hides(self.encoder.name, frozen(self.options), "local", ()).items() if what
        }
        assert not told, told

    def test_with_a_process_per_party_it_tells_and_gives_the_same(self) -> None:
        methods = {"encoder": self.encoder.name, "scaler": "local", "scaler_options": {}}
        assert_same_both_ways({**methods, "encoder_options": dict(self.options)})
