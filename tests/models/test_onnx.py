"""ONNX encoders: the built-in model's files as a user's model, and real ones of a few hundred bytes."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.models.reference_tokenizer import make_tokenizer, write_tokenizer
from tests.models.tiny_encoder import states_of, write_encoder
from tests.models.vendors import unpacked

from lorelog.core.errors import ModelFault, ModelUnavailable
from lorelog.core.options import EmbedOptions
from lorelog.core.ports import Embedder
from lorelog.models.embed import open_embedder
from lorelog.models.embed.builtin import BuiltinEmbedder, encoder_folder

TEXT = "the otter sleeps in the river"
MEAN = {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True, "word_embedding_dimension": 3}


def opened(folder: object, **options: Any) -> Embedder:
    return open_embedder(EmbedOptions(provider="onnx", model=str(folder), threads=2, **options))


def token_ids(text: str, most: int = 512) -> list[int]:
    tokenizer = make_tokenizer()
    tokenizer.enable_truncation(most)
    ids: list[int] = tokenizer.encode(text).ids
    return ids


def at_unit_length(row: list[float]) -> list[float]:
    length = math.hypot(*row)
    return [value / length for value in row]


def pooled(text: str, pooling: str, most: int = 512) -> list[float]:
    rows = states_of(token_ids(text, most))
    columns = list(zip(*rows, strict=True))
    return at_unit_length(
        {
            "mean": [sum(column) / len(column) for column in columns],
            "cls": rows[0],
            "lasttoken": rows[-1],
            "max": [max(column) for column in columns],
        }[pooling]
    )


def vector(folder: object, text: str = TEXT, **options: Any) -> list[float]:
    embedder = opened(folder, **options)
    try:
        return unpacked(embedder.embed_documents([text]).vectors[0])
    finally:
        embedder.close()


# -- the built-in model as a user's own -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedder]:
    """The built-in model's two files in another folder."""
    folder = tmp_path_factory.mktemp("models") / "e5-small-v2"
    folder.mkdir()
    shutil.copyfile(encoder_folder() / "model.onnx", folder / "model.onnx")
    write_tokenizer(folder)
    embedder = opened(folder)
    yield embedder
    embedder.close()


TEXTS = [TEXT, "", "短い文 🦦", "a\udcffb", "long " * 700, "def f(x): return x"]


@pytest.mark.slow
def test_the_built_in_models_file_gives_its_vectors(own: Embedder, embedder: BuiltinEmbedder) -> None:
    """Loaded as a user's model, with the prefixes of its family, it returns the built-in model's bytes and counts."""
    ours, theirs = own.embed_documents(TEXTS), embedder.embed_documents(TEXTS)
    assert ours == theirs
    assert [own.embed_query(text) for text in TEXTS] == [embedder.embed_query(text) for text in TEXTS]
    assert own.model.endswith("/e5-small-v2")


# -- what a model brings along --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "made", "how"),
    [
        # 1_Pooling/config.json selects the pooling, in its older and its newer form.
        ("m", {"pooling": MEAN}, "mean"),
        ("m", {"pooling": {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}}, "cls"),
        ("m", {"pooling": {"pooling_mode_max_tokens": True}}, "max"),
        ("m", {"pooling": {"pooling_mode_lasttoken": True}}, "lasttoken"),
        ("m", {"pooling": {"pooling_mode": "cls"}}, "cls"),
        ("m", {"pooling": {"pooling_mode": "mean"}}, "mean"),
        # Without that file the model's name selects the pooling, or else the mean is used.
        ("house-blend", {}, "mean"),
        ("bge-small-zh-copy", {}, "cls"),
        ("e5-mistral-x", {}, "lasttoken"),
        # `dense_vecs` of bge-m3 and `sentence_embedding` are not pooled.
        ("m", {"states": "", "vector": "dense_vecs", "pooling": MEAN}, "max"),
        ("m", {"states": "x", "vector": "sentence_embedding", "pooling": MEAN}, "max"),
        ("m", {"states": "token_embeddings", "vector": "dense_vecs", "pooling": MEAN}, "max"),
        # A single vector output under an unknown name is used, and so are hidden states.
        ("a", {"states": "", "vector": "v"}, "max"),
        ("b", {"states": "s"}, "mean"),
        # Networks with fewer and with more inputs than usual work.
        ("m", {"inputs": ("input_ids",)}, "mean"),
        ("m", {"inputs": ("input_ids", "attention_mask", "token_type_ids", "position_ids")}, "mean"),
    ],
)
def test_a_vector_is_made_as_the_model_says(tmp_path: Path, name: str, made: dict[str, Any], how: str) -> None:
    """The files, the name, the outputs and the inputs of a model decide how its states become a vector."""
    assert vector(write_encoder(tmp_path / name, **made)) == pytest.approx(pooled(TEXT, how), abs=1e-6)


@pytest.mark.parametrize(
    ("files", "most"),
    [
        ({"sentence_bert_config": {"max_seq_length": 7}, "tokenizer_config": {"model_max_length": 9}}, 7),
        ({"tokenizer_config": {"model_max_length": 9}, "config": {"max_position_embeddings": 11}}, 9),
        ({"tokenizer_config": {"model_max_length": 1e30}, "config": {"max_position_embeddings": 11}}, 11),
        ({"config": {"max_position_embeddings": 514, "model_type": "xlm-roberta"}}, 512),
        ({"config": {"max_position_embeddings": 1_000_000}}, 8192),
        ({}, 512),
    ],
)
def test_as_many_tokens_are_read_as_the_model_says(tmp_path: Path, files: dict[str, Any], most: int) -> None:
    """The maximum length is the model's own, up to our limit; longer texts count as truncated."""
    embedder = opened(write_encoder(tmp_path / "m", **files))
    reply = embedder.embed_documents(["word " * 9000, "word"])
    embedder.close()
    assert (reply.tokens, reply.truncated) == (most + 3, 1)
    assert unpacked(reply.vectors[0]) == pytest.approx(pooled("word " * 9000, "mean", most), abs=1e-5)


def test_a_models_own_prompts_stand_in_front(tmp_path: Path) -> None:
    """Settings override the model's own prompts, which override its family's prefixes."""
    prompts = {"prompts": {"query": "ask: ", "document": "tell: "}}
    folder = write_encoder(tmp_path / "e5-small-copy", config_sentence_transformers=prompts)
    assert vector(folder) == pytest.approx(pooled(f"tell: {TEXT}", "mean"), abs=1e-6)
    embedder = opened(folder)
    assert unpacked(embedder.embed_query(TEXT)) == pytest.approx(pooled(f"ask: {TEXT}", "mean"), abs=1e-6)
    embedder.close()
    assert vector(folder, document_prefix="") == pytest.approx(pooled(TEXT, "mean"), abs=1e-6)


def test_a_matryoshka_model_is_cut(tmp_path: Path) -> None:
    """Vectors are truncated and normalized; more dimensions than there are is a fault."""
    folder = write_encoder(tmp_path / "nomic-embed-text-v1.5")
    cut = at_unit_length(pooled(f"search_document: {TEXT}", "mean")[:2])
    assert vector(folder, dimensions=2) == pytest.approx(cut, abs=1e-6)
    with pytest.raises(ModelFault, match="3 dimensions, fewer than the 4 to keep"):
        vector(folder, dimensions=4)


# -- what cannot be used --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ({"inputs": ("input_ids", "past_key_values")}, "needs the inputs past_key_values"),
        ({"pooling": {"pooling_mode_weightedmean_tokens": True}}, "uses the pooling pooling_mode_weightedmean_tokens"),
        ({"pooling": {"pooling_mode_max_tokens": True, "pooling_mode_cls_token": True}}, "uses the pooling"),
        ({"pooling": "{"}, r"1_Pooling/config\.json cannot be read"),
        ({"modules": [{"type": "sentence_transformers.models.Dense", "path": "2_Dense"}]}, "lacks the layer 2_Dense"),
    ],
)
def test_a_model_that_cannot_be_used_says_why(tmp_path: Path, made: dict[str, Any], message: str) -> None:
    """A model whose vectors would match no other program's is rejected with the reason."""
    folder = write_encoder(tmp_path / "m", **made)
    with pytest.raises(ModelUnavailable, match=message):
        vector(folder)


def test_a_later_layer_does_not_matter_where_the_export_has_it(tmp_path: Path) -> None:
    """A sentence_embedding output makes later layers irrelevant."""
    modules = [{"type": "sentence_transformers.models.Dense", "path": "2_Dense"}]
    assert vector(write_encoder(tmp_path / "m", vector="sentence_embedding", modules=modules))


@pytest.mark.parametrize("missing", ["tokenizer.json", "model.onnx", ""])
def test_a_folder_that_lacks_something_is_named(tmp_path: Path, missing: str) -> None:
    """A missing or incomplete folder is one line that names the setting and the files."""
    folder = write_encoder(tmp_path / "m")
    (folder / missing).unlink() if missing else shutil.rmtree(folder)
    embedder = opened(folder)
    for _ in range(2):
        with pytest.raises(ModelUnavailable, match=missing or "is not a folder") as caught:
            embedder.embed_query("q")
    assert "embedding.model" in caught.value.hint
    assert "rerank" not in caught.value.message + caught.value.hint


@pytest.mark.parametrize("damaged", ["tokenizer.json", "model.onnx"])
@pytest.mark.parametrize("content", [b"", b"not this", b"{}"])
def test_a_damaged_model_is_unavailable(damaged: str, content: bytes, tmp_path: Path) -> None:
    """A damaged file raises our error, which names the file."""
    folder = write_encoder(tmp_path / "m")
    (folder / damaged).write_bytes(content)
    with pytest.raises(ModelUnavailable, match=damaged.replace(".", r"\.")):
        vector(folder)


# -- where it comes from --------------------------------------------------------------------------------------------------


def test_an_id_is_found_in_the_hugging_face_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A downloaded model is used from the cache, its quantised form too."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    snapshot = tmp_path / "hub" / "models--gpahal--bge-m3-onnx-int8" / "snapshots" / "abc"
    write_encoder(
        snapshot,
        states="",
        vector="dense_vecs",
        weights="model_quantized.onnx",
        sentence_bert_config={"max_seq_length": 7},
    )
    embedder = open_embedder(EmbedOptions(provider="onnx", threads=1))
    reply = embedder.embed_documents([TEXT + " and wakes up later"])
    embedder.close()
    assert (reply.tokens, reply.truncated) == (7, 1)
    assert embedder.model == "gpahal/bge-m3-onnx-int8"


def test_what_goes_with_a_model_is_downloaded_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An id that is not cached is downloaded with its configuration files, and nothing else of the repository."""
    import huggingface_hub

    offer = write_encoder(tmp_path / "offer", pooling={"pooling_mode_cls_token": True}, config={"model_type": "bert"})
    (offer / "pytorch_model.bin").write_bytes(b"x")
    offered = [str(path.relative_to(offer)) for path in offer.rglob("*") if path.is_file()]
    fetched: list[str] = []

    def fetch(model: str, name: str) -> str:
        fetched.append(name)
        place = tmp_path / "got" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(offer / name, place)
        return str(place)

    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")  # whether a proxy reaches the server is not checked
    monkeypatch.setattr(huggingface_hub, "list_repo_files", lambda model: offered)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fetch)
    assert vector("some/encoder") == pytest.approx(pooled(TEXT, "cls"), abs=1e-6)
    assert set(fetched) == {"tokenizer.json", "model.onnx", "config.json", "1_Pooling/config.json"}


def test_the_network_is_not_waited_for_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failed download the same embedder does not try again."""
    import huggingface_hub

    asked: list[str] = []

    def refuse(model: str) -> list[str]:
        asked.append(model)
        raise OSError("no route to host\nand more")

    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    monkeypatch.setattr(huggingface_hub, "list_repo_files", refuse)
    embedder = open_embedder(EmbedOptions(provider="onnx", model="some/encoder"))
    for _ in range(3):
        with pytest.raises(ModelUnavailable, match=r"could not be downloaded: no route to host$"):
            embedder.embed_query("q")
    assert asked == ["some/encoder"]


def test_without_a_network_a_download_fails_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that cannot be reached is one clear error, before the library that would retry for half a minute."""
    import huggingface_hub

    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setenv("HF_ENDPOINT", "https://127.0.0.1:9")
    for variable in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(huggingface_hub, "list_repo_files", lambda model: pytest.fail("it retries"))
    with pytest.raises(ModelUnavailable, match=r"could not be downloaded: 127.0.0.1 cannot be reached"):
        open_embedder(EmbedOptions(provider="onnx", model="some/encoder")).embed_query("q")
