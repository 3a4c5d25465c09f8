"""How many values each party holds of each feature, from the ring's highest numbers and what else travels.

Source of the leak: "Privacy-preserving tabular data transformation", section 8.4 (the second party of the ring learns
the size of the first one's dictionary) and table 5 (everyone learns the sum). The attack goes further:

* a range with both ends known is a size, exactly: of the first party for the second, of the last one for the one before
  it, of whoever stands between two colluding parties, of everyone for an open relay;
* where the order of the ring is not public, a posterior over who stands where (`arrangement`);
* for parties whose common sum alone is known, a posterior over each one's size (`posterior`), from the sum and from an
  occupancy model of the adversary's own rows (`occupancy`): mode and 90 % interval;
* the lengths of set-intersection messages give a party's sum over all features (`lengths`): claimed as the size of the
  feature "", and used to condition the posteriors;
* `mod-norm` announces the sum of all sizes, `local` the largest of them: the same posteriors with one segment, or of
  numbers whose maximum is known;
* numbers that parties tell the server they gave up, that intersections tell who holds a value too, or that updates
  show a party to use (`given_up`), lie in their ranges, whose ends they narrow down;
* sizes and dictionaries that a party states in the clear are exact, whatever else is seen;
* a sum less all of its parts but one, which are exact, is that one (`observed.sizes`);
* tables of noised counts say how likely each declared value is held (`noised_tables`): the law of their number. Values
  that noise left out of the dictionary have no column, so a party may hold more than there are columns;
* one-hot columns that are not zero at a party (`columns`) are values that it holds: all of them where a message speaks
  of all of its rows, else a lower bound. The mode is then the bound, if nothing else is known.

An adversary without rows of its own knows nothing of a sum but that so many parties have it: sizes themselves are then
as unlike as numbers of rows are elsewhere (`worlds`), around any centre.

Padding and noise (`pad_to`, `noise`) are options of the protocol that its parties know; where the public facts do not
state them, the attack's own options do, and where these do not either, ranges tell nothing. A party whose own range
disagrees with them says so and claims nothing.

How far parties' numbers of rows are apart is learnt from own rows and from all sums that are seen (`worlds`). Little
says so where few parties stand behind few sums, so intervals are wide where parties are alike, and 80 to 90 % of the
nominal 90 hold where sizes have a log-deviation of 2 (`leakledger benchmark posteriors`).

Passive. Claims are exact where low = estimate = high, and then certain, else calibrated under the occupancy model.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.base import (
    Abstained,
    Attack,
    AuxiliaryKnowledge,
    ControlSpec,
    NotApplicable,
    Outcome,
    StatisticClaim,
)
from leakledger.attacks.observed.lengths import REQUESTS, element_counts, wrong_length
from leakledger.attacks.observed.noised import FAINT, NOISED_TABLES, NOISED_TO
from leakledger.attacks.observed.own_rows import Counts, own_counts
from leakledger.attacks.observed.ring import (
    Boundaries,
    Contradiction,
    OrderUnknown,
    Unreadable,
    payload_of,
    read_ring,
)
from leakledger.attacks.observed.sizes import Bounds, Key, active_columns, narrowed, stated_sums
from leakledger.attacks.observed.stated import dictionary_sizes, sizes
from leakledger.attacks.observed.updates import TOLD
from leakledger.attacks.transcript.holdings.intersections import LABELLED
from leakledger.attacks.transcript.holdings.noised import COUNTING
from leakledger.attacks.transcript.ring_size.arrangement import Arrangement, of_boundaries, of_edges
from leakledger.attacks.transcript.ring_size.given_up import bracketed
from leakledger.attacks.transcript.ring_size.noised_tables import of_noised_tables
from leakledger.attacks.transcript.ring_size.posterior import Padding, check_size, given_totals, interval, normalised
from leakledger.attacks.transcript.ring_size.prior import Posteriors, Prior, sizes_of
from leakledger.preprocess.messages import (
    ClientGradient,
    ClientWeights,
    DhAnswer,
    LocalDictionary,
    LocalExtremes,
    LocalMeans,
    LocalSizes,
    ModNormAnnounced,
    PaddedSizes,
    Payload,
    PooledCategories,
    PooledColumns,
    RingHighest,
    RingMaximum,
    UnusedIds,
)
from leakledger.preprocess.options import check_options, option
from leakledger.preprocess.views import View

Floats = NDArray[np.float64]
Means = dict[tuple[str, str], float]  # (party, feature) -> the mean of a law

STATED = (LocalSizes, LocalDictionary, PooledCategories)
STRONG = 1e-3  # epsilon: noise that leaves nothing to find in a control
LABELS = tuple(kind for kind in LABELLED if kind not in (*REQUESTS, DhAnswer))  # whose length is none of a size
COLUMNS = (LocalMeans, PooledColumns, LocalExtremes, ClientGradient, ClientWeights, *TOLD)


@dataclass(frozen=True)
class RingSize(Attack):
    """`ring`, `pad_to` and `noise` are the encoder's options, for where the public facts lack them."""

    spread: float = option(0.0, at_least=0, help="deviation of the logarithm of parties' numbers of rows; 0: learnt")
    level: float = option(0.9, above=0, below=1, help="nominal coverage of the intervals")
    ring: tuple[str, ...] = option((), help="the order of the ring; empty: not known")
    pad_to: int | None = option(None, at_least=1, help="multiple to which ranges of numbers are padded")
    noise: int | None = option(None, at_least=0, help="most unused numbers that a party adds")

    technique: ClassVar[str] = "ring_size"
    reference: ClassVar[str] = "Privacy-preserving tabular data transformation, section 8.4 and table 5"
    asset: ClassVar[tuple[str, ...]] = ("sizes",)
    reads = (
        *(RingHighest, RingMaximum, UnusedIds, ModNormAnnounced, PaddedSizes, DhAnswer, *REQUESTS, *STATED, *COLUMNS),
        *(*NOISED_TABLES, *COUNTING, *LABELS),
    )
    # Which of its values a party shares is behind no claim; some only say how many rows there are.
    reads_in_part = (UnusedIds, *COUNTING, *LABELS)
    controls = (
        ControlSpec("size", "uhe", {"ring_route": "relay"}),
        ControlSpec("size", "uhe", observers="all but first"),
        ControlSpec("size", "mod-norm", observers="all but first"),
        ControlSpec("size", "local", observers="all but last", shuffled=False),
        ControlSpec("size", "dh-psi", observers="all but last", shuffled=False),
        ControlSpec("size", "otmp-psi", observers="all but last", shuffled=False),
        ControlSpec("size", "apsi", observers="all but last", shuffled=False),
        ControlSpec("size", "local"),
        ControlSpec("size", "pooled"),
        ControlSpec("size", "server-dictionary"),
        *(  # intervals under noise reach to the next number, which may be another party's: held against much noise
            ControlSpec(
                "size",
                encoder,
                {**options, "encoder_epsilon": FAINT},
                observers=who,
                quiet=ControlSpec("size", encoder, {**options, "encoder_epsilon": STRONG}, observers=who),
            )
            for encoder, options in (("server-dictionary", {}), ("target", {"exchange": "shared"}))
            for who in NOISED_TO
        ),
        ControlSpec("size", "server-dictionary", scaler="federated-zscore", scaler_options={"columns": "all"}),
        ControlSpec("size", "server-dictionary", scaler="federated-minmax", scaler_options={"columns": "all"}),
        ControlSpec("size", "server-dictionary", scaler="pooled", scaler_options={"columns": "all"}),
    )
    assumes: ClassVar[str] = (
        "honest but curious party, coalition or relay; knows the protocol's options; marginals and dictionaries help"
    )

    def __post_init__(self) -> None:
        check_options(self)

    def run(self, view: View, knowledge: AuxiliaryKnowledge) -> Outcome:
        if not view.has(*(kind for kind in self.reads if kind not in COUNTING)):
            return NotApplicable("no message of this view depends on a size")
        try:
            claims = list(self._claims(view, knowledge))
        except Unreadable as reason:
            return NotApplicable(str(reason), contradicted=isinstance(reason, Contradiction))
        if not claims and view.has(RingHighest, RingMaximum) and self._padding(view) is None:
            return Abstained("the public facts do not say how ranges are padded: set pad_to and noise")
        if not claims and (wrong := next(filter(None, map(wrong_length, view.messages)), "")):
            return NotApplicable(wrong, contradicted=True)
        return claims or Abstained("every size that these messages tell is the observers' own")

    def _claims(self, view: View, knowledge: AuxiliaryKnowledge) -> Iterator[StatisticClaim]:
        totals = {p: t for p, t in element_counts(view).items() if p not in view.observers}
        for party, (elements, sequence) in totals.items():
            yield StatisticClaim(party, "", "size", elements, elements, elements, (sequence,))
        laws, evidence, alike = self._laws(view, knowledge)
        laws.update(with_totals(laws, {party: elements for party, (elements, _) in totals.items()}))
        intervals = {id(law): interval(law, self.level) for law in {id(law): law for law in laws.values()}.values()}
        for (party, feature), law in laws.items():
            seen = {*evidence[party], *([totals[party][1]] if party in totals else [])}
            found = intervals[id(law)]
            key = party, feature
            estimate = found.mode
            if key in alike:
                centre = mean_of(law) if party in totals else alike[key]
                estimate = central(law, centre)
            low, high = min(found.low, estimate), max(found.high, estimate)
            yield StatisticClaim(party, feature, "size", estimate, low, high, tuple(sorted(seen)))

    def _laws(self, view: View, knowledge: AuxiliaryKnowledge) -> tuple[Posteriors, dict[str, set[int]], Means]:
        """The posteriors before the sums over all features, the messages that they rest on, and of whom nothing tells a
        party from others: there the mean is as good a guess as any, where the mode is that of a party of next to none.
        """
        means: Means = {}
        if view.has(RingHighest, RingMaximum) and (padding := self._padding(view)):
            laws, evidence, means = self._of_ring(view, knowledge, padding)
        elif view.has(ModNormAnnounced):
            laws, evidence = self._of_modulus(view, knowledge)
        elif view.has(PaddedSizes) and view.public.server not in view.observers:
            laws, evidence = self._of_largest(view, knowledge)
        else:
            laws, evidence = of_noised_tables(view)
        columns = list(active_columns(view))
        prior = Prior(own_counts(view), knowledge, tuple({feature: None for _, feature, *_ in columns}), self.spread)
        alike = {} if prior.informed else {key: means.get(key, mean_of(law)) for key, law in laws.items()}
        for party, feature, seen, most, complete, sequences in columns:
            law = laws.get((party, feature), np.zeros(0))
            allowed = np.arange(len(law)) >= seen
            if complete:
                law, allowed = np.eye(1, seen + 1, seen)[0], np.ones(seen + 1, bool)
            elif not (law * allowed).any():  # nothing else is told, or it contradicts the bound: then neither is sure
                law, allowed = at_least(seen, most, prior, feature), np.ones(most + 1, bool)
            laws[party, feature] = normalised(law * allowed)
            alike.pop((party, feature), None)
            evidence[party] = evidence.get(party, set()) | sequences
        for told in (*sizes(view), *dictionary_sizes(view)):
            check_size(told.feature, int(told.estimate))
            laws[told.party, told.feature] = np.eye(1, int(told.estimate) + 1, int(told.estimate))[0]
            evidence[told.party] = evidence.get(told.party, set()) | {*told.evidence}
        for (party, feature), bounds in self._rests(view, laws, evidence).items():
            laws[party, feature] = np.eye(1, bounds.low + 1, bounds.low)[0]
            evidence[party] = evidence[party] | bounds.evidence
            alike.pop((party, feature), None)
        return laws, evidence, alike

    def _rests(self, view: View, laws: Posteriors, evidence: Mapping[str, set[int]]) -> dict[Key, Bounds]:
        """The sizes that sums leave exact by those that are, where laws do not have them so. None where any law gives
        that no chance: then neither is sure.
        """
        padding = self._padding(view)
        sums = list(stated_sums(view, self.ring or None, padding is None or not padding.none))
        sure = {key: int(law.argmax()) for key, law in laws.items() if law.max() == 1.0 and np.count_nonzero(law) == 1}
        found = {key: Bounds() for one in sums for key in one.keys}
        for (party, feature), size in sure.items():
            found[party, feature] = Bounds(size, size, frozenset(evidence[party]))
        for party, counts in own_counts(view).items():
            found |= {(party, f): Bounds(len(held), len(held)) for f, held in counts.items() if (party, f) in found}
        try:
            rests = narrowed(found, sums)
        except Contradiction:
            return {}
        exact = {key: b for key, b in rests.items() if b.exact and key in laws and key not in sure}
        return exact if all(laws[key][b.low : b.low + 1].any() for key, b in exact.items()) else {}

    def _padding(self, view: View) -> Padding | None:
        """As public, else as the options here say; None where nothing does."""
        options = view.public.encoder.options
        pad_to, noise = options.get("pad_to", self.pad_to), options.get("noise", self.noise)
        return None if pad_to is None or noise is None else Padding(int(pad_to), int(noise))

    def _of_ring(
        self, view: View, knowledge: AuxiliaryKnowledge, padding: Padding
    ) -> tuple[Posteriors, dict[str, set[int]], Means]:
        own = own_counts(view)
        try:
            bounds = read_ring(view, self.ring)
        except OrderUnknown:
            found, within = of_edges(view), []
            check_own(found, own, padding)
        else:
            known = bracketed(view, replace(bounds, ends=with_own(bounds, own, padding)), knowledge)
            found = of_boundaries(replace(bounds, ends=known.ends))
            within = list(known.sizes(padding))
        laws, evidence = sizes_of(found, Prior(own, knowledge, found.features, self.spread), padding, view.observers)
        means: Means = {}
        for party, feature, fewest, most in within:
            if party not in view.observers:
                means[party, feature] = mean_of(laws[party, feature])
                laws[party, feature] = between(laws[party, feature], fewest, most)
                evidence[party] |= known.evidence
        return laws, evidence, means

    def _of_modulus(self, view: View, knowledge: AuxiliaryKnowledge) -> tuple[Posteriors, dict[str, set[int]]]:
        message, sums = stated_numbers(view, ModNormAnnounced, lambda payload: payload.modulus)
        if not sums:
            raise Unreadable(
                f"message {message} ({ModNormAnnounced.topic}) states no modulus: no feature is categorical"
            )
        if any(s < 2 or s % 2 for s in sums.values()):
            raise Contradiction(
                f"message {message} ({ModNormAnnounced.topic}) states a modulus that is not twice a sum"
            )
        return self._of_one_segment(view, knowledge, message, {f: s // 2 for f, s in sums.items()})

    def _of_one_segment(
        self, view: View, knowledge: AuxiliaryKnowledge, message: int, sums: Mapping[str, int]
    ) -> tuple[Posteriors, dict[str, set[int]]]:
        """Where only the sum of all parties is known: less what the observers have."""
        own = own_counts(view)
        missing = [c for c in view.public.clients if c in view.observers and c not in own]
        if missing:
            raise Unreadable(f"the view lacks the own table of {missing[0]}, so its part of the sum is not known")
        unknown = [c for c in view.public.clients if c not in view.observers]
        prior = Prior(own, knowledge, tuple(sums), self.spread)
        rest = [total - sum(len(counts[feature]) for counts in own.values()) for feature, total in sums.items()]
        laws: Posteriors = {}
        for feature, law in zip(sums, prior.posteriors(len(unknown), rest, Padding()), strict=True) if unknown else ():
            laws.update({(p, feature): law for p in unknown})
        return laws, {p: {message} for p in unknown}

    def _of_largest(self, view: View, knowledge: AuxiliaryKnowledge) -> tuple[Posteriors, dict[str, set[int]]]:
        message, sizes = stated_numbers(view, PaddedSizes, lambda payload: payload.sizes)
        own = own_counts(view)
        if not own:
            raise Unreadable("without own rows the largest size says nothing of whose it is")
        unknown = [c for c in view.public.clients if c not in view.observers]
        prior = Prior(own, knowledge, tuple(sizes), self.spread)
        laws: Posteriors = {}
        for feature, most in sizes.items():
            check_size(feature, most)
            reached = any(len(counts[feature]) == most for counts in own.values())
            law = given_largest(prior.laws(feature, most).overall, len(unknown), most, reached)
            laws.update({(p, feature): law for p in unknown})
        return laws, {p: {message} for p in unknown}


def at_least(seen: int, most: int, prior: Prior, feature: str) -> Floats:
    """(most + 1,) the law of a size of which `seen` is a lower bound, and no message tells more: batches show some of
    the values. That of any party, by the observers' own rows; without these every size alike.
    """
    law = prior.laws(feature, most).overall if prior.informed else np.ones(most + 1)
    return between(law, seen, most)


def between(law: Floats, fewest: int, most: int) -> Floats:
    """(up to most + 1,) the law given that the size lies between both; all alike where it gave these no chance."""
    allowed = np.zeros(most + 1)
    allowed[fewest:] = 1.0
    cut = np.zeros(most + 1)
    cut[: len(law)] = law[: most + 1]
    return normalised(cut * allowed if (cut * allowed).any() else allowed)


def central(law: Floats, mean: float) -> int:
    """The number that the law leaves possible which is nearest to the mean of before it was narrowed down. Of parties
    of which nothing is known but their sum, the bounds of one say nothing of how unlike the others are.
    """
    possible = np.flatnonzero(law)
    return int(possible[np.abs(possible - mean).argmin()])


def mean_of(law: Floats) -> float:
    return float(law @ np.arange(len(law)))


def with_totals(laws: Posteriors, totals: Mapping[str, int]) -> Posteriors:
    """The posteriors of parties whose sum over all features is known; those that share laws are worked out together."""
    features: dict[str, list[str]] = defaultdict(list)
    for party, feature in laws:
        features[party].append(feature)
    alike: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for party in totals:
        alike[tuple(id(laws[party, f]) for f in features[party])].append(party)
    found: Posteriors = {}
    for parties in alike.values():
        shared = [laws[parties[0], f] for f in features[parties[0]]]
        for party, given in zip(parties, given_totals(shared, [totals[p] for p in parties]), strict=True):
            found.update({(party, f): law for f, law in zip(features[party], given, strict=True)})
    return found


def with_own(bounds: Boundaries, own: Mapping[str, Counts], padding: Padding) -> Floats:
    """The boundaries, and those that follow from an observer's own size where it has no padding.

    Raises Unreadable where an own range is not what the options make of the own size.
    """
    ends = bounds.ends.copy()
    for i, party in enumerate(bounds.ring):
        if party not in own:
            continue
        sizes = np.array([len(own[party].get(f, ())) for f in bounds.features], np.float64)
        gap = ends[i + 1] - ends[i]
        possible = padding.ranges(sizes.astype(np.int64))
        if not np.isnan(gap).any() and not (possible == gap).any(0).all():
            raise Unreadable(own_range_differs(party, padding))
        if padding.none:
            ends[i] = np.where(np.isnan(ends[i]), ends[i + 1] - sizes, ends[i])
            ends[i + 1] = np.where(np.isnan(ends[i + 1]), ends[i] + sizes, ends[i + 1])
    return ends


def check_own(found: Arrangement, own: Mapping[str, Counts], padding: Padding) -> None:
    """Raises Unreadable as `with_own` does, where a stretch is one observer's range."""
    for stretch in found.stretches:
        if len(stretch.known) == 1 and stretch.known[0] in own and not stretch.open:
            counts = own[stretch.known[0]]
            sizes = np.array([len(counts.get(f, ())) for f in found.features])
            if not (padding.ranges(sizes) == np.array(stretch.sums)).any(0).all():
                raise Unreadable(own_range_differs(stretch.known[0], padding))


def own_range_differs(party: str, padding: Padding) -> str:
    return (
        f"the range of {party} is not what pad_to {padding.pad_to} and noise {padding.noise} make of its size; set the "
        "options of the ring"
    )


def stated_numbers(view: View, kind: type[Payload], read: Callable[[Any], Any]) -> tuple[int, dict[str, int]]:
    """The first readable message of a kind: its number, and the whole numbers by feature that it states."""
    for m in view.readable(kind):
        numbers = read(payload_of(m))
        return m.sequence, {str(f): int(n) for f, n in numbers.items()}
    raise Unreadable(f"no message on {kind.topic} can be read")


def given_largest(law: Floats, parties: int, most: int, reached: bool) -> Floats:
    """(most + 1,) the posterior of the size of one of `parties`, none above `most`; one of them has it unless an
    observer does (`reached`).
    """
    law = normalised(np.concatenate([law, np.zeros(most + 1 - len(law))]))
    if reached:
        return law
    below = law[:most].sum()
    found = law * (1 - below ** (parties - 1))
    found[most] = law[most]
    return normalised(found)
