"""What is measured, what its perfect value is, and how far an attack is from the prior towards it."""

from dataclasses import dataclass

PERFECT = {
    "accuracy": 1.0,
    "categorical_accuracy": 1.0,
    "numeric_accuracy": 1.0,
    "exact_rows": 1.0,
    "identical_rows": 1.0,
    "verified_rows": 1.0,
    "false_verified": 0.0,
    "rmse": 0.0,
    "f1": 1.0,
    "precision": 1.0,
    "recall": 1.0,
    "count": 1.0,
    "mean": 1.0,
    "std": 1.0,
    "minimum": 1.0,
    "maximum": 1.0,
    "size": 1.0,
}

DESCRIPTIONS = {
    "accuracy": "share of cells right after matching rows (numeric cells within 0.319 standard deviations)",
    "categorical_accuracy": "share of categorical cells right",
    "numeric_accuracy": "share of numeric cells within 0.319 standard deviations",
    "exact_rows": "share of rows with every cell right",
    "verified_rows": "share of rows that the attack says it has proven",
    "false_verified": "share of the rows marked verified that are not identical to a true row",
    "identical_rows": "share of rows with every category right and every number within 0.001 standard deviations",
    "rmse": "root mean squared error of numeric cells, in standard deviations",
    "f1": "Dice overlap of claimed and held values, mean over features",
    "precision": "share of claimed values that the party holds",
    "recall": "share of held values that were claimed",
    "count": "the party's number of training rows is known exactly",
    "mean": "share of numeric features whose local mean is known within 1 % of a standard deviation",
    "std": "share of numeric features whose local deviation is known within 1 % of a standard deviation",
    "minimum": "share of numeric features whose local minimum is known within 1 % of a standard deviation",
    "maximum": "share of numeric features whose local maximum is known within 1 % of a standard deviation",
    "size": "share of categorical features whose number of distinct local values is known exactly",
}


@dataclass(frozen=True)
class Measured:
    """One metric in one cluster: the attack's value beside the prior's."""

    asset: str
    metric: str
    victim: str
    round: int
    value: float
    baseline: float
    evidence: tuple[int, ...] = ()


def advantage(metric: str, value: float, baseline: float) -> float | None:
    """(value - baseline) / (perfect - baseline); None where the prior alone is already perfect."""
    room = PERFECT[metric] - baseline
    return None if abs(room) < 1e-12 else (value - baseline) / room
