"""Which labels the rows of a batch have, from its gradient: one file per technique.

Rows of a batch have no order, so counts are all that labels can tell an attack. The gradient of a single row gives its
label away exactly at any network: the class whose bias has the negative entry (iDLG, Zhao et al. 2020).
"""

from leakledger.attacks.observed.labels.bias import counts_from_bias, recover_labels, whole_counts
from leakledger.attacks.observed.labels.plausible import plausible_cells, plausible_rows, public_frequencies
from leakledger.attacks.observed.labels.weights import counts_from_weights, recover_labels_from_weights

__all__ = [
    "RECOVERIES",
    "counts_from_bias",
    "counts_from_weights",
    "plausible_cells",
    "plausible_rows",
    "public_frequencies",
    "recover_labels",
    "recover_labels_from_weights",
    "whole_counts",
]

RECOVERIES = {"bias": recover_labels, "weights": recover_labels_from_weights}
