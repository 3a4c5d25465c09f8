"""Posterior: the adversary who knows the defense, and samples the batch from what is left to know of it.

A defense is public. So the probability of a batch given the update that was sent is known up to a constant: the
likelihood of the defense (`evidence`) times what is known of rows before (`cells`). Gibbs sampling draws from it
(`chains`), from starts that the row space of the noisy gradient leads to (`search`), and what is claimed is the batch
that is right in most cells by expectation over the samples (`claim`). Where noise hides rows, chains that began
elsewhere say how sure that is (`witnesses`). Where it leaves nothing, the best guess without the update is claimed.

For which defenses there is a likelihood is said in `evidence`; without any defense it applies too, and finds batches
that explain the update, which are proven where they do so to its last digits (`undefended`). The energy of the chains
tells whether they are where the truth must be: where they are not, the claim is made in doubt of every cell; so it is
where it is lower than the stated noise can be. Where nobody tells of how many rows the batch is (Poisson samples), that
is sampled too (`sample_size`).

Weights after local training are read as the gradient in the middle of their way, whose errors are worked out from the
rows that are found (`local_training`). Rounds whose updates are of the very same rows are read together (`rounds`).

The adversary is honest but curious, and holds a client's update in the clear with the model and the public layout. It
knows the labels of the batch, or samples them too. Any multilayer perceptron that classifies.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

import numpy as np
import torch

from leakledger.attacks.base import (
    Abstained,
    AuxiliaryKnowledge,
    ControlSpec,
    NotApplicable,
    RecordsClaim,
    check_device,
    check_seed,
    counter,
)
from leakledger.attacks.gradient.inversion import Inversion
from leakledger.attacks.gradient.posterior.blind import IndexedRows, blind_guess, head_start
from leakledger.attacks.gradient.posterior.cells import Cell, cells_of, nearest
from leakledger.attacks.gradient.posterior.chains import encoded, from_prior
from leakledger.attacks.gradient.posterior.claim import claimed
from leakledger.attacks.gradient.posterior.dependence import known_rows, linked
from leakledger.attacks.gradient.posterior.evidence import Channel, channel, evidence_of, too_quiet
from leakledger.attacks.gradient.posterior.local_training import (
    PASSES,
    REPAIRS,
    as_gradient,
    explained,
    followed,
    of_one_step,
)
from leakledger.attacks.gradient.posterior.network import RowGradients
from leakledger.attacks.gradient.posterior.rounds import of_rounds
from leakledger.attacks.gradient.posterior.sample_size import of_unknown_size
from leakledger.attacks.gradient.posterior.search import loosened, search
from leakledger.attacks.gradient.posterior.tempering import sampled
from leakledger.attacks.gradient.posterior.undefended import judged
from leakledger.attacks.gradient.posterior.witnesses import UNSAMPLED, called_for, effort, witnessed
from leakledger.attacks.observed.row_facts import BEFORE
from leakledger.attacks.observed.single_logit import one_logit
from leakledger.attacks.observed.tabular import StructuralPrior
from leakledger.attacks.observed.update import Inverted, ObservedUpdate, behind
from leakledger.attacks.observed.updates import TOLD, find_updates
from leakledger.preprocess.messages import ClientGradient, ClientWeights
from leakledger.preprocess.options import check_options, option
from leakledger.preprocess.views import ModelSpec

TRIED = 16  # rows of each class, whose gradients show whether a model has diverged
HIDDEN = 2.0  # times what the way of a local training leaves: noise from which on rounds of it count together
BURNT = 4  # of so many sweeps that are sampled there is one before that is not; annealed chains are near already


@dataclass(frozen=True)
class Posterior(Inversion):
    """Samples the batch behind a defended gradient from its posterior. Raises ValueError for settings out of range.

    `progress(done, total)` hears of sweeps and repairs.
    """

    technique = "posterior"
    reference = "after Balunović, Dimitrov, Staab, Vechev: Bayesian framework for gradient leakage, ICLR 2022"
    asset = ("records",)
    reads = (ClientGradient, ClientWeights, *TOLD, *BEFORE)
    controls = (ControlSpec("records"),)
    assumes = "honest but curious; an update of one client in the clear; its defense known; a multilayer perceptron"
    find = staticmethod(find_updates)
    reads_rounds_together = True

    chains: int = option(16, at_least=1, help="Markov chains per batch")
    sweeps: int = option(
        32, at_least=1, help="visits of every cell that are sampled, after a quarter as many not sampled"
    )
    repairs: int = option(30, at_least=0, help="times that rows which do not fit are sought anew, at most")
    pool: int = option(384, at_least=1, help="chains that seek single rows in the row space")
    tolerance: float = option(0.319, at_least=0, help="deviations within which a number counts as right")
    tree: bool = option(True, help="known rows, where there are any, say which values go together")
    max_rows: int = option(128, at_least=1, help="larger batches are left alone")
    together: int = option(
        8, at_least=0, help="models of rounds with the very same rows that are read side by side, at most; 0: one round"
    )
    seed: int = 0
    device: str = "cpu"
    rounds: tuple[int, ...] | None = None
    victims: tuple[str, ...] | None = None
    progress: Callable[[int, int], None] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_options(self)
        check_seed(self.seed)
        check_device(self.device)

    @classmethod
    def unfit_for(cls, spec: ModelSpec, local: bool) -> str:
        if spec.norm == "none":
            return ""
        return f"gradients of rows are those of a network without norms, not of {behind(spec)}"

    def invert(self, update: ObservedUpdate, knowledge: AuxiliaryKnowledge) -> Inverted:
        return self.inverted_from(update, knowledge)

    def invert_all(
        self,
        updates: Sequence[ObservedUpdate],
        knowledge: AuxiliaryKnowledge,
        guesses: Sequence[RecordsClaim | None] | None = None,
    ) -> list[Inverted]:
        """The outcomes, each from a guess where there are any, as `inverted_from` has it; of rounds that are read
        together, one.
        """
        found: dict[tuple[object, ...], tuple[ObservedUpdate, Inverted]] = {}
        outcomes = list[Inverted]()
        together = dict[tuple[ObservedUpdate, ...], list[int]]()
        for u, guess in zip(updates, guesses or [None] * len(updates), strict=True):
            if u.repeats not in together:  # judged once: rounds of one client have the same
                together[u.repeats] = [r.round for r, _ in self._together(u)]
            key = u.victim, *(together[u.repeats] or [u.round])
            if key not in found:
                found[key] = u, self.invert(u, knowledge) if guess is None else self.inverted_from(u, knowledge, guess)
            outcomes.append(in_round(u, *found[key]))
        return outcomes

    def _together(self, update: ObservedUpdate) -> list[tuple[ObservedUpdate, Channel]]:
        """The updates of the very rows of one that can be read with it, in the same terms and as gradients, and what
        each has passed through; none where it is alone.
        """
        alike = [one_logit(r) for r in update.repeats if r.layout is update.layout and r.rows == update.rows]
        some = [g for r in alike if (g := counting_with_others(r)) is not None] if self.together else []
        return some if len(some) > 1 else []

    @torch.inference_mode()
    def inverted_from(
        self, update: ObservedUpdate, knowledge: AuxiliaryKnowledge, guess: RecordsClaim | None = None
    ) -> Inverted:
        """The outcome. Where labels are known, some chains begin at what another attack made of the batch: rows in the
        order of the labels.
        """
        batch = f"{update.whose} in round {update.round}"
        rounds = self._together(update)
        update = one_logit(update)  # norms and noise are those of what was sent
        if reason := self.unfit_for(update.model, update.schedule is not None):
            return NotApplicable(reason)
        if update.rows > self.max_rows:
            return NotApplicable(f"the batch of {batch} has {update.rows} rows, more than max_rows = {self.max_rows}")
        through = rounds[0][1] if rounds else passed_through(update)
        if isinstance(through, str):
            return NotApplicable(through)
        step, trained = update, update.schedule is not None and not of_one_step(update)
        if update.schedule is not None:
            middle = as_gradient(update)
            if isinstance(middle, str) or through.clip_norm is not None:
                why = middle if isinstance(middle, str) else "rows were clipped at weights that nobody else has seen"
                return NotApplicable(f"the local training of {batch} is no gradient: {why}")
            step = middle
        if trained:
            through = replace(through, bounded=False, stated=False, assumed=False)
        try:
            prior = StructuralPrior(update.layout, knowledge.bounds)
            categorical, numeric, known = self._prior(update, knowledge)
        except ValueError as error:
            return NotApplicable(str(error))
        cells, coins = [*categorical, *numeric], self._coins(update)
        evidence = evidence_of(step, through, self.device)
        if update.guessed_size:
            evidence = of_unknown_size(evidence, update.rows)
        network = RowGradients(step.model, step.weights, self.device)
        each = [(r, RowGradients(r.model, r.weights, self.device), own) for r, own in rounds]
        held = [one for one in each if representable(one[1], cells)]
        if held:
            told = [(n, evidence_of(r, own, self.device)) for r, n, own in held]
            network, evidence = of_rounds(told, cells, evidence.labels, self.together, coins)
            update = replace(update, evidence=tuple(sorted({number for r, *_ in held for number in r.evidence})))
        summoned = through.stated and called_for(evidence)
        witnesses = effort(evidence, self.chains, self.sweeps)
        more = PASSES * REPAIRS * (not held) if trained else UNSAMPLED + witnesses[1] if summoned else 0
        tell = counter(self.progress, self.repairs + more + self.sweeps // BURNT + self.sweeps)
        if (rounds and not held) or not evidence.usable or not representable(network, cells):
            return Abstained(f"the gradient of {batch} is beyond single precision: its model has diverged")
        given = guess if evidence.labels is not None else None
        start = None if given is None else nearest(given, categorical, numeric, self.device)
        found = search(network, cells, evidence, self.chains, self.repairs, coins, tell, self.pool, start)
        if trained and not held:
            found = followed(found, update, update.rows * step.stretched * through.noise, self.pool, tell)
        if update.schedule is not None and not update.mechanisms and not explained(found):
            return Abstained(f"no rows are found that explain the local training of {batch} better than chance")
        loose = found if update.mechanisms else loosened(found)
        samples = sampled(loose, self.sweeps // BURNT, self.sweeps, tell)
        if summoned:
            samples = witnessed(found, samples, *witnesses, tell)
        samples = samples.of_one_size()
        samples = replace(samples, guessed=loose is not found or evidence.approximate or trained)
        if not np.isfinite(samples.fit).all():
            return Abstained(f"no likelihood for {batch} is finite: its model has diverged")
        if not len(samples.fit):
            return Abstained(f"{batch} is most likely of no row")
        if through.stated and too_quiet(samples.energy, evidence, cells):
            samples = replace(samples, settled=False)  # chains settle where there is less noise than was said, too
        within, rows = self.tolerance * prior.deviation, samples.index.shape[1]
        blind = blind_guess(cells, len(categorical), rows, within, coins, self.device, evidence.labels, known)
        ahead = head_start(blind, known, cells, len(categorical), within, coins, self.device, evidence.labels)
        claim = claimed(update, prior, categorical, numeric, samples, self.tolerance, blind, ahead)
        return judged(claim, prior, step, within) if through.assumed else claim

    def cells(self, update: ObservedUpdate, knowledge: AuxiliaryKnowledge) -> tuple[list[Cell], list[Cell]]:
        """The categorical and the numeric cells of a row, with the adversary's prior. Raises ValueError where what is
        known contradicts itself.
        """
        categorical, numeric, _ = self._prior(update, knowledge)
        return categorical, numeric

    def _prior(
        self, update: ObservedUpdate, knowledge: AuxiliaryKnowledge
    ) -> tuple[list[Cell], list[Cell], IndexedRows | None]:
        """The cells, and the rows that say which values go together; None where there are none, or they are not to."""
        categorical, numeric = cells_of(update.layout, knowledge, self.device, update.facts)
        if not (self.tree and update.facts.rows):
            return categorical, numeric, None
        cells = [*categorical, *numeric]
        known = IndexedRows(known_rows(update.layout, cells, update.facts), update.facts.labels)
        cells = linked(cells, known.index, known.labels, update.model.classes)
        return cells[: len(categorical)], cells[len(categorical) :], known

    def _coins(self, update: ObservedUpdate) -> torch.Generator:
        """A generator that depends on the seed, the victim and the round, and on nothing that runs beside."""
        digest = sha256(f"{self.seed} {update.round} {update.victim}".encode()).digest()
        return torch.Generator(self.device).manual_seed(int.from_bytes(digest[:7], "big"))


def in_round(update: ObservedUpdate, read: ObservedUpdate, outcome: Inverted) -> Inverted:
    """The outcome of a round that was `read` together with others, as a claim about the same rows in another one."""
    if update is read or not isinstance(outcome, RecordsClaim):
        return outcome
    return replace(outcome, round=update.round)


def passed_through(update: ObservedUpdate) -> Channel | str:
    """What defenses did to an update, in as many logits as it was sent with, or why there is no likelihood for it."""
    sent = {name: g / update.stretched for name, g in update.gradient.items()}
    return channel(update.mechanisms, sent, update.noise / update.stretched)


def counting_with_others(update: ObservedUpdate) -> tuple[ObservedUpdate, Channel] | None:
    """The gradient of all rows, with normal errors alone, that an update is, or in the middle of a local training that
    noise hides more than its way does, and what the update has passed through; None of any other, and of a size that
    single precision does not hold.

    Each round is judged by itself: clipping may have cut the update of one, and left that of another as it was.
    """
    through, step = passed_through(update), update
    if isinstance(through, str) or through.shrunk or not through.stated:
        return None
    if update.schedule is not None:
        middle = as_gradient(update)
        if isinstance(middle, str) or through.clip_norm is not None:
            return None
        if through.noise * middle.stretched < HIDDEN * middle.noise:
            return None
        step = middle
    return (step, through) if evidence_of(step, through, "cpu").usable else None


def representable(network: RowGradients, cells: Sequence[Cell]) -> bool:
    """Whether single precision holds the squared gradients of rows of the prior."""
    device = str(network.weights[0].device)
    index = from_prior(cells, TRIED * network.classes, torch.Generator(device).manual_seed(0), device)
    labels = torch.arange(len(index), device=device) % network.classes
    squares = network.square(network.first(encoded(network, cells, index)[None]), labels[None])
    return bool(squares.isfinite().all())
