"""Whether an update was protected as is stated: what it shows to be untrue is refused.

Controls plant rows behind the defenses that are stated, and would speak well of an update that has none of them. What
an update shows of a defense depends on what came after it: noise hides levels and zeros, clipping the size of noise.
What is refused is impossible, or rarer than `BY_CHANCE`, whatever the rows were; what is taken need not be true.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import hypot, log, pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from leakledger.audit.records import plural
from leakledger.preprocess.views import Mechanism, TrainingSpec

Arrays = Mapping[str, NDArray[np.floating[Any]]]
BY_CHANCE = 1e-9  # how rarely noise is as small, or as large, as an update must be for it to be refused
ROUNDED = 0.01  # by what share rounding may bring an update beyond the norm that it was clipped to
OFF_LEVEL = 0.15, 0.3  # of a step: how far half precision may bring an entry, and where levels tell no more
STRAY_ZEROS = 0.01  # of a tensor's entries: how many coarse number formats may leave behind noise
COARSE = 2.0**-7, 2.0**-24  # how finely half precision tells numbers apart: by the largest of them, and at zero
LOOKED_AT = 512  # columns of a matrix, and rows, whose rank is looked at: all of wide layers takes minutes
HIDDEN = 1.5  # times as long as noise or clipping says: updates beyond that are spoken of where they would be taken
CLIPPING = ("client-clipping", "example-clipping")
NOISE, PRUNING, QUANTISATION = "gaussian-noise", "pruning", "quantisation"
KNOWN = {*CLIPPING, NOISE, PRUNING, QUANTISATION}


def refuse_undefended(
    stated: Sequence[Mechanism], update: Arrays, rounding: Mapping[str, float], rows: int, training: TrainingSpec
) -> None:
    """Raises ValueError, one line, for an update of `rows` rows that shows that it was not protected as stated.

    `rounding`: tensor -> by how much its floating point may have moved an entry.
    """
    for k, mechanism in enumerate(stated):
        later = stated[k + 1 :]
        kinds = {m.kind for m in later}
        if kinds - KNOWN:  # a plugin's may leave nothing of what was before it
            continue
        if mechanism.kind == NOISE and NOISE not in kinds and not kinds & {*CLIPPING}:
            _refuse_missing_noise(_last_noise(stated[: k + 1]), later, update, rounding)
            if not later:
                _refuse_repeated(_last_noise(stated), update, rounding)
        if mechanism.kind == PRUNING and NOISE not in kinds:
            _refuse_unpruned(float(mechanism.parameters["share"]), update)
        if mechanism.kind == QUANTISATION and NOISE not in kinds:
            _refuse_unrounded(mechanism, later, update, rounding)
        if mechanism.kind in CLIPPING and (norm := _longest(mechanism, rows, training)) is not None:
            _refuse_longer(norm, later, update, rounding)


def _last_noise(stated: Sequence[Mechanism]) -> float:
    """The deviation of the noises at the end, added up."""
    noise = 0.0
    for mechanism in reversed(stated):
        if mechanism.kind != NOISE:
            break
        noise = hypot(noise, float(mechanism.parameters["sigma"]))
    return noise


def _refuse_missing_noise(
    sigma: float, later: Sequence[Mechanism], update: Arrays, rounding: Mapping[str, float]
) -> None:
    """Raises ValueError for an update, or a part of it, that is smaller than noise that pruning and quantisation alone
    come after.

    Whatever the update was, squares of noised entries sum to a noncentral chi-squared, in units of the noise, which is
    larger than the central one. What pruning took is no larger than what it kept, what rounding took than a step.
    """
    for whose, squares, free in _parts(later, update, rounding):
        if special.chdtr(free, squares / sigma**2) < BY_CHANCE:
            raise ValueError(
                f"mechanisms: noise of deviation {sigma:g} is stated, but {whose} are of {sqrt(squares / free):.3g} "
                "(root mean square), which is less; give the update with its noise, or sigma in the update's units"
            )


def _parts(
    later: Sequence[Mechanism], update: Arrays, rounding: Mapping[str, float]
) -> Iterator[tuple[str, float, int]]:
    """What of an update may be compared to noise: (whose entries, sum of squares, degrees of freedom)."""
    before = {n: _before(later, a) + rounding[n] for n, a in update.items()}
    yield "the update's entries", _squares(before.values()), sum(a.size for a in before.values())
    for name, sizes in before.items():
        yield f"the entries of {name}", _squares([sizes]), sizes.size
    if not later:
        for name, array in update.items():
            if array.ndim == 2:
                yield from _news(name, array, rounding[name])


def _before(later: Sequence[Mechanism], array: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """The largest magnitudes that entries can have had before these were pruned and rounded."""
    sizes: NDArray[np.float64] = np.sort(np.abs(array.ravel().astype(np.float64)))
    pruned = max((int(float(m.parameters["share"]) * sizes.size) for m in later if m.kind == PRUNING), default=0)
    if pruned:
        sizes[:pruned] = sizes[pruned]
    return sizes + _moved(later, array)


def _moved(mechanisms: Iterable[Mechanism], array: NDArray[np.floating[Any]]) -> float:
    """By how much rounding to levels may have moved an entry, at most."""
    largest = float(np.abs(array).max(initial=0.0))
    return largest * sum(_step(m) / _highest(m) for m in mechanisms if m.kind == QUANTISATION)


def _news(name: str, matrix: NDArray[np.floating[Any]], rounding: float) -> Iterator[tuple[str, float, int]]:
    """What is new in the columns of a matrix after the first few, and in its rows.

    A gradient over few rows has a rank as low; noise has none. Each column's part outside of those before it, of fixed
    order, is at least that of its own noise, which is independent of them.
    """
    for what, m in (("columns", matrix[:, :LOOKED_AT]), ("rows", matrix.T[:, :LOOKED_AT])):
        new = np.abs(np.diag(np.linalg.qr(m.astype(np.float64), mode="r")))
        free = m.shape[0] - np.arange(len(new))
        lengths = np.sqrt(np.cumsum(new[::-1] ** 2)[::-1]) + rounding * sqrt(m.size)
        dimensions = np.cumsum(free[::-1])[::-1]
        for k in range(1, len(new)):
            whose = f"what is new in the {what} of {name} after the first {k}: its entries"
            yield whose, float(lengths[k]) ** 2, int(dimensions[k])


def _refuse_repeated(sigma: float, update: Arrays, rounding: Mapping[str, float]) -> None:
    """Raises ValueError for a tensor whose entries are zero, or share few values, as no noise that comes last leaves
    them: pruning or quantisation came after it.

    Wherever an entry was, noise brings it to one of k values with a chance of at most k times what falls on one of the
    values that numbers have there. So repeats are no more than a binomial of that chance, as long as values are k.
    """
    for name, array in update.items():
        zeros, values = int((array == 0).sum()), len(np.unique(array))
        spacing, _ = _spacing(array, rounding[name])
        by_zeros = _zero_by_chance(zeros, array, rounding[name], sigma)
        by_values = _as_many(array.size - values, array.size, values * spacing * _density(sigma))
        if min(by_zeros, by_values) < BY_CHANCE:
            seen = f"{zeros} of {plural(array.size, 'entry', 'entries')} of {name} are zero"
            if by_zeros >= BY_CHANCE:
                seen = f"the {plural(array.size, 'entry', 'entries')} of {name} have {plural(values, 'value')}"
            raise ValueError(
                f"mechanisms: noise of deviation {sigma:g} is stated to come last, but {seen}, which noise leaves "
                "nowhere; state all that was done, in its order"
            )


def _zero_by_chance(zeros: int, array: NDArray[np.floating[Any]], rounding: float, sigma: float) -> float:
    """How likely so many zeros are behind noise, at most."""
    _, at_zero = _spacing(array, rounding)
    return _as_many(zeros, array.size, max(2 * at_zero * _density(sigma), STRAY_ZEROS))


def _spacing(array: NDArray[np.floating[Any]], rounding: float) -> tuple[float, float]:
    """How far apart numbers may be, at most, and at zero. A difference of weights is as coarse there as they are."""
    largest = float(np.abs(array).max(initial=0.0))
    held = max(rounding / float(np.finfo(array.dtype).eps), largest)
    return COARSE[0] * held, COARSE[0] * held if held > 1.0001 * largest else COARSE[1]


def _density(sigma: float) -> float:
    """Of noise, where it is largest."""
    return 1 / (sigma * sqrt(2 * pi))


def _as_many(count: int, of: int, chance: float) -> float:
    """How likely it is that of so many entries `count` or more are hit, each with at most this chance."""
    return 1.0 if count == 0 or chance >= 1 else float(special.bdtrc(count - 1, of, chance))


def _refuse_unpruned(share: float, update: Arrays) -> None:
    for name, array in update.items():
        if (zeros := int((array == 0).sum())) < int(share * array.size):
            raise ValueError(
                f"mechanisms: pruning of {share:g} of each tensor is stated, but {zeros} of "
                f"{plural(array.size, 'entry', 'entries')} of {name} are zero; give the update as it was sent"
            )


def _refuse_unrounded(
    quantisation: Mechanism, later: Sequence[Mechanism], update: Arrays, rounding: Mapping[str, float]
) -> None:
    """Raises ValueError for a tensor with entries between the levels. Clipping and pruning after it keep them."""
    highest = _highest(quantisation)
    for name, array in update.items():
        largest = float(np.abs(array).max(initial=0.0))
        if largest == 0:
            continue
        off = OFF_LEVEL[0] + highest * (2 * rounding[name] + _moved(later, array)) / largest
        place = array.astype(np.float64) / largest * highest
        between = int((np.abs(place - np.rint(place)) > off).sum())
        if off < OFF_LEVEL[1] and between:
            raise ValueError(
                f"mechanisms: quantisation to {plural(int(quantisation.parameters['bits']), 'bit')} is stated, but "
                f"{between} of {plural(array.size, 'entry', 'entries')} of {name} are between its {2 * highest + 1} "
                "levels; give the update as it was sent"
            )


def _highest(quantisation: Mechanism) -> int:
    """How many levels of a tensor are above zero."""
    return (1 << int(quantisation.parameters["bits"]) - 1) - 1


def _step(quantisation: Mechanism) -> float:
    """The share of a step that an entry is moved by, at most."""
    return 1.0 if quantisation.parameters.get("rounding") == "stochastic" else 0.5


def _longest(clipping: Mechanism, rows: int, training: TrainingSpec) -> float | None:
    """The largest L2 norm of an update behind it; None for what bounds none."""
    if clipping.kind == "client-clipping":
        return float(clipping.parameters["clip_norm"])
    if training.algorithm == "fedsgd":
        drawn = rows / (training.batch_size or rows) if training.sampling == "poisson" else 1.0
        return float(clipping.parameters["clip_norm"]) * drawn
    return None


def _refuse_longer(norm: float, later: Sequence[Mechanism], update: Arrays, rounding: Mapping[str, float]) -> None:
    """Raises ValueError for an update that is longer than one of this norm is with its noise.

    The squares of such an update sum to a noncentral chi-squared, in units of the noise; what is beyond its tail is
    bounded by Birgé (2001, lemma 8.1). Clipping and pruning make no update longer; rounding after the noise does, by
    what it moves entries. Rounding between clipping and noise leaves no bound that is worth the name.
    """
    rounded = [m for m in later if m.kind == QUANTISATION]
    if _rounded_before_noise(later):
        return
    sigma = _noise_in(later)
    moved = sqrt(sum(a.size * (_moved(rounded, a) + rounding[n]) ** 2 for n, a in update.items()))
    length = sqrt(_squares(update.values()))
    if length - moved > sqrt(_most_squares(norm, sigma, sum(a.size for a in update.values()))):
        behind = f" and noise of deviation {sigma:g}" if sigma else ""
        raise ValueError(
            f"mechanisms: clipping to a norm of {norm:g}{behind} is stated, but the update has norm {length:.3g}, "
            "which is more; give the update as it was sent, or clip_norm in the update's units"
        )


def _most_squares(norm: float, sigma: float, entries: int) -> float:
    """The squares of an update of this norm with its noise, but for a chance of `BY_CHANCE`."""
    shift, rare = (norm * (1 + ROUNDED)) ** 2, -log(BY_CHANCE)
    noise = sigma**2 * (entries + 2 * rare) + 2 * sigma * sqrt((entries * sigma**2 + 2 * shift) * rare)
    return shift + noise


def _noise_in(mechanisms: Iterable[Mechanism]) -> float:
    """The deviation of all their noises, added up."""
    return hypot(*(float(m.parameters["sigma"]) for m in mechanisms if m.kind == NOISE))


def _rounded_before_noise(mechanisms: Sequence[Mechanism]) -> bool:
    kinds = [m.kind for m in mechanisms]
    return NOISE in kinds and QUANTISATION in kinds[: len(kinds) - kinds[::-1].index(NOISE)]


def taken_on_trust(
    stated: Sequence[Mechanism], update: Arrays, rounding: Mapping[str, float], rows: int, training: TrainingSpec
) -> tuple[str, ...]:
    """Which of the stated defenses this update would not show to be missing, or to be another one, and why, in words.

    The order of clipping of updates and pruning or quantisation is not spoken of: it changes the length alone.
    """
    found = []
    for k, mechanism in enumerate(stated):
        later = stated[k + 1 :]
        if mechanism.kind not in KNOWN:
            why = "what it leaves in an update is not known"
        elif {m.kind for m in later} - KNOWN:
            why = "what comes after it may hide it"
        elif mechanism.kind == NOISE:
            why = _hidden_noise(stated[: k + 1], later, update, rounding)
        elif mechanism.kind in CLIPPING:
            norm = _longest(mechanism, rows, training)
            why = _hidden_clipping(norm, later, sum(a.size for a in update.values()))
            if mechanism.kind == "example-clipping" and rows > 1 and norm is not None:
                why = "the mean over rows does not show how long each of them was"
        else:
            why = _hidden_values(mechanism, later)
        found += [f"{mechanism.kind} ({why})"] if why else []
    return tuple(found)


def _hidden_noise(
    until: Sequence[Mechanism], later: Sequence[Mechanism], update: Arrays, rounding: Mapping[str, float]
) -> str:
    """What hides whether noise is missing, the last of `until`; empty where nothing does, as for those below."""
    kinds, sigma = [m.kind for m in later], _last_noise(until)
    if set(kinds) & {*CLIPPING}:
        return "clipping after it hides how much there is"
    if NOISE in kinds:
        return "" if set(kinds) == {NOISE} else "noise after it hides it"  # added up, or not
    shares = [float(m.parameters["share"]) for m in until if m.kind == PRUNING] if not later else []
    pruned = [_zero_by_chance(int(s * a.size), a, rounding[n], sigma) for s in shares for n, a in update.items()]
    if min(pruned, default=1.0) < BY_CHANCE:  # zeros would be left without it
        return ""
    telling = [squares / free for _, squares, free in _parts(later, update, rounding) if _tells(free)]
    if not telling:
        return "the update has too few entries to tell"
    return "the update is larger in all of its parts" if min(telling) > (HIDDEN * sigma) ** 2 else ""


def _tells(entries: int) -> bool:
    """Whether so many would show noise to be less than is stated: of few, some are small whatever they hold."""
    return bool(special.chdtr(entries, entries / HIDDEN**2) < BY_CHANCE)


def _hidden_values(mechanism: Mechanism, later: Sequence[Mechanism]) -> str:
    if any(m.kind == NOISE for m in later):
        return "noise after it hides it"
    if mechanism.kind == PRUNING:
        rounded = any(m.kind == QUANTISATION for m in later)
        return "whether it came before quantisation or after does not show" if rounded else ""
    if any(m.kind == QUANTISATION and _highest(m) <= _highest(mechanism) for m in later):
        return "coarser levels after it hide it"
    if mechanism.parameters.get("rounding") == "stochastic":
        return "levels do not show whether rounding to them was stochastic"
    pruned = any(m.kind == PRUNING for m in later)
    return "whether it came before pruning or after does not show" if pruned else ""


def _hidden_clipping(norm: float | None, later: Sequence[Mechanism], entries: int) -> str:
    if norm is None:
        return "weights do not show it"
    if any(m.kind in CLIPPING for m in later):
        return "clipping after it hides it"
    if _rounded_before_noise(later):
        return "quantisation and noise after it hide it"
    sigma = _noise_in(later)
    seen = sqrt(_most_squares(norm, sigma, entries) - entries * sigma**2)
    return f"noise after it hides updates as long as {seen:.3g}" if seen > HIDDEN * norm else ""


def _squares(arrays: Iterable[NDArray[np.floating[Any]]]) -> float:
    return sum(float(np.square(a, dtype=np.float64).sum()) for a in arrays)
