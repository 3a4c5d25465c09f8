import json

import numpy as np
import pytest

pytest.importorskip("transformers")

from leakledger.preprocess.alignment.random_encoder import random_model
from leakledger.preprocess.alignment.text_encoder import MAX_TOKENS, EncoderError, open_encoder

TEXTS = ["Age: 45, SysBP: 140", "Age: 46, SysBP: 140, glucose_level: 80", "x"]


def test_an_embedding_is_the_final_state_at_cls_of_each_text_by_itself():
    encoder = open_encoder("random")
    model, tokenizer = random_model(0)
    alone = [model(**tokenizer(t, return_tensors="pt")).last_hidden_state[0, 0].detach().numpy() for t in TEXTS]
    np.testing.assert_allclose(encoder.embed(TEXTS), alone, atol=1e-4)


def test_the_random_encoder_follows_from_its_seed():
    again = open_encoder("random-1").weights_hash
    assert open_encoder("random").weights_hash == open_encoder("random-0").weights_hash != again


def test_texts_beyond_the_limit_are_counted_and_their_end_does_not_count():
    encoder = open_encoder("random")
    long = "age " * MAX_TOKENS
    assert encoder.truncated([*TEXTS, long]) == 1
    same = encoder.embed([long, long + "glucose"])
    np.testing.assert_allclose(same[0], same[1], atol=1e-6)


def saved(folder, safe=True):
    model, tokenizer = random_model(3)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    if not safe:
        (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def test_a_folder_gives_what_was_saved_in_it(tmp_path):
    saved(tmp_path)
    np.testing.assert_allclose(
        open_encoder(str(tmp_path)).embed(TEXTS), open_encoder("random-3").embed(TEXTS), atol=1e-5
    )


def test_pickled_weights_a_missing_folder_and_one_without_weights_are_refused(tmp_path):
    saved(tmp_path / "a", safe=False)
    with pytest.raises(EncoderError, match=r"pickled weights \(pytorch_model.bin\)"):
        open_encoder(str(tmp_path / "a"))
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(EncoderError, match="no weights"):
        open_encoder(str(tmp_path / "b"))
    with pytest.raises(EncoderError, match="nothing is downloaded"):
        open_encoder("distilbert-base-uncased")
    with pytest.raises(EncoderError, match="must be a number"):
        open_encoder("random-x")
