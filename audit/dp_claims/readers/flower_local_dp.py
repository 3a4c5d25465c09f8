"""Flower's `LocalDpMod(clipping_norm, sensitivity, epsilon, delta)`: a client clips its update and adds noise itself.

The noise has standard deviation sensitivity sqrt(2 ln(1.25/delta)) / epsilon (flwr 1.35, `localdp_mod.py`), and
`sensitivity` is a parameter of its own, which nothing compares with `clipping_norm`. What one client can change is set
by the clipping alone: its update moves by up to `clipping_norm` from none, by up to twice that between any two data
sets, which is what local differential privacy is about.
"""

from dataclasses import dataclass

from leakledger.audit.dp_claims.readers.base import COINS, PRECISION, Nothing, Reader, Reading, rounds_in_words
from leakledger.defenses.accounting.gaussian import classical_sigma
from leakledger.defenses.accounting.mechanism import GaussianMechanism, Relation
from leakledger.preprocess.options import option


@dataclass(frozen=True)
class FlowerLocalDp(Reader):
    """The settings of one client; the claim is of every round on its own, unless rounds are stated."""

    name = "flower-local-dp"
    source = "Flower's LocalDpMod"
    classes = ("LocalDpMod",)

    clipping_norm: float = option(above=0, help="L2 norm that an update is clipped to")
    sensitivity: float = option(at_least=0, help="what the noise is computed from")
    epsilon: float = option(above=0, help="what the noise is computed from, and what is claimed")
    delta: float = option(above=0, below=1, help="delta of the claim")
    rounds: int | None = option(None, at_least=1, help="rounds that the client takes part in")
    relation: Relation = option("replace", help="local privacy compares any two data sets; add-remove: one with none")

    def reading(self) -> Reading:
        sigma = classical_sigma(self.epsilon, self.delta, self.sensitivity)
        explained = (self._explained(sigma), rounds_in_words(self.rounds or 1, self.rounds is not None))
        unknown = (
            COINS,
            PRECISION,
            "whether the clipping runs on the whole update: buffers and counters beside the weights leave as they are",
        )
        if sigma == 0:
            does: GaussianMechanism | Nothing = Nothing(f"sensitivity is {self.sensitivity:g}, so no noise is added")
        else:
            does = GaussianMechanism(
                sigma / self.clipping_norm, self.rounds or 1, unit="client", relation=self.relation
            )
        return Reading(self.source, self.epsilon, self.delta, does, explained, unknown)

    def _explained(self, sigma: float) -> str:
        least = 2 * self.clipping_norm if self.relation == "replace" else self.clipping_norm
        noise = f"The noise has standard deviation {sigma:.6g}, computed from sensitivity = {self.sensitivity:g}."
        if self.sensitivity < least:
            times = f"{least / self.sensitivity:,.6g} times what" if self.sensitivity else "and for nothing"
            return (
                f"{noise} But updates are clipped to {self.clipping_norm:g} (clipping_norm), so a client's data can "
                f"move its update by {least:g}: {times} the noise is made for. Nothing compares the two parameters; "
                f"sensitivity has to be {least:g} or more, or clipping_norm smaller."
            )
        return f"{noise} That covers what a client's data can move under clipping_norm = {self.clipping_norm:g}."
