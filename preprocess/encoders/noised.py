"""What encoders share that send tables of noised counts (`noise.categories`): their budget, and what they refuse."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.encoders.base import Encoder
from leakledger.preprocess.noise.calibration import Noise
from leakledger.preprocess.noise.categories import declared_domains, describe_tables, table_noise
from leakledger.preprocess.options import option
from leakledger.preprocess.views import Mechanism


@dataclass(frozen=True)
class NoisedEncoder(Encoder):
    """An encoder that can add noise to what clients send: discrete Laplace, or with `encoder_delta` Gaussian."""

    encoder_epsilon: float | None = option(
        None, above=0, help="budget of a client's tables of values: counts are sent with noise; none: as they are"
    )
    encoder_delta: float = option(
        0.0, at_least=0, below=1, help="0: Laplace noise; above: Gaussian noise of this (epsilon, delta)"
    )

    def domains(self, schema: Schema) -> dict[str, tuple[str, ...]]:
        """The declared values of each feature. Raises ValueError for a feature without."""
        return declared_domains(schema, self.name)

    def noise(self, domains: Mapping[str, Sequence[str]]) -> Noise:
        """The noise on each count. Raises ValueError where the budget asks for more than there is."""
        assert self.encoder_epsilon is not None
        return table_noise(domains, self.encoder_epsilon, self.encoder_delta)

    def described(self, schema: Schema, topic: str) -> tuple[Mechanism, ...]:
        if self.encoder_epsilon is None:
            return ()
        domains = self.domains(schema)
        return describe_tables(domains, self.noise(domains), topic)

    @property
    def unprotected(self) -> str:
        return "" if self.encoder_epsilon is not None else super().unprotected
