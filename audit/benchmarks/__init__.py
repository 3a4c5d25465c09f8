"""Benchmarks: figures that the project states, each by a command, measured beside published ones."""
