"""The `Recorder` of one's own messages, for a runtime whose transcript attacks are to read."""

from collections.abc import Sequence
from importlib import import_module

from leakledger.defenses import defense_of
from leakledger.preprocess import recorder
from leakledger.preprocess.views import FeatureLayout, Mechanism, Method, ModelSpec, TrainingSpec


class Recorder(recorder.Recorder):
    """That of `preprocess.recorder`, which refuses also mechanisms that no installed defense has: attacks and controls
    take them for what they state, and that nothing can read a transcript is noticed when the run is over.
    """

    def __init__(
        self,
        clients: Sequence[str],
        *,
        server: str = "server",
        layout: FeatureLayout | None = None,
        model: ModelSpec | None = None,
        training: TrainingSpec | None = None,
        mechanisms: Sequence[Mechanism] = (),
        encoder: Method | None = None,
        scaler: Method | None = None,
    ) -> None:
        super().__init__(
            clients,
            server=server,
            layout=layout,
            model=model,
            training=training,
            mechanisms=mechanisms,
            encoder=encoder,
            scaler=scaler,
        )
        if self.public.mechanisms:
            import_module("leakledger.audit.plugins")  # which registers their defenses, and takes seconds
            try:
                defense_of(self.public.mechanisms)
            except ValueError as error:
                raise ValueError(f"mechanisms: {error}") from None
