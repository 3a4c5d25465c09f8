"""Cryptography for protocols: thin layers over known libraries, and secret sharing."""
