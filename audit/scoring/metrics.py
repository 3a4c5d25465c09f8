"""What is measured, what its perfect value is, and how far an attack is from the prior towards it."""

from dataclasses import dataclass

from leakledger.audit.records import ASSETS, HEADLINE, INFORMATION, CellDetail, Level

STATISTICS = tuple(a for a in ASSETS if a not in HEADLINE)

PERFECT = {
    "accuracy": 1.0,  # share of cells right after matching rows (numeric cells within 0.319 standard deviations)
    "categorical_accuracy": 1.0,  # share of categorical cells right
    "numeric_accuracy": 1.0,  # share of numeric cells within 0.319 standard deviations
    "worst_record": 1.0,  # share of cells right in the row of the batch that is recovered best
    "exact_rows": 1.0,  # share of rows with every cell right
    "identical_rows": 1.0,  # share of rows with every category right and every number within 0.001 standard deviations
    "owner": 1.0,  # of a sum over clients: share of the identical rows whose owner is named right; unnamed: by chance
    "verified_rows": 1.0,  # share of rows that the attack says it has proven
    "false_verified": 0.0,  # share of the rows marked verified that are not identical to a true row
    "rmse": 0.0,  # root mean squared error of numeric cells, in standard deviations
    "f1": 1.0,  # Dice overlap of claimed and held values, mean over features
    "precision": 1.0,  # share of claimed values that the party holds
    "recall": 1.0,  # share of held values that were claimed
    "count": 1.0,  # the party's number of training rows is known exactly
    "mean": 1.0,  # share of numeric features whose local mean is known within 1 % of a standard deviation
    "std": 1.0,  # share of numeric features whose local deviation is known within 1 % of a standard deviation
    "minimum": 1.0,  # share of numeric features whose local minimum is known within 1 % of a standard deviation
    "maximum": 1.0,  # share of numeric features whose local maximum is known within 1 % of a standard deviation
    "quantile": 1.0,  # share of quartiles of numeric features that are known within 1 % of a standard deviation
    "frequency": 1.0,  # share of values of all features whose local share of rows is known
    "target_rate": 1.0,  # share of local rates of the positive class, over all rows and by value, that are known
    "held_out_count": 1.0,  # the party's number of held-out rows is known exactly
    "held_out_rate": 1.0,  # share of classes whose share of the party's held-out rows is known
    "held_out_mean": 1.0,  # the mean target of held-out rows is known within 1 % of a standard deviation
    "held_out_std": 1.0,  # the deviation of that target is known within 1 % of a standard deviation
    "size": 1.0,  # share of categorical features whose number of distinct local values is known exactly
    "size_error": 0.0,  # mean error of claimed sizes, relative to the joint dictionary
    "size_coverage": 0.9,  # share of claimed intervals that hold the size: as many as the attack promises, no more
    "false_exact": 0.0,  # share of the sizes claimed as exact that are wrong
    **{f"{statistic}{INFORMATION}": 1.0 for statistic in STATISTICS},  # share of the bits that the prior leaves
    "count_rank": 1.0,  # rank correlation of claimed and true counts of values, mean over features
    "tpr_at_0.1%": 1.0,  # share of held values found while one in a thousand others is taken for held
    "tpr_at_1%": 1.0,  # share of held values found while one in a hundred others is taken for held
    "correlation": 1.0,  # of a claimed column with the true one, record by record, mean over columns
    "exact_values": 1.0,  # share of the records of claimed columns whose value is exact
    "auc": 1.0,  # probability that a held value ranks above one that is not
}


@dataclass(frozen=True)
class Measured:
    """One metric in one cluster: the attack's value beside the prior's, in the fields of `records.Trial`. The headline
    metric of records has the detail.
    """

    asset: str
    metric: str
    victim: str
    round: int
    value: float
    baseline: float
    evidence: tuple[int, ...] = ()
    detail: CellDetail | None = None
    certain: int = 0
    certain_wrong: int = 0
    spread: float = 0.0
    draws: int = 0
    level: Level = ""
    bound: float | None = None


def advantage(metric: str, value: float, baseline: float) -> float | None:
    """(value - baseline) / (perfect - baseline); None where the prior alone is already perfect."""
    room = PERFECT[metric] - baseline
    return None if abs(room) < 1e-12 else (value - baseline) / room
