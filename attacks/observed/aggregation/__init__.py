"""What observers work out of updates that were aggregated under masks or encryption."""

from leakledger.attacks.observed.aggregation.recovered import with_recovered
from leakledger.attacks.observed.aggregation.vectors import Aggregate, error_of_mean
from leakledger.attacks.observed.aggregation.worked_out import aggregates

__all__ = ["Aggregate", "aggregates", "error_of_mean", "with_recovered"]
