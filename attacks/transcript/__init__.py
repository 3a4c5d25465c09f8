"""Attacks on what parties exchange in preprocessing, one file or folder per technique; `holdings` is shared."""
