"""Federated feature engineering over devices that hold other columns of the same records."""
