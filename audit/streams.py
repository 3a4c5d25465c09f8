"""One stream of coins for each use of a case's seed, so that a new use leaves the others as they were."""

import numpy as np

ATTACK_STREAM, BASELINE_STREAM, CONTROL_STREAM, SCORER_STREAM = 2_001, 2_002, 2_003, 2_004


def stream(seed: int, use: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(use,)))
