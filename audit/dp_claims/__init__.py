"""Claims of differential privacy against what the settings behind them do: `leakledger check-dp`."""
