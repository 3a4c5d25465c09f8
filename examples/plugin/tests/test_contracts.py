"""The contracts that LeakLedger ships, over everything that this plugin adds."""

from leakledger_tally.attack import TallyCountsRead
from leakledger_tally.defense import Sign
from leakledger_tally.encoder import Tally
from leakledger_tally.scaler import MaxAbs

from leakledger.audit.contracts import AttackContract, DefenseContract, EncoderContract, ReaderContract, ScalerContract


class TestTally(EncoderContract):
    encoder = Tally


class TestMaxAbs(ScalerContract):
    scaler = MaxAbs


class TestTallyCountsRead(AttackContract):
    attack = TallyCountsRead


class TestSign(DefenseContract):
    defense = Sign()


class TestJsonLines(ReaderContract):
    suffix = ".jsonl"

    def write(self, frame, path):
        frame.to_json(path, orient="records", lines=True)
