"""What each kind of adversary learns of each asset in each setting: the table beside what methods are said to share.

A kind is the server, one client, so many clients together, or the server with them. Of a kind and an asset one score
counts, that of one attack by one adversary: the one whose advantage has the highest lower bound, if that lies above 0;
where none does, nothing is shown of any, and the highest advantage counts.

The best of many looks better than it is, so intervals are widened until those of all k scores that were compared hold
at once (Bonferroni): as much wider as Student-t at level 1 - 0.05 / k is. Then that of the chosen one holds, however it
was chosen. Nothing else is allowed for: of many rows of the table, some are wrong. Verdicts are `audit.verdicts`'.
"""

from collections import defaultdict
from collections.abc import Sequence

from leakledger.audit.intervals import CONFIDENCE, quantile
from leakledger.audit.records import ASSETS, CaseRecord, Leakage, Observers, Score, speaks

SERVER = "server"  # its name in every audit
Limits = tuple[float | None, float | None]


def leakage_table(records: Sequence[CaseRecord], all_scores: Sequence[Score]) -> tuple[Leakage, ...]:
    """One row per setting, kind of adversary that was played and asset that the audit has any claim about."""
    groups: dict[tuple[str, str, str], list[Score]] = defaultdict(list)
    played: dict[str, dict[str, Observers]] = defaultdict(dict)  # by setting and kind, one of them
    for s in all_scores:
        played[s.setting].setdefault(adversary(s.observers), s.observers)
        if s.value is not None and speaks(s.asset, s.metric):
            groups[s.setting, adversary(s.observers), asset_of(s)].append(s)
    claimed = [a for a in ASSETS if any(a == asset for *_, asset in groups)]
    return tuple(
        best(groups[setting, kind, asset], Leakage(setting, kind, asset, _possible(records, setting, one, asset), None))
        for setting, kinds in played.items()
        for kind, one in sorted(kinds.items(), key=lambda item: _order(item[1]))
        for asset in claimed
    )


def adversary(observers: Observers) -> str:
    """The kind of adversary in words: "server", "one client", "2 clients", "server and one client"."""
    clients = len(observers) - (SERVER in observers)
    words = ["server"] if SERVER in observers else []
    words += [] if not clients else ["one client"] if clients == 1 else [f"{clients} clients"]
    return " and ".join(words)


def asset_of(score: Score) -> str:
    """The asset, or the statistic where each stands for itself."""
    return score.asset if score.asset in ASSETS else score.metric


def best(group: Sequence[Score], row: Leakage) -> Leakage:
    """`row` with the score that counts, one whose controls held before others; as it is for none."""
    if not group:
        return row
    limits = [widened(s, len(group)) for s in group]

    def rank(k: int) -> tuple[bool, bool, float, int]:
        low = limits[k][0]
        shown = low is not None and low > 0
        bound = low if shown else group[k].advantage
        return group[k].status == "scored", shown, float("-inf") if bound is None else bound, group[k].clusters

    top = max(range(len(group)), key=rank)
    low, high = limits[top]
    return Leakage(row.setting, row.adversary, row.asset, row.possible, group[top], len(group), low, high)


def widened(score: Score, among: int) -> Limits:
    """The interval of the advantage such that those of `among` scores hold together at 95 %; at most 1.

    None below two clusters, and where the prior alone is right.
    """
    gain, low, high, clusters = score.advantage, score.advantage_low, score.advantage_high, score.clusters
    if gain is None or low is None or high is None:
        return None, None
    wider = quantile(clusters, 1 - (1 - CONFIDENCE) / among) / quantile(clusters)
    return gain - (gain - low) * wider, min(gain + (high - gain) * wider, 1.0)


def _possible(records: Sequence[CaseRecord], setting: str, observers: Observers, asset: str) -> int:
    """The clusters of a setting: other clients x seeds, of records times the rounds that are attacked."""
    cases = [r for r in records if r.setting.id == setting]
    rounds = {t.round for r in cases for t in r.trials if t.asset == "records" and t.victim}
    others = cases[0].setting.parties - sum(o != SERVER for o in observers)
    return len(cases) * others * max(len(rounds) if asset == "records" else 1, 1)


def _order(observers: Observers) -> tuple[bool, int]:
    """The server first, then clients by number, then both together."""
    return observers != (SERVER,) and SERVER in observers, 0 if observers == (SERVER,) else len(observers)
