"""What messages settle of how many values each party holds: sizes, what they lie between, and sums of them.

* An observer counts its own values; dictionaries and sizes (`local`) are stated.
* One-hot columns in use are values that are held, all of them where a message speaks of all of a party's rows.
* The boundaries of a ring that is known to have no padding, its maximum, and half the modulus of `mod-norm` are sums
  over parties.
* The length of a request is a sum over a party's features (`lengths`).
* `local` announces the largest size: of the only party that can have it, it is the size.

A party with rows holds a value of each feature, so that no size is below 1. Each sum narrows its parts down,

    total - sum of the others' highest <= size <= total - sum of the others' lowest,

until nothing changes. What is left with one number is exact.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf

from leakledger.attacks.observed.columns import observed_columns
from leakledger.attacks.observed.lengths import element_counts
from leakledger.attacks.observed.noised import NOISED_TABLES, noise_on
from leakledger.attacks.observed.own_rows import own_counts
from leakledger.attacks.observed.ring import Contradiction, Unreadable, highest_numbers, read_ring
from leakledger.attacks.observed.stated import dictionary_sizes, sizes
from leakledger.attacks.observed.values import categorical_features
from leakledger.preprocess.messages import ModNormAnnounced, PaddedSizes, RingMaximum
from leakledger.preprocess.views import View

Key = tuple[str, str]  # party, feature
PASSES = 100  # over all sums; each bound is sound wherever it ends


@dataclass(frozen=True)
class Bounds:
    """Between which a size lies, and the messages that tell."""

    low: int = 1
    high: float = inf
    evidence: frozenset[int] = frozenset()

    @property
    def exact(self) -> bool:
        return self.low == self.high

    def within(self, low: float, high: float, evidence: Iterable[int]) -> "Bounds":
        """The same and these. Raises Contradiction where they have no number in common."""
        low, high = max(self.low, low), min(self.high, high)
        if low > high:
            raise Contradiction(f"a size is at least {low:g} by some messages, and at most {high:g} by others")
        if (low, high) == (self.low, self.high):
            return self
        return Bounds(int(low), high, self.evidence.union(evidence))


@dataclass(frozen=True)
class Sum:
    """What the sizes of some parties and features add up to, and the messages that state it."""

    keys: tuple[Key, ...]
    total: int
    evidence: frozenset[int]


def size_bounds(view: View, most: Mapping[str, int] | None = None) -> dict[Key, Bounds]:
    """The bounds of every size, the observers' own too. `most`: of features of which all possible values are known, how
    many. Raises Contradiction where messages contradict each other or that.
    """
    return bounded(view, told_bounds(view), [*stated_sums(view)], most)


def bounded(
    view: View, told: Mapping[Key, Bounds], sums: Sequence[Sum], most: Mapping[str, int] | None = None
) -> dict[Key, Bounds]:
    """The same of bounds and sums that are read already."""
    found = {key: told.get(key, Bounds()) for key in {**told, **{k: 0 for s in sums for k in s.keys}}}
    for (party, feature), bounds in found.items():
        found[party, feature] = bounds.within(1, (most or {}).get(feature, inf), ())
    return narrowed(_under_largest(view, found), sums)


def told_bounds(view: View) -> dict[Key, Bounds]:
    """What single messages and own rows say. Raises Contradiction where they contradict each other."""
    found = {(c, f): Bounds() for c in view.public.clients for f in categorical_features(view)}
    for party, counts in own_counts(view).items():
        for feature, held in counts.items():
            if held and (party, feature) in found:
                found[party, feature] = Bounds(len(held), len(held))
    for told in (*sizes(view), *dictionary_sizes(view)):
        key, size = (told.party, told.feature), int(told.estimate)
        found[key] = found.get(key, Bounds()).within(size, size, told.evidence)
    for party, feature, seen, _, complete, evidence in active_columns(view):
        key = party, feature
        found[key] = found.get(key, Bounds()).within(seen, seen if complete else inf, evidence)
    return found


def stated_sums(view: View, ring: Sequence[str] | None = None, padded: bool | None = None) -> Iterator[Sum]:
    """The sums that messages state. `ring`: its order; `padded`: whether its ranges may have numbers that nobody uses;
    as public, unless given. What cannot be read states none.
    """
    clients = view.public.clients
    if not (_may_be_padded(view) if padded is None else padded):
        with suppress(Unreadable):
            for m in view.readable(RingMaximum):
                for feature, highest in highest_numbers(m).items():
                    yield Sum(tuple((c, feature) for c in clients), int(highest) + 1, frozenset([m.sequence]))
        with suppress(Unreadable):
            yield from _segments(view, ring)
    for m in view.readable(ModNormAnnounced):
        for feature, modulus in m.payload.modulus.items():
            yield Sum(tuple((c, feature) for c in clients), int(modulus) // 2, frozenset([m.sequence]))
    with suppress(Unreadable):
        for party, (elements, sequence) in element_counts(view).items():
            features = categorical_features(view)
            yield Sum(tuple((party, f) for f in features), elements, frozenset([sequence]))


def _may_be_padded(view: View) -> bool:
    """Whether the ring's ranges may have numbers that nobody uses: also where the public facts do not say."""
    options = view.public.encoder.options
    return not {"pad_to", "noise"} <= options.keys() or int(options["pad_to"]) > 1 or int(options["noise"]) > 0


def _segments(view: View, ring: Sequence[str] | None) -> Iterator[Sum]:
    """Those of the parties between two boundaries of the ring that are known."""
    bounds = read_ring(view, ring)
    for first, last in bounds.segments():
        told = frozenset(bounds.evidence[i] for i in (first, last) if i in bounds.evidence)
        for k, feature in enumerate(bounds.features):
            total = int(bounds.ends[last, k] - bounds.ends[first, k])
            yield Sum(tuple((p, feature) for p in bounds.ring[first:last]), total, told)


def _under_largest(view: View, found: Mapping[Key, Bounds]) -> dict[Key, Bounds]:
    """The same under the largest size of any party, which the only one that can has."""
    under = dict(found)
    for m in view.readable(PaddedSizes):
        for feature, most in m.payload.sizes.items():
            keys = [key for key in under if key[1] == feature]
            reaching = [key for key in keys if under[key].high >= most]
            for key in keys:
                low = most if reaching == [key] else 1
                under[key] = under[key].within(low, most, [m.sequence])
    return under


def narrowed(found: Mapping[Key, Bounds], sums: Sequence[Sum]) -> dict[Key, Bounds]:
    """The bounds, narrowed down by the sums. Raises Contradiction where these do not fit."""
    kept = dict(found)
    for _ in range(PASSES):
        before = dict(kept)
        for one in sums:
            parts = [kept[key] for key in one.keys]
            low, high = sum(b.low for b in parts), sum(b.high for b in parts if b.high < inf)
            unbounded = sum(b.high == inf for b in parts)
            evidence = one.evidence.union(*(b.evidence for b in parts))
            for key, b in zip(one.keys, parts, strict=True):
                others = inf if unbounded > (b.high == inf) else high - (b.high if b.high < inf else 0)
                kept[key] = b.within(one.total - others, one.total - (low - b.low), evidence)
        if kept == before:
            break
    return kept


def active_columns(view: View) -> Iterator[tuple[str, str, int, int, bool, set[int]]]:
    """(party, feature, columns in use, values there may be, whether the columns in use are all that the party has,
    messages) of each one-hot block.
    """
    blocks = view.public.layout.categorical if view.public.layout else ()
    declared = noised_values(view)
    if view.public.encoder.name == "rolling-hash":
        return
    for columns in observed_columns(view):
        for block in blocks:
            if block.codes is None and (columns.complete or block.shift is None):
                active = int(columns.active[block.start : block.start + block.size].sum())
                most = max(block.size, declared.get(block.feature, 0))
                complete = columns.complete and most == block.size
                if active or columns.complete:  # else nothing is said of the block
                    yield columns.party, block.feature, active, most, complete, set(columns.evidence)


def noised_values(view: View) -> dict[str, int]:
    """Feature -> of how many declared values noised counts are told: also of those that noise leaves no column."""
    known = [item for kind in NOISED_TABLES for item in noise_on(view, kind).items()]
    return {f: len(noise["values"]) for (statistic, f), noise in known if statistic == "table"}
