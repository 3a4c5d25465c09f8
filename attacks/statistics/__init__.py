from attacks.statistics.attack import Statistics

__all__ = ["Statistics"]
