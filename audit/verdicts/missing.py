"""What keeps a cell from the verdict that nothing leaks: silence is no evidence, so each reason has a name."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from leakledger.attacks.base import clients_of, whose
from leakledger.audit.bounds import above_bounds
from leakledger.audit.clusters import SEEDS, mean_interval
from leakledger.audit.leakage import SERVER, adversary
from leakledger.audit.records import (
    CELLWISE,
    HEADLINE,
    INFORMATION,
    POWER,
    SCORER,
    UNTIMED,
    CaseRecord,
    Observers,
    at_most,
    metric_title,
    plural,
)
from leakledger.audit.scoring.metrics import PERFECT
from leakledger.audit.verdicts.ceilings import fewest, independent, upper_bound
from leakledger.audit.verdicts.evidence import CHECKS, Cell, Key, Series, is_calibrator, played_by
from leakledger.audit.verdicts.policy import Policy
from leakledger.audit.verdicts.significance import FEWEST

UNDEFENDED = "none"
NAMED = 3  # columns that reasons name
HALVINGS = 7  # of the shares between which that of an open column lies: as many as two decimals tell
NOTHING = 1e-12  # of a metric's scale: what rounding makes of a prior that is perfect


def missing_for(
    records: Sequence[CaseRecord], key: Key, cell: Cell, usable: Sequence[Series], policy: Policy
) -> Iterator[str]:
    """What keeps a cell from the verdict that nothing leaks; nothing where it may be said."""
    yield from doubts_of(records, key, cell, usable)
    yield from too_much_open(key, usable, policy)


def too_much_open(key: Key, usable: Sequence[Series], policy: Policy) -> Iterator[str]:
    """What the bounds and the single scores of a cell leave open, whoever trusts its attacks."""
    if key[2] != CHECKS:
        yield from dict.fromkeys(_columns_unkept(usable))
        yield from dict.fromkeys(_all_unbounded(usable, policy, key[2] in CELLWISE))
        yield from (m for s in usable for m in _unlikely(s, policy))


def _columns_unkept(usable: Sequence[Series]) -> Iterator[str]:
    """The series of bits, or of the order of counts, without columns beside hits that have them: records from before
    these were kept have a column that is told in the mean of all alone.
    """
    kept = {(s.attack, s.observers, s.metric) for s in usable if s.column}
    for s in usable:
        hits = HEADLINE["vocabulary"] if s.metric == "count_rank" else s.metric.removesuffix(INFORMATION)
        own, beside = ((s.attack, s.observers, metric) in kept for metric in (s.metric, hits))
        if beside and not own:
            yield f"{metric_title(s.metric)}, by {s.who}, is on record of all columns together alone"


def _all_unbounded(usable: Sequence[Series], policy: Policy, batches: bool) -> Iterator[str]:
    """What `_unbounded` says of each series; of the columns of one metric it names a few and counts the others."""
    columns: dict[tuple[str, Observers, str], dict[str, None]] = defaultdict(dict)
    played = len({seed for s in usable for seed in s.seeds})
    for s in usable:
        found = dict.fromkeys(_unbounded(s, policy, batches, played))
        if s.column:
            columns[s.attack, s.observers, s.metric].update(found)
        else:
            yield from found
    for (attack, who, _), found in columns.items():
        yield from list(found)[:NAMED]
        if len(found) > NAMED:
            yield f"{attack} by {'+'.join(who)}: {plural(len(found) - NAMED, 'other column')} open as well"


def doubts_of(records: Sequence[CaseRecord], key: Key, cell: Cell, usable: Sequence[Series]) -> Iterator[str]:
    """What keeps a cell from that verdict whatever its numbers are."""
    setting, kind, asset = key
    cases = [r for r in records if r.setting.id == setting]
    attacks = {s.attack for s in cell.series}
    yield from _failures(cases, attacks)
    for _, attack in sorted(above_bounds(cases)):
        if attack in attacks:
            yield f"{attack} gets more than no adversary can: the defense, or the truth, is not what it is taken for"
    yield from _untried(cases, cell.series, ("leaky", POWER) if asset == "records" else ("leaky",))
    for _, where in sorted(cell.wrong):
        yield f"{where} vouched for something that is not so"
    unseen = {u.topic for r in cases for u in r.unread if adversary(u.observers) == kind}
    if unseen:
        yield f"{len(unseen)} kind{'s' if len(unseen) > 1 else ''} of message unread: {', '.join(sorted(unseen))}"
    if asset == CHECKS:
        if not unseen:
            yield "that no check fired is no proof that nothing is told"
        return
    yield from dict.fromkeys(_silences(cell))
    if cell.left_out:
        yield f"no claim about {cell.left_out} of the attacked batches"
    if asset == "records":  # of which batches are counted, since not every client has one in each round
        yield from _rounds_left(cases, kind if cell.series else None)
        yield from _never_attacked(usable, cases)
        yield from _rows_again(cases)
    else:
        yield from _left_out(usable, cases, kind)
    if not cell.series:
        yield "no attack made a claim"
    whole = [s for s in usable if not s.only_bounded]
    if whole and all(np.abs(s.rooms).max() < NOTHING for s in whole):
        yield "the prior alone has all of it right, so that no attack could show anything"


def _silences(cell: Cell) -> Iterator[str]:
    """The attacks that made no claim as a whole, or none under some seeds, with what one of them said."""
    heard: dict[tuple[str, Observers], set[int]] = {}
    for s in cell.series:
        heard.setdefault((s.attack, s.observers), set()).update(s.seeds)
    for (attack, who), silent in sorted(cell.silent.items()):
        reason = min(silent.values())
        if spoken := heard.get((attack, who)):
            of = len(spoken | silent.keys())
            yield f"{attack} by {'+'.join(who)} made no claim in {len(silent)} of {plural(of, 'seed')}: {reason}"
        else:
            yield f"{attack} made no claim: {reason}"


def _rounds_left(cases: Iterable[CaseRecord], kind: str | None) -> Iterator[str]:
    """That there are rounds which no claim is about; nothing where there is no such round."""
    most, rounds = rounds_left(cases, kind)
    if most > 0:
        yield f"no claim about any batch of {most} of {plural(rounds, 'round')} of training"


def rounds_left(cases: Iterable[CaseRecord], kind: str | None = None) -> tuple[int, int]:
    """How many rounds no claim is about, and of how many, in the case with most: no attack was played on them, or none
    that was had anything to say. Of adversaries of one `kind`, if given: that others attacked a round says nothing of
    what these would get.
    """
    trained = [(int(u.value), r) for r in cases for u in r.utility if u.metric == "rounds"]
    return max(((n - len(_rounds_claimed(r, kind)), n) for n, r in trained), default=(0, 0))


def _rounds_claimed(case: CaseRecord, kind: str | None) -> set[int]:
    by = (t for t in case.trials if kind is None or adversary(t.observers) == kind)
    about = (t for t in by if t.asset == "records" and t.status == "scored")
    return {t.round for t in about if not is_calibrator(t.attack)}


def _rows_again(cases: Iterable[CaseRecord]) -> Iterator[str]:
    """That a defense hides rows in each round, while they come again in others, of which attacks read together few:
    nothing follows from one round for all.
    """
    hidden = {r.setting.defense for r in cases if r.setting.defense != UNDEFENDED}
    rounds = max((int(u.value) for r in cases for u in r.utility if u.metric == "rounds"), default=0)
    for defense in sorted(hidden) if rounds > 1 else ():
        yield f"rows come again in {rounds} rounds: what hides behind {defense} in one may not in all"


def _never_attacked(usable: Sequence[Series], cases: Sequence[CaseRecord]) -> Iterator[str]:
    """The adversaries who attacked no batch of some party under any seed: one that was drawn in no such round."""
    about: dict[Observers, set[str]] = {}
    for s in usable:
        about.setdefault(s.observers, set()).update({c for v in s.victims for c in clients_of(v)} - {*s.observers})
    for who, victims in sorted(about.items()):
        outside = _outside(who, cases)
        if len(victims) < outside:
            yield f"no batch of {outside - len(victims)} of {outside} parties was attacked by {'+'.join(who)}"


def _left_out(usable: Sequence[Series], cases: Sequence[CaseRecord], kind: str) -> Iterator[str]:
    """The adversaries of a kind of whom no attack says anything about some party, in every seed or in some: one that
    speaks of another asset alone, or to other adversaries, leaves this one open. Nothing where no attack speaks at all.
    """
    about: dict[Observers, dict[int, set[str]]] = {}
    for case in cases if usable else ():
        for who in (o for o in played_by(case) if adversary(o) == kind):
            about.setdefault(who, {})[case.seed] = set()
    for s in usable:
        for seed, victim in zip(s.seeds, s.victims, strict=True):
            about[s.observers][seed] |= {victim} - {*s.observers, SERVER}  # which may hold labels beside the parties
    for who, seeds in sorted(about.items()):
        outside = _outside(who, cases)
        fewer = [len(victims) for victims in seeds.values() if len(victims) < outside]
        if fewer:
            some = f" in {len(fewer)} of {len(seeds)} seeds" if len(fewer) < len(seeds) else ""
            yield f"no claim by {'+'.join(who)} about {outside - min(fewer)} of {outside} parties{some}"


def _outside(who: Observers, cases: Sequence[CaseRecord]) -> int:
    """How many parties an adversary is none of."""
    return cases[0].setting.parties - sum(o != SERVER for o in who)


def _untried(cases: Iterable[CaseRecord], series: Iterable[Series], kinds: Sequence[str]) -> Iterator[str]:
    """The attacks of which nothing shows that they work here: under some seeds a control of such a kind was not even
    played.
    """
    played = {(c.attack, c.kind, r.seed) for r in cases for c in r.controls}
    heard: dict[str, set[int]] = {}
    for s in series:
        heard.setdefault(s.attack, set()).update(s.seeds)
    for attack, seeds in sorted(heard.items()):
        for kind in kinds:
            if without := sum((attack, kind, seed) not in played for seed in seeds):
                some = f" in {without} of {len(seeds)} seeds" if without < len(seeds) else ""
                yield f"no {kind} control of {attack} was played{some}"


def _failures(cases: Iterable[CaseRecord], attacks: set[str]) -> Iterator[str]:
    """The controls that did not hold, of these attacks and of the scorer."""
    own = {*attacks, SCORER}
    failed = {
        (c.kind, c.attack, c.expected == UNTIMED) for r in cases for c in r.controls if not c.passed and c.attack in own
    }
    for kind, attack, untimed in sorted(failed):
        if untimed:
            yield f"{attack} reads times, and planted messages have none to show that it works"
        elif kind == POWER:
            yield f"{attack} gets nowhere against rows that were planted under this batch size and defense"
        else:
            yield f"the {kind} control of {attack} failed"


def _unlikely(series: Series, policy: Policy) -> Iterator[str]:
    """The cluster that gets more than luck explains, of those that no test of their own can judge because nobody knows
    how the prior's guesses scatter there. A score of mean b that is never negative reaches v in at most b / v of all
    cases (Markov's inequality). It is no proof, since b is an estimate; but one batch in sixty that is told whole is
    not safe because the mean of all lies below the ceiling.
    """
    if series.only_bounded or PERFECT[series.metric] != 1:
        return
    values, baselines = 1 - series.rooms + series.gains, np.maximum(1 - series.rooms, 0.0)
    alone = (series.spreads > 0) & (series.draws >= FEWEST)  # what `in_one_cluster` judges
    untested = ~alone & (series.gains > policy.ceiling * series.rooms) & (values > 0)
    likely = np.divide(baselines, values, out=np.ones_like(values), where=untested)
    k = int(np.argmin(likely)) if len(likely) else 0
    if untested.any() and len(likely) * likely[k] <= policy.alpha:
        of = f" of {whose(series.victims[k])}" if series.victims[k] else ""
        got = f"gets {values[k]:.2f}{of} under seed {series.seeds[k]}, where the prior gets {baselines[k]:.2f}"
        yield f"{series.who} {got}"


def _interval(series: Series) -> tuple[float, float] | None:
    """The interval of the advantage; an unseen cluster lies between the prior and perfect, or where one was seen."""
    values = series.advantages
    return mean_interval(values, series.seeds, (min(0.0, float(values.min())), 1.0))


def _unbounded(series: Series, policy: Policy, batches: bool, played: int) -> Iterator[str]:
    """Why a series, or that of one party or column, is not bounded below the ceiling, its losses left out. Other
    `batches` may have what the prior did not have to guess in these; what a party has as a whole there is once. Under
    some of the seeds `played` a column may leave nothing to find out, or a party have no batch: that seeds are too few
    is not said then.
    """
    limits = None if series.column else _interval(series)
    if limits is not None and limits[1] < 0:
        yield f"{series.who} does worse than the prior, so it is no measure of what there is"
    if batches and series.column and np.abs(series.rooms).max() < NOTHING:
        yield f"the prior alone has all of column {series.column} right, so that no attack could show anything of it"
        return
    needed = max(fewest(policy.ceiling, policy.alpha), SEEDS)
    parties = sorted(set(series.victims))
    parts = [series, *(series.of(v) for v in parties)] if len(parties) > 1 else [series]
    for part in parts:
        values = independent(part.without_losses.advantages, part.seeds, needed)
        few = len(values) < needed
        if few and played < needed:
            seeds = len(set(part.seeds))
            yield f"{plural(seeds, 'seed')}, of at least {needed} that no leak above {policy.ceiling:g} needs"
            return
        by_rooms = part.column and not few
        bound = _share_of_rooms(part, policy, needed) if by_rooms else upper_bound(values, policy.alpha)
        if few or not bound < policy.ceiling:  # nor where it is no number
            of = " of the bits" if series.metric.endswith(INFORMATION) else ""
            of += f" of {whose(part.victims[0])}" if part is not series else ""
            column = f" in column {series.column}" if series.column else ""
            among = plural(len(values), "independent cluster")
            yield f"{series.who} may get up to {at_most(bound, 2)}{of}{column}, in {among}"
            return


def _share_of_rooms(part: Series, policy: Policy, needed: int) -> float:
    """Up to which share of what the prior leaves a column may be told; 0 where that is below the ceiling.

    The prior has one figure of a column right or not, so what it leaves scatters from none to all. In units of the mean
    room that would count as if gains scattered: an attack that finds out nothing could not be bounded. What an attack
    gains less such a share of the room, at most the rest of the largest room, has a mean below 0 where it is told less.
    """
    gains, room = np.maximum(part.gains, 0.0), float(part.rooms.max())
    if room < NOTHING:
        return 0.0

    def bounds(share: float) -> bool:
        values = independent(gains - share * part.rooms, part.seeds, needed)
        return upper_bound(values, policy.alpha, (1 - share) * room) < 0

    low, high = policy.ceiling, 1.0
    if bounds(low):
        return 0.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if bounds(middle) else (middle, high)
    return high
