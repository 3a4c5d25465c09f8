"""Which features determine which: the map from values to values that an adversary may be granted, and its check."""

from collections.abc import Collection, Mapping

import pandas as pd

from leakledger.attacks.base import Dependencies
from leakledger.audit.records import plural
from leakledger.preprocess.data.schema import Schema
from leakledger.preprocess.data.suggest import closest
from leakledger.preprocess.data.table import Table


def known_dependencies(tables: Collection[Table], determined: Mapping[str, str]) -> Dependencies:
    """For each determined feature and the categorical one that determines it: value -> value, or number in raw units.

    Raises ValueError, in one line, for a feature that is unknown, for one that is not categorical but is to determine
    another, and where rows of `tables` contradict a dependency. The line names no value of the data.
    """
    schema = next(iter(tables)).schema
    found = {}
    for feature, by in determined.items():
        _check_names(schema, feature, by)
        pairs = pd.concat([t.frame[[by, feature]] for t in tables]).drop_duplicates()
        several = int((pairs[by].value_counts() > 1).sum())
        if several:
            raise ValueError(
                f"attacks.determined: {by!r} does not determine {feature!r}: {several} of its "
                f"{plural(pairs[by].nunique(), 'value goes', 'values go')} with several of {feature!r}; remove "
                "this pair"
            )
        kind = str if feature in schema.categorical else float
        found[by, feature] = {str(v): kind(w) for v, w in zip(pairs[by], pairs[feature], strict=True)}
    return found


def _check_names(schema: Schema, feature: str, by: str) -> None:
    for name, known in ((feature, schema.features), (by, schema.categorical)):
        if name not in known:
            what = "categorical feature" if known is schema.categorical else "feature"
            raise ValueError(
                f"attacks.determined: {name!r} is no {what}{closest(name, known)}; choose one of {', '.join(known)}"
            )
    if feature == by:
        raise ValueError(f"attacks.determined: {feature!r} determines itself; name another feature")
