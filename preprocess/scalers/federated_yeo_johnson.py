"""`federated-yeo-johnson`: columns bent by the likeliest power over all rows, then scaled to mean 0 and deviation 1.

Source: "Bridging Local and Federated Data Normalization in Federated Learning", sections III-A and IV-A, which has no
algorithm for it and refers to Marchand et al., "SecureFedYJ: a safe feature Gaussianization protocol for federated
learning". This is the federated variant without any protection: clients tell the server their count and sums, and in
each round mean and squared deviations of every column under several powers (`power_search`). Theirs hides all of it
and learns one sign a round.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from leakledger.preprocess.federation import At, Federation
from leakledger.preprocess.messages import GlobalPowers, LocalLogs, LocalPowerMoments, TriedPowers
from leakledger.preprocess.options import check_options, option
from leakledger.preprocess.scalers.base import Matrix, Scaler, ScalerFit, shared_fit
from leakledger.preprocess.scalers.one_party import POWERS, PRECISION, REACH, check_columns, of_powers
from leakledger.preprocess.scalers.power_search import (
    PowerSearch,
    local_logs,
    local_moments,
    narrowed,
    rounds,
    start,
    tried,
)


@dataclass(frozen=True)
class FederatedYeoJohnson(Scaler):
    reach: float = option(REACH, above=0, at_most=8, help="how far from 1, which changes nothing, a power may be")
    power_precision: float = option(PRECISION, at_least=1e-9, below=1, help="to which a power is sought")
    powers: int = option(POWERS, at_least=3, at_most=99, help="tried in a round, an odd number; more take fewer rounds")

    name = "federated-yeo-johnson"
    reference = "Bridging Local and Federated Data Normalization in Federated Learning, sections III-A and IV-A"
    said_to_share = (
        "each client's rows, and its moments under every power that is tried, with the server; powers, pooled mean and "
        "deviation, with all (ours: the section names no exchange)"
    )

    def __post_init__(self) -> None:
        check_options(self)
        check_columns("yeo-johnson", self.columns)
        if self.powers % 2 == 0:
            raise ValueError(f"powers is {self.powers}; it must be odd, so that one is the best of the round before")

    def fit(self, fed: Federation, columns: Mapping[str, At[Matrix]]) -> ScalerFit:
        logs = fed.gather({c: fed.local(c, local_logs, x) for c, x in columns.items()}, to=fed.server)
        search = fed.local(fed.server, begun, self.reach, *logs)
        for number in range(rounds(self.reach, self.power_precision, self.powers)):
            with fed.scope(fed.step, number):
                powers = fed.broadcast(fed.local(fed.server, partial(tried, powers=self.powers), search))
                moments = {c: fed.local(c, local_moments, x, powers) for c, x in columns.items()}
                received = fed.gather(moments, to=fed.server)
                search = fed.local(fed.server, next_search, len(logs), search, powers, *logs, *received)
        result = fed.broadcast(fed.local(fed.server, PowerSearch.result, search), kind=GlobalPowers)
        return shared_fit(fed, columns, fed.public(of_powers, result))


def begun(reach: float, *logs: LocalLogs) -> PowerSearch:
    return start(len(logs[0].total), reach)


def next_search(
    clients: int, search: PowerSearch, powers: TriedPowers, *told: LocalLogs | LocalPowerMoments
) -> PowerSearch:
    """`told`: first the logs of all clients, then their moments."""
    logs = [t for t in told[:clients] if isinstance(t, LocalLogs)]
    return narrowed(search, powers, logs, *(t for t in told[clients:] if isinstance(t, LocalPowerMoments)))
