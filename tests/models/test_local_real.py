"""The real sentence-transformers with a small model made here; `make test-local` installs it and runs this."""

from __future__ import annotations

import math
import os
import shutil
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.models.reference_tokenizer import write_tokenizer
from tests.models.vendors import unpacked

from lorelog.core.errors import ModelUnavailable
from lorelog.core.options import EmbedOptions
from lorelog.models.embed import open_embedder

if os.environ.get("LORELOG_TEST_LOCAL"):
    import sentence_transformers
    import torch
    import transformers
else:
    sentence_transformers = pytest.importorskip("sentence_transformers", reason="make test-local installs it")
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")

pytestmark = pytest.mark.filterwarnings("ignore")  # theirs are theirs

TEXTS = ["The otter sleeps in the river.", "def main() -> None: ...", "", "word " * 300, "a\udcffb 🦦"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of two layers with random weights, saved as sentence-transformers saves its own."""
    torch.manual_seed(7)
    base = tmp_path_factory.mktemp("base")
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(write_tokenizer(base)),
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    )
    tokenizer.save_pretrained(base)
    shape = transformers.BertConfig(
        vocab_size=30522, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64
    )
    transformers.BertModel(shape).eval().save_pretrained(base)
    layers = import_module("sentence_transformers.models")
    words = layers.Transformer(str(base), max_seq_length=64)
    whole = sentence_transformers.SentenceTransformer(modules=[words, layers.Pooling(32)], device="cpu")
    whole.prompts = {"query": "query: ", "document": "passage: "}
    place = tmp_path_factory.mktemp("models") / "own-model"
    whole.save(str(place))
    return place


def cosine(one: bytes, other: Any) -> float:
    a = unpacked(one)
    b: list[float] = [float(number) for number in other]
    return sum(x * y for x, y in zip(a, b, strict=True)) / math.hypot(*b)


def test_vectors_are_those_of_the_package(model: Path) -> None:
    """Documents and queries have the package's vectors with the model's own prompts, normalized."""
    embedder = open_embedder(EmbedOptions(provider="local", model=str(model)))
    reply = embedder.embed_documents(TEXTS)
    direct = sentence_transformers.SentenceTransformer(str(model), device="cpu")
    sound = [text.encode("utf-8", "replace").decode() for text in TEXTS]
    for vector, text in zip(reply.vectors, sound, strict=True):
        assert len(vector) == 32 * 4
        assert cosine(vector, direct.encode(f"passage: {text}")) == pytest.approx(1.0, abs=1e-4)
    assert cosine(embedder.embed_query("otter"), direct.encode("query: otter")) == pytest.approx(1.0, abs=1e-4)
    assert reply.truncated == 1
    assert 64 < reply.tokens < 64 + 100
    embedder.close()


def test_a_text_has_the_same_vector_in_any_company(model: Path) -> None:
    """A text has the same vector alone and among longer ones, except for the last digits."""
    embedder = open_embedder(EmbedOptions(provider="local", model=str(model)))
    alone = embedder.embed_documents([TEXTS[0]]).vectors[0]
    among = embedder.embed_documents([*TEXTS[::-1], *TEXTS]).vectors
    assert cosine(among[4], unpacked(alone)) == pytest.approx(1.0, abs=1e-5)
    embedder.close()


def test_code_that_a_model_brings_is_not_run(model: Path, tmp_path: Path) -> None:
    """A model that needs its own code to run is unavailable, and the code is not run."""
    trap = tmp_path / "trap"
    shutil.copytree(model, trap)
    (trap / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\nclass Evil: ...\n")
    config = next(path for path in (trap / "config.json", trap / "0_Transformer" / "config.json") if path.is_file())
    text = config.read_text("utf-8").replace(
        '"model_type": "bert"',
        '"model_type": "evil", "auto_map": {"AutoConfig": "evil.Evil", "AutoModel": "evil.Evil"}',
    )
    config.write_text(text, "utf-8")
    with pytest.raises(ModelUnavailable, match="cannot be loaded"):
        open_embedder(EmbedOptions(provider="local", model=str(trap))).embed_query("q")
    assert not (tmp_path / "ran").exists()
