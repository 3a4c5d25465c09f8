"""Attribute search: what a head's gradient tells of the records whose embeddings it was trained on.

FedLLM-Align says that raw data and embeddings never leave a client. One gradient of the head spans the embeddings of
its batch (`rowspace`), the encoder is public, and a record is text: so records are made up, embedded, and held against
the row space (`search`). Under an unknown schema the party's names of its features are searched first (`schema`).

Honest but curious: a FedSGD gradient in the clear, the model, the encoder, plausible values; no labels. Exact for
records whose mask is independent of the others', which dropout makes likely while the batch is at most as large as the
number of neurons that are on. A record that lies in the row space is verified; others fill the batch up, unverified.
Weights after local training with Adam are no sum of gradients: not applicable.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from leakledger.attacks.alignment.deltas import Deltas, measure
from leakledger.attacks.alignment.rowspace import seen_space
from leakledger.attacks.alignment.schema import find_names
from leakledger.attacks.alignment.search import Found, search
from leakledger.attacks.base import Abstained, Attack, ControlSpec, NotApplicable, Outcome, RecordsClaim, concluded
from leakledger.attacks.base import AuxiliaryKnowledge as Knowledge
from leakledger.attacks.observed.gradients import chosen_messages, model_before, row_count, tensors
from leakledger.attacks.texts import TextRecords
from leakledger.preprocess.messages import ClientGradient, GlobalModel
from leakledger.preprocess.options import check_options, option
from leakledger.preprocess.views import CategoricalBlock, FeatureLayout, Message, View


@dataclass(frozen=True)
class AttributeSearch(Attack):
    """A claim has a category per feature: the number of the value among the plausible ones, which its layout names.

    `deltas`: what was measured of the encoder before, where several searches share a known schema. Raises ValueError
    for options out of range.
    """

    technique = "attribute_search"
    reference = "FedLLM-Align, section 3.4 (the claim); Dimitrov et al., SPEAR, NeurIPS 2024 (the row space)"
    asset = ("records",)
    reads = (ClientGradient, GlobalModel)
    controls: ClassVar[tuple[ControlSpec, ...]] = ()  # of the benchmark `fedllm`: made-up records behind the same head
    assumes = "honest but curious; a gradient of a head on text embeddings in the clear; the public encoder"

    starts: int = option(24, at_least=1, help="descents of a round")
    proposals: int = option(24, at_least=1, help="changes that are encoded in each step of a descent")
    rounds: int = option(4, at_least=1, help="rounds of descents; fewer where all records are found")
    seed: int = 0
    deltas: Deltas | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_options(self)

    def run(self, view: View, knowledge: Knowledge) -> Outcome:
        records, spec = knowledge.texts, view.public.model
        if records is None:
            return NotApplicable("neither the encoder nor plausible values are granted (texts)")
        if spec is None or not spec.hidden or spec.activation != "relu" or spec.norm != "none":
            return NotApplicable("the public facts name no head with a hidden layer and ReLU, without a norm")
        messages = chosen_messages(view, ClientGradient, None, None)
        if not messages:
            return NotApplicable(f"no {ClientGradient.topic} message reached the observers in the clear")
        return concluded([self.read(view, m, records) for m in messages])

    def read(self, view: View, message: Message, records: TextRecords) -> RecordsClaim | NotApplicable | Abstained:
        """The claim about the batch behind one gradient."""
        source, spec, model = f"message {message.sequence}", view.public.model, model_before(view, message)
        if spec is None or model is None:
            return NotApplicable(f"{source}: no readable {GlobalModel.topic} message comes before it in its round")
        try:
            rows = row_count(message)
            space = seen_space(tensors(spec, message, "gradient"), rows)
        except ValueError as error:
            return NotApplicable(f"{source}: {error}")
        coins = np.random.default_rng(self.seed)
        deltas = self.deltas
        if not records.schema_known:
            records, deltas = records.under(find_names(space, records, coins)), None
        deltas = measure(records) if deltas is None else deltas
        found = search(space, records, deltas, self.starts, self.proposals, self.rounds, coins)
        return claim(message, model, rows, records, found)


def claim(message: Message, model: Message, rows: int, records: TextRecords, found: Found) -> RecordsClaim:
    """The nearest `rows` records, or all where fewer were found; certain where they lie in the row space."""
    picks, inside = found.picks[:rows], np.arange(min(rows, len(found.picks))) < found.inside
    blocks = [CategoricalBlock(f, 0, len(values), values) for f, values in records.values.items()]
    return RecordsClaim(
        victim=message.sender,
        round=message.round,
        categories=picks,
        numbers=np.zeros((len(picks), 0)),
        category_entropy=np.where(inside[:, None], 0.0, np.ones(picks.shape)),
        number_entropy=np.zeros((len(picks), 0)),
        evidence=(model.sequence, message.sequence),
        residual=found.distance[:rows] / max(found.scale, 1e-300),
        verified=inside,
        layout=FeatureLayout(tuple(blocks)),
    )
