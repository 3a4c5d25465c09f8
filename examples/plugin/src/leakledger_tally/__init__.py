"""An example of a plugin: see `pyproject.toml` for what it adds."""
