"""Messages of secure sums: each client's parts to each other client, and the partial sums that everyone adds up.

There are two sharings (`crypto.sharing`), and they do not disclose the same. Shares over a ring are uniform and say
nothing. Proportional parts are fractions of the number: each is an estimate of it, so they are aggregates, whatever
protocol they travel in. Which numbers are added up is in the topic: `zscore-sac.mean.part`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from leakledger.preprocess.messages.base import About, Disclosure, OpenedBy, Payload, Share
from leakledger.preprocess.messages.shapes import shaped


class SecureSum(Payload):
    """The family of all parts and partial sums. `quantity` says of what, like "zscore-sac.mean"."""

    quantity: ClassVar[str]

    @property
    def numbers(self) -> NDArray[Any]:
        """(k,) float64, or (k, limbs) uint64 over a ring."""
        raise NotImplementedError


class SumPart(SecureSum):
    """One client's part of its numbers, for one other client."""


class PartialSum(SecureSum):
    """The sum of the parts that the sender holds, one of each client's."""


@dataclass(frozen=True)
class _Proportional(Payload):
    """(k,) fractions of the numbers, with their sign."""

    discloses = Disclosure.AGGREGATE
    about = About.SENDER
    bare = True

    fractions: NDArray[np.float64] = field(metadata=shaped("numbers"), repr=False)

    @property
    def numbers(self) -> NDArray[Any]:
        return self.fractions


@dataclass(frozen=True)
class _Uniform(Payload):
    """(k, limbs) elements of the ring, least significant limb first."""

    discloses = Disclosure.SHARE
    about = About.SENDER
    bare = True

    share: Share = field(metadata=shaped("numbers", "limbs"), repr=False)

    @property
    def numbers(self) -> NDArray[Any]:
        numbers: NDArray[Any] = self.share.value
        return numbers


@dataclass(frozen=True)
class Announced(Payload):
    """What a secure sum gave every client, told to the server too: mean and standard deviation (columns,)."""

    discloses = Disclosure.AGGREGATE
    about = About.EVERYONE

    mean: NDArray[np.float64] = field(metadata=shaped("columns"))
    std: NDArray[np.float64] = field(metadata=shaped("columns"))


@dataclass(frozen=True)
class ZScoreAnnounced(Announced):
    """Of the numeric columns."""

    topic = "zscore-sac.announced"


@dataclass(frozen=True)
class BytesNormAnnounced(Announced):
    """Of the values' numbers, one column per categorical feature."""

    topic = "bytes-norm.announced"


@dataclass(frozen=True)
class ModNormAnnounced(Payload):
    """Twice the sum of dictionary sizes by feature, and mean and standard deviation (features,) of the residues."""

    topic = "mod-norm.announced"
    discloses = Disclosure.AGGREGATE
    about = About.EVERYONE

    modulus: dict[str, int] = field(metadata=shaped())
    mean: NDArray[np.float64] = field(metadata=shaped("features"))
    std: NDArray[np.float64] = field(metadata=shaped("features"))


@dataclass(frozen=True)
class SumKinds:
    """The kinds of one secure sum: parts and partial sums, proportional or over a ring."""

    part: type[SumPart]
    partial: type[PartialSum]
    share: type[SumPart]
    share_partial: type[PartialSum]

    @classmethod
    def of(cls, quantity: str) -> "SumKinds":
        """The kinds of `<quantity>.part`, `.partial`, `.share` and `.share-partial`."""
        return cls(
            _kind(quantity, "part", SumPart, _Proportional),
            _kind(quantity, "partial", PartialSum, _Proportional),
            _kind(quantity, "share", SumPart, _Uniform),
            _kind(quantity, "share-partial", PartialSum, _Uniform),
        )


def _kind(quantity: str, end: str, family: type, form: type) -> Any:
    name = "".join(w.capitalize() for w in f"{quantity}.{end}".replace("-", ".").split("."))
    about = About.SEVERAL if family is PartialSum else About.SENDER
    last = family is PartialSum and form is _Uniform  # all of them together are the sum, and everyone gets all
    opened = OpenedBy.RECIPIENT if last else OpenedBy.NOBODY
    texts = {"topic": f"{quantity}.{end}", "quantity": quantity, "__module__": __name__, "__doc__": form.__doc__}
    return type(name, (form, family), {**texts, "about": about, "opened_by": opened})


SECURE_SUMS: Mapping[str, SumKinds] = {
    quantity: SumKinds.of(quantity)
    for quantity in (
        *(f"{method}.{stage}" for method in ("zscore-sac", "bytes-norm", "mod-norm") for stage in ("mean", "variance")),
        *(f"{method}.moments" for method in ("zscore-sac", "bytes-norm", "mod-norm")),
        "mod-norm.unique",
    )
}
"""The secure sums of the project's own methods, by what they add up."""
