"""How the iterations end: the last tenth of them cools, or goes on like the others.

A softmax in mid-descent still mixes candidates, and the numbers of a row are fitted to the mixture. *Cool* divides the
logits by a temperature that falls from 1 to 0.05, so that the mixtures turn into the categories that will be claimed
and the numbers are fitted to those, while the steps shrink to nothing and the numbers come to rest. *Constant* is
TabLeak as published. The distributions that an attack ends with are read at the temperature of the end, so that the
entropy of a cell says how far restarts disagree, not how undecided each was left.
"""

from collections.abc import Iterator

FINISHES = ("cool", "constant")
SHARE = 10  # one iteration in so many belongs to the finish: fewer leave numbers fitted to mixtures, more search less
COLDEST = 0.05  # warmer leaves mixtures undecided, colder freezes the choice before the numbers follow


def cooling_schedule(how: str, iterations: int, steps: range) -> Iterator[tuple[float, float]]:
    """What the temperature and the learning rate are multiplied by in each of `steps` out of all iterations."""
    last = iterations // SHARE if how == "cool" else 0
    for step in steps:
        part = max(0.0, (step + last - iterations) / last) if last else 0.0  # 0 at the first step of the finish
        yield COLDEST**part, 1 - part


def last_temperature(how: str, iterations: int, steps: range) -> float:
    """What the temperature is multiplied by where distributions are read after `steps` out of all iterations."""
    return COLDEST if how == "cool" and steps.stop == iterations >= SHARE else 1.0
