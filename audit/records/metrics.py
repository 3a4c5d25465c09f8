"""What each metric is called where people read it; files, configurations of gates and JSON have its own name."""

from leakledger.audit.records.assets import ASSETS, HEADLINE, INFORMATION

TITLES = {
    **{metric: heading for metric, heading in ASSETS.items() if metric not in HEADLINE},
    "accuracy": "accuracy",
    "categorical_accuracy": "categories right",
    "numeric_accuracy": "numbers right",
    "worst_record": "cells of the best recovered row",
    "exact_rows": "rows with every cell right",
    "identical_rows": "identical rows",
    "owner": "owners of identical rows",
    "verified_rows": "verified rows",
    "false_verified": "rows falsely verified",
    "rmse": "root mean squared error",
    "f1": "F1",
    "precision": "precision",
    "recall": "recall",
    "count": "row count",
    "target_rate": "rates of the outcome",
    "held_out_count": "count of held-out rows",
    "held_out_rate": "rates of the outcome in held-out rows",
    "held_out_mean": "mean of the target in held-out rows",
    "held_out_std": "deviation of the target in held-out rows",
    "size": "numbers of distinct values",
    "size_error": "error of the sizes",
    "size_coverage": "intervals that hold the size",
    "false_exact": "sizes wrongly said to be exact",
    "count_rank": "rank correlation of counts",
    "tpr_at_0.1%": "held values found at 0.1 % false alarms",
    "tpr_at_1%": "held values found at 1 % false alarms",
    "correlation": "correlation with the true column",
    "exact_values": "exact values of the column",
    "auc": "AUC",
    "macro_f1": "macro F1",
    "weighted_f1": "F1 weighted by class sizes",
    "f1_without_features": "F1 without the features",
    "majority_f1": "F1 of the commonest class alone",
    "majority_accuracy": "accuracy of the commonest class alone",
    "majority_weighted_f1": "weighted F1 of the commonest class alone",
    "auroc": "AUROC",
    "r2": "R²",
    "mae": "mean absolute error",
    "truncated": "texts that lost their end",
}


def plain_name(metric: str) -> str:
    """A metric's name without case and spelling: `Input width` and `input-width` are `input_width`."""
    return metric.strip().lower().replace(" ", "_").replace("-", "_").replace("²", "2").replace("^", "")


def metric_title(metric: str) -> str:
    """A metric's name as a reader knows it; for one without a title its own, in words."""
    name = plain_name(metric)
    if name not in TITLES and name.endswith(INFORMATION):
        return f"information on {metric_title(name.removesuffix(INFORMATION))}"
    return TITLES.get(name, metric.replace("_", " "))
