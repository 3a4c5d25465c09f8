"""Gradient-boosted trees on all parties' rows: what FedXGBoost computes.

Source: Le et al., "FedXGBoost: Privacy-Preserving XGBoost for Federated Learning", arXiv:2106.10662. Its variant SMM is
lossless: secure sums of gradients stand where XGBoost has its own, and the trees are those that XGBoost grows on the
columns of all parties together. So a kept library's histogram boosting on the pooled columns is its outcome, up to the
library. (The variant LDP adds noise, and is not here.)

Readings. FedXGBoost is for parties with different columns of the same records; here parties have different records, and
the trees get the columns that the other methods get. One tree per round of the training that all methods have; the
paper on FedLLM-Align states neither number nor depth. Otherwise the defaults of XGBoost: rate 0.3, depth 6, L2 of 1,
256 bins; its floor of 1 on a leaf's sum of second derivatives has no counterpart in scikit-learn, where a leaf may have
a single row. Values are imputed as for the other methods.
"""

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from leakledger.audit.benchmarks.fedllm_task import HeldOut, Task, columns_of, counted, stacked
from leakledger.preprocess.training.evaluation import counts_of

RATE, DEPTH, L2 = 0.3, 6, 1.0  # XGBoost's eta, max_depth and lambda


def trees(task: Task, encoder: str = "") -> HeldOut:
    train_rows, test_rows = columns_of(task)
    together = stacked(train_rows)
    model = boosting(task.training.rounds).fit(together.rows, together.labels)
    return counted(*(counts_of(np.asarray(model.predict_proba(own.rows)), own.labels) for own in test_rows.values()))


def boosting(number: int) -> HistGradientBoostingClassifier:
    """So many trees, grown to the depth and not by leaves; nothing in it is drawn at random."""
    return HistGradientBoostingClassifier(
        learning_rate=RATE,
        max_iter=number,
        max_depth=DEPTH,
        max_leaf_nodes=None,
        min_samples_leaf=1,
        l2_regularization=L2,
        early_stopping=False,
        random_state=0,
    )
