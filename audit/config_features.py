"""The section of a configuration that asks for engineered features, and what goes with it."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from leakledger.audit.options import Methods, located_error, one_of
from leakledger.audit.sections import MethodSection
from leakledger.preprocess.features.flfe import FLFE
from leakledger.preprocess.options import options_of

VERTICAL = "vertical"
FEATURE_METHODS: Mapping[str, type[FLFE]] = {FLFE.name: FLFE}
PLAYED = ("feature_exchange", "plaintext")  # by default: the attacks that read what such parties send
NOT_TRAINED = ("preprocessing", "model", "training", "defense")
NOT_GRANTED = ("bounds", "dictionaries", "marginals", "rows", "dependencies")


class Features(MethodSection):
    """How parties that hold other columns of the same records make features together. It goes with
    `[partition] kind = "vertical"`. Nothing is trained then, so `[preprocessing]`, `[model]`, `[training]` and
    `[defense]` are left out, and `attacks.use` is by default what reads such messages.
    """

    tables: ClassVar[Mapping[str, Methods]] = {"method": FEATURE_METHODS}

    method: Annotated[str, one_of(FEATURE_METHODS)] = Field("flfe", description="the protocol")
    judges: Literal["trained", "open"] = Field(
        "trained", description='who says what is useful; "open": everything is, the most that may be sent'
    )
    judge_samples: int = Field(24, ge=4, description="labelled features that each trained judge learns from")
    base: Literal["logistic-regression", "random-forest"] = Field(
        "random-forest", description="the model whose F1 is measured with and without the features"
    )
    folds: int = Field(3, ge=2, description="of the cross-validation of that F1, over held-out records")

    @property
    def flfe(self) -> FLFE:
        return FLFE(**{name: self.options[name] for name in options_of(FLFE)})


def check_features(config: Any) -> None:
    """Raises ValidationError, located, where features and a vertical partition of a `Config` do not go together, or
    beside what they leave no place for.
    """
    wrong = 'features are made by parties with other columns of the same records: set kind = "vertical"'
    alone = 'a vertical partition is for features that parties make together: add [features] method = "flfe"'
    check_kind(config, VERTICAL, bool(config.features), wrong, alone)
    if not config.features:
        return
    trained = "nothing is trained where [features] is given: leave this section out"
    check_left_out(config, trained, "no attack on features is granted anything: leave it out")
    if isinstance(config.data.source, list):
        raise located_error("parties of a vertical partition hold columns of one table", None, "data", "source")
    if config.data.missing == "impute":
        problem = 'parties with features to make impute nothing: use "drop", or fill the table'
        raise located_error(problem, None, "data", "missing")


def check_kind(config: Any, kind: str, asked: bool, wrong: str, alone: str) -> None:
    """Raises ValidationError, located: `wrong` where what goes with this kind of partition is `asked` for of another,
    `alone` where the partition is of this kind and it is not.
    """
    for i, partition in enumerate(config.partition):
        if asked != (partition.kind == kind):
            raise located_error(wrong if asked else alone, None, "partition", i, "kind")


def check_left_out(config: Any, trained: str, granted: str) -> None:
    """Raises ValidationError, located, for a section that says how to train (`trained`), and for knowledge that is
    granted by it (`granted`); defaults grant nothing where parties do not hold whole rows.
    """
    for name in NOT_TRAINED:
        if getattr(config, name) != type(config).model_fields[name].default:
            raise located_error(trained, None, name)
    for name in NOT_GRANTED:
        default = type(config.attacks).model_fields[name].default
        if getattr(config.attacks, name) not in ("none", "public", default):
            raise located_error(granted, None, "attacks", name)
