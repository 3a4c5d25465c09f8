"""Imputation in a federation: every party fills its missing values by its own training rows, and tells nobody."""

from collections.abc import Mapping

from leakledger.preprocess.data.impute import fill, filling_of
from leakledger.preprocess.data.table import Table
from leakledger.preprocess.federation import At, Federation

Tables = dict[str, At[Table]]


def impute(fed: Federation, train: Mapping[str, At[Table]], test: Mapping[str, At[Table]]) -> tuple[Tables, Tables]:
    """Training and held-out tables of every party, complete. No messages.

    Raises DataError, with the party in a note, where a party's training rows hold nothing to fill a feature with.
    """
    with fed.scope("impute"):
        filling = {c: fed.local(c, filling_of, t) for c, t in train.items()}
        return (
            {c: fed.local(c, fill, t, filling[c]) for c, t in train.items()},
            {c: fed.local(c, fill, t, filling[c]) for c, t in test.items()},
        )
