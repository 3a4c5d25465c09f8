"""Portfolio: exact attacks first, TabLeak for what they leave."""

from leakledger.attacks.gradient.portfolio.portfolio import Portfolio

__all__ = ["Portfolio"]
