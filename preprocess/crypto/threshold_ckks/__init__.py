"""Multiparty CKKS: parties encrypt under one collective key, and only all of them together can decrypt.

For auditing, not reviewed for production. Nobody but its authors has checked this code; it runs at the speed of numpy,
not in constant time, and a machine that it runs on can be watched. What it shows of a protocol's messages, sizes,
rounds and precision is what such a protocol has; do not entrust it with data.

Source: Mouchet, Troncoso-Pastoriza, Bossuat and Hubaux, "Multiparty homomorphic encryption from ring-learning-with-
errors", PETS 2021, on CKKS (Cheon, Kim, Kim and Song, ASIACRYPT 2017). Products, rescaling and rotations of
ciphertexts are Microsoft SEAL's (`tenseal.sealapi`, the extra `he`); keys, shares, encryption and decryption are here.

* `parameters`  one table: ring, primes, security, depth
* `primes`, `ring`, `sampling`  polynomials over the primes, and what is drawn at random
* `encoding`, `packing`  numbers as polynomials; polynomials as bytes, and what is refused
* `collective_keys`  the parties' shares of the public, relinearisation and rotation keys
* `ciphertexts`, `evaluator`  encryption, and arithmetic on ciphertexts
* `decryption`, `refresh`  the parties' shares of a decryption, with smudging noise, and of a refresh
* `inverse`, `comparison`  what normalisation computes on ciphertexts
* `protocol`  who sends what to whom
* `wide`  quotients whose decryption hides all noise

Adversary: honest but curious. All parties but one may collude, and with the server: shares of that one are then as
good as random (ring learning with errors), and smudging hides its part of what decryption shows. Nothing proves that
a party did as it should: one that adds to its share changes the result. The last to contribute to the common seed could
choose among seeds.
"""
