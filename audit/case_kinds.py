"""The kinds of cases by what their parties do: who runs the federation of one, and what is true in it."""

from typing import Any

from leakledger.audit.aligned_truth import AlignedTruth
from leakledger.audit.case import Case
from leakledger.audit.config import Config
from leakledger.audit.federate import Federated, OnAbort, federate
from leakledger.audit.federate_alignment import AlignedCase, align
from leakledger.audit.federate_features import Engineered, engineer
from leakledger.audit.truth import Truth
from leakledger.audit.vertical_truth import VerticalTruth


def run_federation(
    config: Config, case: Case, master: bytes, on_abort: OnAbort = lambda ledger, public: None
) -> Federated:
    """What the parties of the case do: make features, align schemas, or preprocess and train."""
    run: Any = engineer if case.features is not None else align if case.alignment is not None else federate
    federated: Federated = run(config, case, master, on_abort)
    return federated


def truth_of(federated: Any) -> Truth:
    """The truth of what a case left, whichever way its parties divide a table."""
    if isinstance(federated, Engineered):
        return VerticalTruth(federated)
    return AlignedTruth(federated) if isinstance(federated, AlignedCase) else Truth(federated)
