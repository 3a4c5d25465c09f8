"""Attacks on aligned schemas: updates of a head on text embeddings give the attributes of records."""

from leakledger.attacks.gradient.attribute_search.attribute_search import AttributeSearch

__all__ = ["AttributeSearch"]
