"""The `Recorder` of one's own messages, for a runtime whose transcript attacks are to read."""

from importlib import import_module

from leakledger.defenses import defense_of
from leakledger.preprocess import recorder


class Recorder(recorder.Recorder):
    """That of `preprocess.recorder`, which refuses also mechanisms that no installed defense has: attacks and controls
    take them for what they state, and that nothing can read a transcript is noticed when the run is over.
    """

    def _check_public(self) -> None:
        super()._check_public()
        if self.public.mechanisms:
            import_module("leakledger.audit.plugins")  # which registers their defenses, and takes seconds
            try:
                defense_of(self.public.mechanisms)
            except ValueError as error:
                raise ValueError(f"mechanisms: {error}") from None
