"""How updates become their mean, as protocols, by the name that configurations use."""

from leakledger.preprocess.aggregation.base import Aggregation
from leakledger.preprocess.aggregation.he_aggregation import HEAggregation
from leakledger.preprocess.aggregation.plain import Plain
from leakledger.preprocess.aggregation.secure_aggregation import SecureAggregation

__all__ = ["AGGREGATIONS", "Aggregation"]

AGGREGATIONS: dict[str, type[Aggregation]] = {a.name: a for a in (Plain, SecureAggregation, HEAggregation)}
