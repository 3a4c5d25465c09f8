"""How bad a finding is, from 0 to 10: impact of what is known, times how likely somebody comes to know it.

Impact follows the grain of what is told: about a party, about who is among its rows, about attributes, whole rows, the
randomness that protected everything else. Likelihood is a product: how many must collude, what they must know beside
their view, and how much is got of what the prior leaves (the lower bound of what was measured; a deterministic finding
counts as all of it), from a half, since an attack that works at all gets better, up to one. The table is published in
docs/gate.md; the vector states every choice, so that anybody can compute the number again.
"""

from typing import Literal

from leakledger.audit.gate_records import Severity

Word = Literal["low", "medium", "high", "critical"]
IMPACT = {  # grain -> its impact
    "PP": 4.0,  # a statistic or size of one party
    "MB": 6.0,  # membership: who holds a value
    "AT": 8.0,  # attributes: cells of records, a party's values
    "RE": 9.5,  # whole records, proven
    "KE": 10.0,  # what hides everything else does not hide
}
KEYS = ("masks-reused", "parts-not-hiding", "codes-without-key")
COLLUSION = {1: 1.0, 2: 0.85}  # parties that must work together; more: 0.7
MORE = 0.7
KNOWLEDGE = {"N": 1.0, "G": 0.9}  # nothing granted beside the view, or side information
WORDS: tuple[tuple[float, Word], ...] = ((9.0, "critical"), (7.0, "high"), (4.0, "medium"), (0.0, "low"))


def severity(asset: str, what: str, observers: int, granted: bool, success: float, certain: bool = False) -> Severity:
    """The severity of what `observers` together get of an asset. `what`: the check that fired, or the asset.
    `success` in [0, 1], the lower bound of what was measured; `certain`: it is proven.
    """
    grain = _grain(asset, what, certain)
    known = "G" if granted else "N"
    got = 1.0 if certain else min(max(success, 0.0), 1.0)
    score = IMPACT[grain] * COLLUSION.get(observers, MORE) * KNOWLEDGE[known] * (0.5 + 0.5 * got)
    score = round(score, 1)
    word = next(word for least, word in WORDS if score >= least)
    return Severity(score, word, f"LL:1.0/GR:{grain}/CO:{observers}/SI:{known}/SU:{got:.2f}")


def _grain(asset: str, what: str, certain: bool) -> str:
    if what in KEYS:
        return "KE"
    if asset in ("records", "columns"):
        return "RE" if certain else "AT"
    return {"vocabulary": "AT", "membership": "MB"}.get(asset, "PP")
