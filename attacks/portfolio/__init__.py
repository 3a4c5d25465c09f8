"""Portfolio: exact attacks first, TabLeak for what they leave."""

from attacks.portfolio.attack import Portfolio

__all__ = ["Portfolio"]
