"""The contracts that every method keeps, as base classes for the tests of one's own: subclass one, name your class.

    from leakledger.audit.contracts import EncoderContract

    class TestTally(EncoderContract):
        encoder = Tally

pytest collects the inherited tests. They need the method to be installed with its entry point, as an audit does.
"""

from leakledger.audit.contracts.attack import AttackContract
from leakledger.audit.contracts.defense import DefenseContract
from leakledger.audit.contracts.encoder import EncoderContract
from leakledger.audit.contracts.reader import ReaderContract
from leakledger.audit.contracts.scaler import ScalerContract

__all__ = ["AttackContract", "DefenseContract", "EncoderContract", "ReaderContract", "ScalerContract"]
