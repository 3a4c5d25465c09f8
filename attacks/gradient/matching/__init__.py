"""Gradient matching: the objective, its optimiser and the ensemble, for every attack that searches by restarts."""
