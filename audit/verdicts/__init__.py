"""Verdicts: what an audit may say of each setting, kind of adversary and asset; everything else quotes these.

`rulings` decides, from `evidence` (what attacks found, cluster by cluster), `significance` (is it more than the prior?)
and `ceilings` (could it be more than the ceiling?); `words` says it in sentences, `plan` says beforehand what it takes.
"""
