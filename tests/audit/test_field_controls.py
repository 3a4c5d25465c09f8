"""Messages that are made up for controls."""

from leakledger.audit.field_controls import sample
from leakledger.preprocess.messages import KINDS
from leakledger.preprocess.messages.base import check_kind


def test_of_every_kind_that_may_be_declared_a_message_can_be_made_up():
    for kind in [k for k in KINDS.values() if k.__module__.startswith("leakledger.")]:
        check_kind(kind)
        assert isinstance(sample(kind), kind)
