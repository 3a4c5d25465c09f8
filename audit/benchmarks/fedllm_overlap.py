"""FedLLM-Align: F1 beside table 8 of the paper, three clients who share fewer and fewer features.

Setting as in `fedllm_f1`, but that the baselines have only the features that all clients have. The paper does not say
of which data table 8 is: its figures stand beside Framingham's.
"""

from collections.abc import Iterator

from leakledger.audit.benchmarks.base import Options, Row
from leakledger.audit.benchmarks.fedllm_f1 import STRESS, quality

LABELS = "fedllm-align, random", "homogeneous", "fedxgboost", "mutual information"


def run(options: Options) -> Iterator[Row]:
    """Rows for each table and overlap; quick: the largest overlap."""
    for source in options.data or ("fair",):
        for overlap in list(STRESS["fedllm-align"])[: 1 if options.quick else None]:
            yield from quality(options, source, 3, overlap, "common", LABELS)
