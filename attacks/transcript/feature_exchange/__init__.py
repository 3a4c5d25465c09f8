"""What exchanged features tell of the columns behind them."""
