"""Whether what a run asks for can run here: methods that compute on ciphertexts need an extra of the installation.

Reading a finished run needs none of them, so this is asked of a run and not of a configuration.
"""

from collections.abc import Iterator

from leakledger.audit.config import Config
from leakledger.preprocess.crypto.seal import check_installed
from leakledger.preprocess.encoders import ENCODERS
from leakledger.preprocess.scalers import SCALERS, canonical


def check_extras(config: Config) -> None:
    """Raises ValueError, in one line that names the extra, where one is missing."""
    for method, extra in dict.fromkeys(extras(config)):
        check_installed(method, extra)


def extras(config: Config) -> Iterator[tuple[str, str]]:
    """Each method of a run that needs an extra, with its name."""
    for chosen in config.preprocessing:
        for kind in (ENCODERS[chosen.encoder], SCALERS[canonical(chosen.scaler)[0]]):
            if kind.extra:
                yield kind.name, kind.extra
    for training in config.training:
        if extra := training.protocol.extra:
            yield training.aggregation, extra
    for features in config.features:
        if features.flfe.exchange != "masked":
            yield f"{features.method} with encrypted columns", "he"
