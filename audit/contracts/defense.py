"""The contract of a defense."""

from typing import ClassVar

import numpy as np

from leakledger.audit.contracts.protocol import assert_registered
from leakledger.defenses import DEFENSES, Defense, defense_of
from leakledger.defenses.base import Update

SHAPES = {"0.weight": (5, 4), "0.bias": (5,), "1.weight": (2, 5), "1.bias": (2,)}


def made_up_update(seed: int = 0) -> Update:
    coins = np.random.default_rng(seed)
    return {name: coins.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}


class DefenseContract:
    """Tests of `defense`, an instance."""

    defense: ClassVar[Defense]

    def test_it_is_installed_under_its_name_and_says_where_it_is_from(self) -> None:
        assert_registered(DEFENSES, self.defense.name, type(self.defense))
        assert self.defense.reference

    def test_names_shapes_and_types_stay_and_what_is_sent_is_finite(self) -> None:
        update = made_up_update()
        sent = self.defense.protect(update, np.random.default_rng(1))
        assert {n: (a.shape, a.dtype) for n, a in sent.items()} == {n: (a.shape, a.dtype) for n, a in update.items()}
        assert all(np.isfinite(a).all() for a in sent.values())

    def test_the_update_that_it_is_given_stays_as_it_is(self) -> None:
        update = made_up_update()
        for array in update.values():
            array.setflags(write=False)  # as payloads are
        self.defense.protect(update, np.random.default_rng(1))
        assert all(np.array_equal(a, made_up_update()[n]) for n, a in update.items())

    def test_the_same_coins_send_the_same_and_coins_matter_only_where_it_says_so(self) -> None:
        one, again, other = (self._sent(seed) for seed in (1, 1, 2))
        assert all(np.array_equal(one[n], again[n]) for n in one)
        if not self.defense.random:
            assert all(np.array_equal(one[n], other[n]) for n in one), "coins decide: say so in `random`"

    def test_public_parameters_make_the_same_defense_again(self) -> None:
        again = defense_of(self.defense.mechanisms())
        sent = again.protect(made_up_update(), np.random.default_rng(1))
        assert all(np.array_equal(a, self._sent(1)[n]) for n, a in sent.items())
        assert again.row_clip_norm == self.defense.row_clip_norm

    def _sent(self, seed: int) -> Update:
        return self.defense.protect(made_up_update(), np.random.default_rng(seed))
