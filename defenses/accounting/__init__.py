"""What clipping and noise are worth: exact epsilons, what no adversary can do under them, and when there is none.

Read bottom-up: `gaussian` (one mechanism, closed form), `mechanism` (what is known of a deployment), `subsampling`
(batches drawn by chance, numerically), `guarantee` (a mechanism and a delta in, epsilon out), `reconstruction` (success
of any adversary), `chain` (which mechanism a list of defenses amounts to, or why it amounts to none), `releases`
(noised statistics and training under one budget).
"""
