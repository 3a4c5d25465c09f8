"""The section of a configuration that asks for parties whose schemas are aligned, and what goes with it."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator

from leakledger.audit.config_features import check_kind, check_left_out
from leakledger.audit.options import Methods, located_error, one_of
from leakledger.audit.sections import MethodSection
from leakledger.preprocess.alignment.fedllm_align import Alignment, HeadTraining
from leakledger.preprocess.options import options_of
from leakledger.preprocess.training import ALGORITHMS
from leakledger.preprocess.training.base import check_training
from leakledger.preprocess.training.checks import check_model
from leakledger.preprocess.views import TrainingSpec

SCHEMAS = "schemas"
ALIGNMENTS: Mapping[str, type[Alignment]] = {Alignment.name: Alignment}
PLAYED = ("attribute_search", "plaintext", "statistics")  # by default: the attacks that read what such parties send


class AlignmentChoice(MethodSection):
    """How parties with schemas of their own train one head together. It goes with `[partition] kind = "schemas"`.
    Nothing is preprocessed then and no other model is trained, so `[preprocessing]`, `[model]`, `[training]` and
    `[defense]` are left out, and `attacks.use` is by default what reads such messages. Defaults are as published, but
    for the encoder: the paper's is not at hand.
    """

    tables: ClassVar[Mapping[str, Methods]] = {
        "method": ALIGNMENTS,
        "algorithm": dict.fromkeys(ALGORITHMS, HeadTraining),
    }

    method: Annotated[str, one_of(ALIGNMENTS)] = Field("fedllm-align", description="the protocol")
    algorithm: Annotated[str, one_of(ALGORITHMS)] = Field(
        "fedavg", description='what clients compute; "fedsgd": one gradient of a batch in each round'
    )

    @property
    def training(self) -> TrainingSpec:
        own = options_of(HeadTraining, self.algorithm)
        return TrainingSpec(self.algorithm, **{name: self.options[name] for name in own})  # type: ignore[arg-type]

    @property
    def alignment(self) -> Alignment:
        """The method with its options and its training."""
        return Alignment(**{name: self.options[name] for name in options_of(Alignment)}, training=self.training)

    @model_validator(mode="after")
    def _fits_together(self) -> "AlignmentChoice":
        check_training(self.training)
        chosen = self.alignment
        check_model("none", chosen.dropout, chosen.training, None, False, chosen.aggregation)
        return self


def check_alignment(config: Any) -> None:
    """Raises ValidationError, located, where an alignment and a partition with schemas of a `Config` do not go
    together, or beside what they leave no place for.
    """
    wrong = 'schemas are aligned of parties that have their own: set kind = "schemas"'
    alone = 'parties with schemas of their own have to be aligned: add [alignment] encoder = "minilm"'
    check_kind(config, SCHEMAS, bool(config.alignment), wrong, alone)
    if not config.alignment:
        return
    if config.features:
        raise located_error("schemas are aligned, or features made, not both: leave one section out", None, "features")
    trained = "[alignment] has all that is trained: leave this section out"
    check_left_out(config, trained, "attacks on aligned parties know the values that occur anyway: leave it out")
    if strange := [name for name in config.attacks.use if name not in PLAYED]:
        problem = f"{strange[0]} does not read text embeddings; of aligned parties use {', '.join(PLAYED)}"
        raise located_error(problem, None, "attacks", "use")
    if isinstance(config.data.source, list):
        raise located_error("parties with schemas of their own hold rows of one table", None, "data", "source")
