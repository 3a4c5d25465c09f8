"""Deterministic checks of a transcript: each one fires with its evidence, or does not. None uses a prior or a value.

Source: "Privacy-preserving tabular data transformation", sections 5 to 7, on the claim that only aggregates are seen.
They say that something leaks; `statistics` says how much.

* `parts-not-hiding`: secure sums in real numbers (eq. 6). All parts of a number have its sign, and parts of a count or
  a sum of squares are never negative. Fires where float64 parts agree in this at least ten times and never disagree; of
  masks that hide, ten would by a chance of 2^-10.
* `masks-reused`: two numbers of a party, or one number in two rounds, were split alike: parts to two recipients stand
  in the same ratio (to 1e-12), or the same elements of a ring occur twice. Then one known number gives the other.
* `coalition`: the smallest set of up to three parties whose messages determine another client's numbers, by the
  equations of `statistics.exact`. Clients are alike in one round, so sets of equal size are tried once; over rounds
  with different clients every set is tried.
* `plaintext-told`: an open message that carries values, counts or statistics of one client's table to another party;
  `plaintext-relayed` where it passes a relay that reads it.
* `codes-without-key`: the encoder's codes are a public function of a value's text: who can list likely values of a
  feature can look every code up. Public facts show it; no message does.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.base import (
    Abstained,
    Attack,
    AuxiliaryKnowledge,
    ControlSpec,
    FindingClaim,
    NotApplicable,
    Outcome,
)
from leakledger.attacks.observed.equations import determine
from leakledger.attacks.observed.secure_sums import CODE_SUMS, Run, secure_sums
from leakledger.preprocess.messages import (
    LocalDictionary,
    LocalExtremes,
    LocalLogs,
    LocalMeans,
    LocalPowerMoments,
    LocalRanks,
    LocalRows,
    LocalSizes,
    LocalSquares,
    PooledCategories,
    PooledColumns,
    SecureSum,
    TargetTally,
)
from leakledger.preprocess.views import Message, View

Floats = NDArray[np.float64]

AGREEMENTS, SAME, LARGEST = 10, 1e-12, 3
NEVER_NEGATIVE = ("count", "size", "square", "deviation")
PUBLIC_CODES = ("rolling-hash", "mod-norm", "bytes-norm", "fasttext")
CLEAR = (
    LocalDictionary,
    PooledCategories,
    PooledColumns,
    LocalSizes,
    LocalMeans,
    LocalSquares,
    LocalExtremes,
    LocalRows,
    LocalRanks,
    LocalLogs,
    LocalPowerMoments,
    TargetTally,
)


SHARED = {"exchange": "shared"}
SEALED = ControlSpec("check", scaler="zscore-sac", scaler_options={"route": "sealed", "sharing": "ring"})


@dataclass(frozen=True)
class SacAudit(Attack):
    """All checks; no options."""

    technique: ClassVar[str] = "sac_audit"
    reference: ClassVar[str] = "Privacy-preserving tabular data transformation, sections 5.2, 6 (eq. 6) and 7"
    asset: ClassVar[tuple[str, ...]] = ("findings",)
    reads = (SecureSum, *CLEAR)
    reads_in_part = CODE_SUMS  # no check is about what they say of values
    controls = (
        ControlSpec("check", scaler="zscore-sac", check="parts-not-hiding", quiet=SEALED),
        ControlSpec("check", "server-dictionary", check="plaintext-told", quiet=SEALED, shuffled=False),
        ControlSpec("check", "pooled", scaler="pooled", check="plaintext-told", quiet=SEALED, shuffled=False),
        ControlSpec("check", "local", check="plaintext-told", quiet=SEALED, shuffled=False),
        ControlSpec("check", "target", SHARED, check="plaintext-told", quiet=SEALED, shuffled=False),
        ControlSpec("check", scaler="federated-zscore", check="plaintext-told", quiet=SEALED, shuffled=False),
        ControlSpec("check", scaler="federated-robust", check="plaintext-told", quiet=SEALED, shuffled=False),
        ControlSpec("check", scaler="federated-yeo-johnson", check="plaintext-told", quiet=SEALED, shuffled=False),
        ControlSpec("check", scaler="federated-minmax", check="plaintext-told", quiet=SEALED, shuffled=False),
    )
    assumes: ClassVar[str] = "honest but curious observer; no auxiliary knowledge"
    checks: ClassVar[tuple[str, ...]] = (
        "parts-not-hiding",
        "masks-reused",
        "coalition",
        "plaintext-told",
        "plaintext-relayed",
        "codes-without-key",
    )

    def run(self, view: View, knowledge: AuxiliaryKnowledge) -> Outcome:
        runs, problems = secure_sums(view)
        found = [
            *parts_not_hiding(view, runs),
            *masks_reused(view, runs),
            *coalitions(view, runs),
            *plaintext(view),
            *codes_without_key(view),
        ]
        if not found and problems:
            return NotApplicable("; ".join(dict.fromkeys(problems)))
        return found or Abstained("no check fired")


def parts_not_hiding(view: View, runs: Sequence[Run]) -> Iterator[FindingClaim]:
    """One finding per party whose float64 parts agree with the sign of what they are parts of."""
    agree: dict[str, int] = defaultdict(int)
    against: dict[str, int] = defaultdict(int)
    told: dict[str, set[int]] = defaultdict(set)
    for run in (r for r in runs if not r.ring):
        for party in _outside(view, run):
            pairs = [pair for pair in run.parts if pair[0] == party]
            parts = np.array([run.parts[pair] for pair in pairs])  # (recipients, slots)
            positive = np.array([s.kind in NEVER_NEGATIVE for s in run.slots], np.bool_)
            sign = np.where(positive, 1.0, np.sign(parts[0]))
            same, other = parts * sign > 0, parts * sign < 0
            same[0] &= positive  # the first of a number of unknown sign only sets the sign
            agree[party] += int(same.sum())
            against[party] += int(other.sum())
            told[party] |= {run.evidence[pair] for pair in pairs}
    for party, count in agree.items():
        if count >= AGREEMENTS and not against[party]:
            text = f"{count} parts in real numbers have the sign of what they are parts of, and none has another"
            yield FindingClaim(party, "parts-not-hiding", text, tuple(sorted(told[party])))


def masks_reused(view: View, runs: Sequence[Run]) -> Iterator[FindingClaim]:
    """One finding per party that split two numbers alike, in one round or in two."""
    for party in dict.fromkeys(c for run in runs for c in _outside(view, run)):
        mine = [run for run in runs if party in run.clients]
        pair = _same_elements(party, mine) or _same_proportions(party, mine)
        if pair is not None:
            (first, told), (second, more) = pair
            text = f"{second} was split like {first}"
            yield FindingClaim(party, "masks-reused", text, tuple(sorted({*told, *more})))


Place = tuple[str, tuple[int, ...]]  # in words, and the messages


def _same_elements(party: str, runs: Sequence[Run]) -> tuple[Place, Place] | None:
    """The first element of a ring other than 0 that this party gave twice."""
    seen: dict[bytes, Place] = {}
    for number, run in enumerate(runs, 1):
        for (sender, recipient), part in run.parts.items() if run.ring else ():
            for slot, element in enumerate(part, 1) if sender == party else ():
                here = f"number {slot} of secure sum {number}", (run.evidence[sender, recipient],)
                if element.any() and (before := seen.get(element.tobytes())) is not None:
                    return before, here
                seen[element.tobytes()] = here
    return None


def _same_proportions(party: str, runs: Sequence[Run]) -> tuple[Place, Place] | None:
    """Two numbers whose parts to the same recipients are in the same ratio; to one recipient: that are the same."""
    rows: dict[Any, list[tuple[Floats, list[Place]]]] = defaultdict(list)  # (slots, recipients), their places
    for number, run in enumerate(runs, 1):
        recipients = tuple(r for r in run.clients if (party, r) in run.parts)
        if run.ring or not recipients:
            continue
        parts = np.array([run.parts[party, r] for r in recipients])  # (recipients, slots)
        told = tuple(run.evidence[party, r] for r in recipients)
        slots = np.flatnonzero((parts != 0).all(axis=0))
        places = [(f"number {slot + 1} of secure sum {number}", told) for slot in slots]
        if len(recipients) > 1:
            rows[recipients].append(((parts[:, slots] / parts[0, slots]).T, places))
            continue
        for slot, place in zip(slots, places, strict=True):
            rows[recipients, run.base, run.stage, int(slot)].append((parts[:, [slot]].T, [place]))
    for group in rows.values():
        columns, everywhere = np.concatenate([c for c, _ in group]), [p for _, places in group for p in places]
        order = np.argsort(columns[:, -1], kind="stable")
        one, other = columns[order[:-1]], columns[order[1:]]
        same = np.flatnonzero((np.abs(one - other) <= SAME * np.abs(other)).all(axis=1))
        if len(same):
            return everywhere[order[same[0]]], everywhere[order[same[0] + 1]]
    return None


def coalitions(view: View, runs: Sequence[Run]) -> Iterator[FindingClaim]:
    """One finding per client that the smallest set of parties determines, if up to three suffice: were one client
    named for all, a set that learns of fewer would seem to learn of another.
    """
    firsts = [r for r in runs if r.stage != "variance"]
    reads = {r.order: _relay_reads(view, r) for r in firsts}
    told = tuple(sorted({number for r in firsts for number in r.evidence.values()}))
    for size in range(1, LARGEST + 1) if firsts else ():
        for members in _sets(view, firsts, size):
            server = view.public.server in members
            known = _victims(firsts, frozenset(members), [server and reads[r.order] for r in firsts])
            victims = [v for v in known if v not in view.observers]
            for victim in victims:
                text = f"{' and '.join(members)} can work out {victim}'s numbers from what they receive and pass on"
                yield FindingClaim(victim, "coalition", text, told)
            if victims:
                return


def _sets(view: View, runs: Sequence[Run], size: int) -> Iterable[tuple[str, ...]]:
    """The sets of parties to try: all, or one of each kind where all rounds have the same clients."""
    server, clients = view.public.server, sorted(view.public.clients, key=lambda c: c not in view.observers)
    if len({r.clients for r in runs}) > 1:
        return combinations((server, *clients), size)
    return [s for s in ((server, *clients[: size - 1]), tuple(clients[:size])) if len(s) == size]


def _relay_reads(view: View, run: Run) -> bool:
    """Whether the server passes this sum's parts on and can read them."""
    numbers = set(run.evidence.values())
    return all(m.relay == view.public.server and not m.sealed for m in view.messages if m.sequence in numbers)


def _victims(runs: Sequence[Run], members: frozenset[str], reads: Sequence[bool]) -> list[str]:
    """The clients outside whose numbers follow from what each round determines, taken together."""
    groups: list[frozenset[str]] = []
    for run, reading in zip(runs, reads, strict=True):
        outside = [c for c in run.clients if c not in members]
        single, together = _determined(len(run.clients), len(run.clients) - len(outside), reading)
        groups += [frozenset([c]) for c in outside] if single else []
        groups += [frozenset(outside)] if together and outside else []
    parties = sorted(frozenset().union(*groups))
    equations = np.array([[p in g for p in parties] for g in groups], np.int64).reshape(len(groups), len(parties))
    known = determine(equations, np.eye(len(parties), dtype=np.int64)).known
    return [p for p, k in zip(parties, known, strict=True) if k]


@cache
def _determined(parties: int, members: int, reading: bool) -> tuple[bool, bool]:
    """Whether `members` of so many clients, with a reading relay or without, determine one other, and all others'
    sum.
    """
    if members == parties:
        return False, False
    hidden = np.ones((parties, parties), np.bool_)
    hidden[:members, :], hidden[:, :members] = False, False
    if reading:
        hidden[:] = False
    np.fill_diagonal(hidden, True)  # the part that each one keeps
    told = parties if members or reading else 0  # partial sums go to every client
    gave = [hidden & (np.arange(parties) == i)[:, None] for i in range(parties)]
    equations = [*(g.T & hidden for g in gave[:told]), *gave[:members]]
    wanted = [gave[-1], np.logical_or.reduce(gave[members:])]
    as_rows = [np.array(e, np.int64).reshape(len(e), parties * parties) for e in (equations, wanted)]
    single, together = determine(*as_rows).known
    return bool(single), bool(together)


def plaintext(view: View) -> Iterator[FindingClaim]:
    """One finding per sender and topic of open messages that carry what one table holds."""
    told: dict[tuple[str, str, str], list[Message]] = defaultdict(list)
    for m in view.messages:
        if issubclass(m.kind, CLEAR) and not m.sealed and m.sender not in view.observers:
            told[m.sender, m.topic, m.relay or m.recipient].append(m)
    for (sender, topic, reader), messages in told.items():
        check = "plaintext-relayed" if messages[0].relay else "plaintext-told"
        text = f"{reader} reads what {topic} says of one client's table"
        yield FindingClaim(sender, check, text, tuple(m.sequence for m in messages))


def codes_without_key(view: View) -> Iterator[FindingClaim]:
    """One finding per client outside, where the run's encoder computes codes from the text alone."""
    encoder = view.public.encoder.name
    if encoder in PUBLIC_CODES and view.public.schema.get("categorical"):
        for client in (c for c in view.public.clients if c not in view.observers):
            text = f"the codes of {encoder} follow from a value's text by a public rule"
            yield FindingClaim(client, "codes-without-key", text)


def _outside(view: View, run: Run) -> list[str]:
    """The clients outside the view of whom a part was seen."""
    return [c for c in run.clients if c not in view.observers and any(s == c for s, _ in run.parts)]
