"""Which mechanism a chain of defenses amounts to, or why it has no epsilon.

A chain has one where a bound that no data chose comes first and Gaussian noise after it. Noise alone moves an update by
a distance that nobody bounds; a bound alone can be met by two updates that differ for certain.
"""

from collections.abc import Sequence
from math import isfinite
from numbers import Real

from leakledger.defenses.accounting.mechanism import GaussianMechanism, Relation, Sampling, Unit
from leakledger.preprocess.views import Mechanism

CLIPPING: dict[str, Unit] = {"example-clipping": "record", "client-clipping": "client"}
NOISE = "gaussian-noise"


class NoGuarantee(ValueError):
    """There is no epsilon; the text says why."""


def mechanism_of(
    chain: Sequence[Mechanism],
    *,
    unit: Unit,
    rounds: int,
    batch_size: int | None = None,
    local_steps: int = 1,
    sampling: Sampling = "none",
    sampling_rate: float = 1.0,
    relation: Relation = "add-remove",
) -> GaussianMechanism:
    """What the defenses of one client, in the order of application, amount to for one `unit` over `rounds` updates.

    `batch_size`: over how many examples the update is a mean, which divides the clip norm of examples.
    `local_steps`: gradient steps in one update. `sampling`: of the units, in each round.

    A clipped update stays within C of zero, so a client with other data moves it by 2 C at most, and so does any one
    record of it. Clipped records move it by less, C / `batch_size` each, and clipping the update afterwards brings two
    updates no further apart (it is a projection). Where records are not clipped, what hides a client hides each of
    its records, without any gain from their being drawn by chance: the mechanism is that of the client.

    Raises NoGuarantee, with the reason; ValueError for settings that no mechanism has.
    """
    norms, sigma = _parts(chain)
    client, record = norms.get("client"), norms.get("record")
    if unit == "record" and record is not None and local_steps == 1:
        if batch_size is None or batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}; say over how many examples the update is a mean")
        apart = record / batch_size
        if client is not None:
            # Two that replace each other are 2 C apart in all. Of records that come by coins, accountants take the
            # world without the record for midway between them, where a clipped update need not be.
            halved = relation == "replace" and sampling != "poisson"
            apart = min(apart, client if halved else 2 * client)
        return GaussianMechanism(sigma / apart, rounds, sampling, sampling_rate, unit, relation)
    if client is not None:
        if unit == "record":
            sampling, sampling_rate, relation = "none", 1.0, "replace"
        return GaussianMechanism(sigma / client, rounds, sampling, sampling_rate, "client", relation)
    if unit == "client":
        raise NoGuarantee("the gradient of each row is clipped, not the whole update of a client")
    raise NoGuarantee(
        f"examples are clipped in each of {local_steps} local steps, and noise is added after the last one only: "
        "later steps follow from earlier ones, so no bound on what one example changes is known; clip the whole "
        "update of a client, or take one step"
    )


def _parts(chain: Sequence[Mechanism]) -> tuple[dict[Unit, float], float]:
    """The norms that a record's gradient and a client's update are clipped to before noise, of those that are, and the
    standard deviation of all noise after it.
    """
    kinds = [m.kind for m in chain]
    if unknown := [k for k in kinds if k not in (*CLIPPING, NOISE)]:
        raise NoGuarantee(f"nothing is known of what {unknown[0]!r} does to an update, so no epsilon is stated")
    if NOISE not in kinds:
        what = f"{kinds[-1]} without noise" if kinds else "nothing is done to updates"
        raise NoGuarantee(f"{what}: two neighbouring data sets can give updates that differ for certain")
    if not set(kinds) & set(CLIPPING):
        raise NoGuarantee("noise without clipping: nothing bounds how far one record or client moves an update")
    first = kinds.index(NOISE)
    before = [m for m in chain[:first] if m.kind in CLIPPING]
    if not before:
        raise NoGuarantee("noise comes before clipping: what it is added to is not bounded")
    noise = [_number(m, "sigma") for m in chain if m.kind == NOISE]
    norms = {CLIPPING[m.kind]: _number(m, "clip_norm") for m in before}  # the last of a kind bounds what it leaves
    return norms, sum(s * s for s in noise) ** 0.5 if len(set(kinds[first:])) == 1 else noise[0]


def _number(mechanism: Mechanism, name: str) -> float:
    """A parameter that is a number fixed in advance."""
    value = mechanism.parameters.get(name)
    if isinstance(value, bool) or not isinstance(value, Real):
        raise NoGuarantee(
            f"{name} of {mechanism.kind} is {value!r}, not a number fixed in advance: a bound that is taken from the "
            "data tells about the data, and has to be paid for itself"
        )
    if not (isfinite(value) and float(value) > 0):
        raise NoGuarantee(f"{name} of {mechanism.kind} is {value}; it must be above 0 and finite")
    return float(value)
