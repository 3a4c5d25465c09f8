"""Which values each party holds of each feature: what the attacks `vocabulary` and `membership` share."""
