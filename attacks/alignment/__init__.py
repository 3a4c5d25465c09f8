"""Attacks on aligned schemas: updates of a head on text embeddings give the attributes of records."""

from leakledger.attacks.alignment.attributes import AttributeSearch

__all__ = ["AttributeSearch"]
