"""LeakLedger: a privacy audit for federated learning on tabular data.

The one importable name of an installation. Inside the repository its five packages stand at the top level; here are
relative links to them, so that `leakledger.audit` is `audit/` and nothing of the project collides with a user's own
`audit` or `reports`.
"""
