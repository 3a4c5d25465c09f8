"""How messages travel: simulated in one process, or projected onto one process per party."""
