"""Attribute search: what a head's gradient tells of the records whose embeddings it was trained on.

FedLLM-Align says that raw data and embeddings never leave a client. One gradient of the head spans the embeddings of
its batch (`rowspace`), the encoder is public, and a record is text: so records are made up, embedded, and held against
the row space (`search`). Under an unknown schema records are made up under all plausible names first (`schema`).

All clients but one have the gradient of the last one, though it sent them nothing: they are told the models, and the
step between two of these, less what they sent themselves, is that gradient up to the rounding of models
(`observed.sums`). Of how many rows it is follows from its rank (`rows`). Of several others they have a sum over records
of several schemas, which is not searched.

Honest but curious: a FedSGD gradient in the clear, the model, the encoder, plausible values; no labels. Exact for
records whose mask is independent of the others', which dropout makes likely while the batch is at most as large as the
number of neurons that are on, and for pairs that share one (`pairs`). A record that lies in the row space, or in it
together with another, is verified; others fill the batch up, unverified.
Weights after local training with Adam are no sum of gradients: not applicable.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from leakledger.attacks.base import Abstained, Attack, ControlSpec, NotApplicable, Outcome, RecordsClaim, concluded
from leakledger.attacks.base import AuxiliaryKnowledge as Knowledge
from leakledger.attacks.gradient.attribute_search.deltas import Deltas, measure
from leakledger.attacks.gradient.attribute_search.rows import likely_rows
from leakledger.attacks.gradient.attribute_search.rowspace import SeenSpace, seen_space
from leakledger.attacks.gradient.attribute_search.schema import find_names
from leakledger.attacks.gradient.attribute_search.search import Found, search
from leakledger.attacks.observed.gradients import chosen_messages, model_before, row_count, tensors
from leakledger.attacks.observed.sums import find_sums
from leakledger.attacks.observed.update import ObservedUpdate
from leakledger.attacks.observed.updates import TOLD
from leakledger.attacks.texts import TextRecords
from leakledger.preprocess.messages import ClientGradient, GlobalModel
from leakledger.preprocess.options import check_options, option
from leakledger.preprocess.views import CategoricalBlock, FeatureLayout, Message, NumericBlock, View

TRIED = 3  # numbers of rows that are alike before the search, each of which takes a search
NO_GRADIENT = (
    "weights after local training ({} local epochs of {}) are no sum of gradients that the attack could take apart: "
    "that it finds nothing says nothing"
)


@dataclass(frozen=True)
class AttributeSearch(Attack):
    """A claim has the number of a feature where the public schema says that it is numeric, and else a category: the
    number of the value among the plausible ones, which its layout names.

    `rounds`: whose gradients are read (None: all). Raises ValueError for options out of range.
    """

    technique = "attribute_search"
    reference = "FedLLM-Align, section 3.4 (the claim); Dimitrov et al., SPEAR, NeurIPS 2024 (the row space)"
    asset = ("records",)
    reads = (ClientGradient, *TOLD)
    controls: ClassVar[tuple[ControlSpec, ...]] = (ControlSpec("records"),)
    assumes = (
        "honest but curious; a gradient of a head on text embeddings in the clear, or models and the gradients of all "
        "other clients; the public encoder"
    )

    starts: int = option(24, at_least=1, help="descents of a round")
    proposals: int = option(24, at_least=1, help="changes that are encoded in each step of a descent")
    repeats: int = option(4, at_least=1, help="rounds of descents; fewer where all records are found")
    seed: int = 0
    rounds: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        check_options(self)

    def run(self, view: View, knowledge: Knowledge) -> Outcome:
        spec, training = view.public.model, view.public.training
        if not knowledge.texts:
            return NotApplicable("neither the encoder nor plausible values are granted (texts)")
        if spec is None or not spec.hidden or spec.activation != "relu" or spec.norm != "none":
            return NotApplicable("the public facts name no head with a hidden layer and ReLU, without a norm")
        messages = chosen_messages(view, ClientGradient, self.rounds, knowledge.texts)
        if not messages and training is not None and training.algorithm == "fedavg":
            return NotApplicable(NO_GRADIENT.format(training.local_epochs, training.optimizer))
        sums = find_sums(view, knowledge, rounds=self.rounds, victims=tuple(knowledge.texts), any_loss=True)
        found = sums if isinstance(sums, list) else []
        alone = [u for u in found if not u.members and u.schedule is None]
        if not messages and not alone:
            return _nothing_of_one(sums)
        schemas = Schemas()
        sent = [self.read(view, m, knowledge.texts[m.sender], schemas) for m in messages]
        return concluded([*sent, *(self.read_sum(view, u, knowledge, schemas) for u in alone)])

    def read(
        self, view: View, message: Message, records: TextRecords, schemas: "Schemas"
    ) -> RecordsClaim | NotApplicable | Abstained:
        """The claim about the batch behind one gradient; `schemas` keeps what other gradients told of the party's."""
        source, spec, model = f"message {message.sequence}", view.public.model, model_before(view, message)
        if spec is None or model is None:
            return NotApplicable(f"{source}: no readable {GlobalModel.topic} message comes before it in its round")
        try:
            rows = row_count(message)
            space = seen_space(tensors(spec, message, "gradient"), rows)
        except ValueError as error:
            return NotApplicable(f"{source}: {error}")
        seen = Seen(message.sender, message.round, rows, space, (model.sequence, message.sequence))
        return self.searched(view, seen, records, schemas)

    def read_sum(
        self, view: View, update: ObservedUpdate, knowledge: Knowledge, schemas: "Schemas"
    ) -> RecordsClaim | Abstained:
        """The same of the gradient of the only client outside, which models tell: over the first number of rows with
        which a record is proven, else over the likeliest.
        """
        claims: list[RecordsClaim] = []
        for likely in likely_rows(view, knowledge, update)[:TRIED]:
            try:
                space = seen_space(likely.gradient, likely.rows, likely.noise)
            except ValueError as error:
                return Abstained(f"the gradient of {update.whose} in round {update.round}, from models: {error}")
            seen = Seen(update.victim, update.round, likely.rows, space, update.evidence)
            claims.append(self.searched(view, seen, knowledge.texts[update.victim], schemas))
            if claims[-1].verified is not None and claims[-1].verified.any():
                return claims[-1]
        return claims[0]

    def searched(self, view: View, seen: "Seen", records: TextRecords, schemas: "Schemas") -> RecordsClaim:
        """The claim about the batch behind what is seen of one gradient."""
        coins, budget = np.random.default_rng(self.seed), (self.starts, self.proposals, self.repeats)
        records = schemas.settled.get(seen.victim, records)
        if not records.schema_known:
            names, certain = find_names(seen.space, seen.rows, records, *budget, coins)
            records = records.under(names)
            if certain:
                schemas.settled[seen.victim] = records
        found = search(seen.space, seen.rows, records, schemas.deltas(records), *budget, coins)
        return claim(seen, records, found, view.public.schema.get("numeric", ()))


@dataclass(frozen=True, eq=False)
class Seen:
    """The row `space` of a gradient over `rows` rows of the `victim`; `evidence`: numbers of the messages behind it."""

    victim: str
    round: int
    rows: int
    space: SeenSpace = field(repr=False)
    evidence: tuple[int, ...]


@dataclass(frozen=True)
class Schemas:
    """What gradients of a run have in common: by party, records under its schema once that is `settled`; and what was
    measured of records, by their identity, which they keep as long as they are here.
    """

    settled: dict[str, TextRecords] = field(default_factory=dict)
    measured: dict[int, tuple[TextRecords, Deltas]] = field(default_factory=dict)

    def deltas(self, records: TextRecords) -> Deltas:
        if id(records) not in self.measured:
            self.measured[id(records)] = records, measure(records)
        return self.measured[id(records)][1]


def _nothing_of_one(sums: Sequence[ObservedUpdate] | NotApplicable | Abstained) -> NotApplicable | Abstained:
    """Why no gradient of a single client is seen."""
    if isinstance(sums, NotApplicable | Abstained):
        return sums
    unsent = f"no {ClientGradient.topic} message reached the observers in the clear"
    return NotApplicable(f"{unsent}, and models tell a sum over clients of several schemas only" if sums else unsent)


def claim(seen: Seen, records: TextRecords, found: Found, numeric: Iterable[str]) -> RecordsClaim:
    """The nearest `rows` records, or all where fewer were found; certain where they lie in the row space. Values of
    features that are `numeric` are claimed as numbers.
    """
    rows = seen.rows
    picks, inside = found.picks[:rows], np.arange(min(rows, len(found.picks))) < found.inside
    places, layout = {f: k for k, f in enumerate(records.features)}, attribute_layout(records, numeric)
    texts, numbers = ([b.feature for b in blocks] for blocks in (layout.categorical, layout.numeric))
    values = [np.array(records.values[f], np.float64)[picks[:, places[f]]] for f in numbers]
    return RecordsClaim(
        victim=seen.victim,
        round=seen.round,
        categories=picks[:, [places[f] for f in texts]],
        numbers=np.array(values).reshape(len(numbers), len(picks)).T,
        category_entropy=_unless(inside, len(texts)),
        number_entropy=_unless(inside, len(numbers)),
        evidence=seen.evidence,
        residual=found.distance[:rows] / max(found.scale, 1e-300),
        verified=inside,
        layout=layout,
    )


def attribute_layout(records: TextRecords, numeric: Iterable[str]) -> FeatureLayout:
    """What a claim about such records is about: plausible values by name, and numbers as they are."""
    numbers = [f for f in records.features if f in set(numeric)]
    named = [CategoricalBlock(f, 0, len(own), own) for f, own in records.values.items() if f not in numbers]
    return FeatureLayout((*named, *(NumericBlock(f, 0, 0.0, 1.0) for f in numbers)))


def _unless(inside: NDArray[np.bool_], features: int) -> NDArray[np.float64]:
    """(n, features) 0 for the cells of records that are proven, 1 for others."""
    return np.repeat(np.where(inside[:, None], 0.0, 1.0), features, axis=1)
