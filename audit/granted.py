"""What a configuration gives to attacks: their options, the batches that they attack, and knowledge beside the view."""

from leakledger.attacks import ATTACKS
from leakledger.attacks.base import Attack, AuxiliaryKnowledge, KnownRows
from leakledger.audit.case import Case
from leakledger.audit.config import Config
from leakledger.audit.streams import ATTACK_STREAM, stream
from leakledger.audit.truth import Truth


def make_attack(name: str, config: Config, case: Case) -> Attack:
    """The configured attack and those that it plays, with their options; its randomness from the case's seed."""
    kind, options = ATTACKS[name], config.attacks.options
    shared = {
        "seed": int(stream(case.seed, ATTACK_STREAM).integers(2**31)),
        "rounds": tuple(config.attacks.rounds),
        "device": config.audit.device,
        "recover_labels": config.attacks.labels == "recovered",
        "label_recovery": config.attacks.label_recovery,
    }
    parts = {part: dict(options.get(part, {})) for part in kind.composed_of}
    if "tableak" in parts:
        parts["tableak"]["label_recovery"] = config.attacks.label_recovery
    own = {key: value for key, value in shared.items() if key in getattr(kind, "__dataclass_fields__", {})}
    return kind(**own, **options.get(name, {}), **parts)


def attempts(config: Config, truth: Truth) -> list[tuple[str, int]]:
    """The batches under attack: (client, round); an empty one, as Poisson sampling may draw, has nothing to attack."""
    return [key for key in _observed(config, truth) if len(truth.batch(*key))]


def _observed(config: Config, truth: Truth) -> list[tuple[str, int]]:
    """The batches of attacked rounds, empty ones too."""
    return [key for key in truth.federated.batches if key[1] in config.attacks.rounds]


def granted_knowledge(config: Config, truth: Truth) -> AuxiliaryKnowledge:
    """What the configuration grants every adversary beside its view: the only thing taken from the truth."""
    granted = config.attacks
    return AuxiliaryKnowledge(
        labels={key: truth.labels(*key) for key in _observed(config, truth)} if granted.labels == "known" else {},
        bounds=truth.bounds if granted.bounds == "known" else {},
        dictionaries=truth.dictionaries if granted.dictionaries == "known" else {},
        marginals=truth.marginals if granted.marginals == "known" else {},
        rows=truth.rows_but(_observed(config, truth)) if granted.rows == "known" else KnownRows(),
        codes=truth.public_codes if granted.dictionaries == "known" else {},
        dependencies=truth.dependencies(granted.determined) if granted.dependencies == "known" else {},
        texts=truth.texts,
    )
