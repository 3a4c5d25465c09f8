"""The configuration that `leakledger init` writes: every section with its defaults, explained."""

STARTER = """\
# An audit. Every value shown is the default unless it says otherwise; delete what you do not change.
# Check it with `leakledger validate FILE`, run it with `leakledger run FILE`.

[data]
source = "fair"          # an embedded table (`leakledger list data`), a .csv, .csv.gz or .parquet file,
                         # or a list of files, one per party (then set partition.kind = "files")
# schema = "table.schema.toml"   # found by itself when it lies beside the file
# target = "outcome"             # needed when no schema names it
missing = "error"        # or "drop", "impute"
test_fraction = 0.2

[partition]
kind = "iid"             # `leakledger list partitions`
parties = 4
minimum = 10             # rows that every party keeps
# beta = 0.5             # of the Dirichlet and noise partitions
# column = "hospital"    # of the partition by a column

# One table per method to compare (`leakledger list encoders`, `leakledger list scalers`).
[[preprocessing]]
encoder = "server-dictionary"
scaler = "server-zscore"

[[preprocessing]]
encoder = "local"
scaler = "local"

[model]
hidden = [100, 100]
activation = "relu"

# One table per training to compare.
[[training]]
algorithm = "fedsgd"     # or "fedavg"
rounds = 100
learning_rate = 0.1
batch_size = 8           # 0: all rows
local_epochs = 1         # fedavg only
participation = 1.0
# patience = 10          # stop after so many rounds without a better validation loss

# One table per defense to compare.
[[defense]]
name = "none"

# [[defense]]
# name = "gaussian-noise"
# sigma = 0.01

[attacks]
# `leakledger list attacks`
use = ["plaintext", "portfolio", "statistics", "ring_size", "vocabulary", "membership", "sac_audit"]
rounds = [0]             # training rounds whose updates are attacked
labels = "known"         # granted to the adversary; "recovered": taken from the gradient
# label_recovery = "bias"   # or "weights": how
bounds = "public"        # "known" also grants the global bounds of numeric features
dictionaries = "none"    # "known" grants every value that any party holds of a categorical feature
marginals = "none"       # "known" grants how frequent each value is over all parties
dependencies = "none"    # "known" grants, for each feature below, which of its values goes with which of another's
# determined = { education-num = "education" }   # the categorical feature that determines it

[attacks.tableak]
restarts = 30
iterations = 1500

[audit]
seeds = [0, 1]           # every combination runs once per seed; intervals are over seeds, clients and batches
observers = ["server", "clients"]   # each of these alone; coalitions: "server+P2", "coalitions of 2", "all but one",
                                    # "neighbours of P3", "server+clients"
# jobs = 2               # cases at a time; default: one per core
device = "cpu"
"""
