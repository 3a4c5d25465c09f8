"""A small transformer encoder with random weights: for tests, and as a control that has learnt nothing.

A BERT of two layers, 128 wide. Its tokenizer splits at anything that is no letter and no digit, knows the words of the
project's aliases and the numbers to 999, and spells the rest by characters. Weights are drawn with a standard deviation
of 0.05, not BERT's 0.02, under which [CLS] would hardly depend on the text.
"""

import re
import string
import tomllib
from pathlib import Path
from typing import Any

import torch

WIDTH, LAYERS, SPREAD = 128, 2, 0.05
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = Path(__file__).with_name("aliases.toml")


def vocabulary() -> list[str]:
    """Special tokens, characters at the start of a word and within, numbers, words."""
    characters = [c for c in string.printable if not c.isspace() and not c.isupper()]
    words = sorted(set(re.findall(r"[a-z]+", _names().lower())))
    known = [*SPECIAL, *characters, *(f"##{c}" for c in string.ascii_lowercase + string.digits)]
    return [*dict.fromkeys([*known, *map(str, range(1000)), *words])]


def random_model(seed: int) -> tuple[Any, Any]:
    """Model and tokenizer; the same weights for the same seed, and torch's own generator left alone."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    ids = {token: i for i, token in enumerate(vocabulary())}
    core = Tokenizer(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=200))
    core.normalizer = normalizers.Lowercase()
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])]
    )
    fast: Any = PreTrainedTokenizerFast
    tokenizer = fast(tokenizer_object=core, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]")
    config = BertConfig(
        vocab_size=len(ids),
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        intermediate_size=2 * WIDTH,
        initializer_range=SPREAD,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = BertModel(config)
    model.train(False)
    return model, tokenizer


def _names() -> str:
    content = tomllib.loads(WORDS.read_text(encoding="utf-8"))
    spelt = " ".join(name for names in content.values() for name in names)
    return f"{re.sub('(?<=[a-z])(?=[A-Z])', ' ', spelt)} {spelt} the is"
