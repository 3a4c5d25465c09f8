from leakledger.attacks.transcript.statistics.statistics import Statistics

__all__ = ["Statistics"]
