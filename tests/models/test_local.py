"""Encoders and rerankers by sentence-transformers: a module of its name has its interface; the real one is in test_local_real."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import pytest
from tests.models.vendors import unpacked

from lorelog.core.errors import ModelFault, ModelUnavailable
from lorelog.core.options import EmbedOptions, RerankOptions
from lorelog.core.ports import Embedder
from lorelog.models import rerank
from lorelog.models.embed import open_embedder
from lorelog.models.rerank import open_reranker


class Rows(list[Any]):
    def tolist(self) -> list[Any]:
        return list(self)


class SentenceTransformer:
    """Returns vectors from the lengths of text and prompt; knows some models, and fails or miscounts on request."""

    max_seq_length = 5

    def __init__(self, name: str, *, trust_remote_code: bool) -> None:
        assert not trust_remote_code
        loaded.append(name)
        if "known" not in name:
            raise OSError(f"{name} is not a local folder\nand is not a valid model identifier\n")
        self.name = name
        self.prompts = (
            {"query": "own q: ", "document": "own d: "} if "prompts" in name else {"query": "", "document": ""}
        )

    def tokenizer(self, texts: Sequence[str], *, truncation: bool, verbose: bool) -> dict[str, list[list[int]]]:
        assert not truncation
        assert not verbose
        if "untold" in self.name:
            raise TypeError("not this kind")
        return {"input_ids": [[1] * len(text.split()) for text in texts]}

    def encode(self, texts: Sequence[str], *, prompt: str, **how: object) -> list[Rows]:
        assert how["normalize_embeddings"]
        assert not how["show_progress_bar"]
        asked.append((prompt, *texts))
        if "broken" in self.name:
            raise RuntimeError("CUDA error: out of memory\nand more")
        return [Rows([float(len(text)), float(len(prompt)), 0.0]) for text in texts if "short" not in self.name]


class CrossEncoder:
    """Counts common words; knows one model, and fails or miscounts on request."""

    def __init__(self, name: str) -> None:
        if not name.startswith("known"):
            raise OSError(f"{name} is not a local folder\nand is not a valid model identifier\n")

        self.name = name

    def predict(
        self, pairs: Sequence[tuple[str, str]], *, activation_fn: Callable[[float], float], show_progress_bar: bool
    ) -> list[float]:
        assert not show_progress_bar
        if self.name == "known-broken":
            raise RuntimeError("CUDA error: out of memory\nand more")
        if self.name == "known-short":
            return []
        return [activation_fn(float(len({*pair.split()} & {*other.split()}))) for pair, other in pairs]


loaded: list[str] = []
asked: list[tuple[str, ...]] = []


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    package: Any = ModuleType("sentence_transformers")
    package.SentenceTransformer = SentenceTransformer
    package.CrossEncoder = CrossEncoder
    torch: Any = ModuleType("torch.nn")
    torch.Identity = lambda: float
    monkeypatch.setitem(sys.modules, "sentence_transformers", package)
    monkeypatch.setitem(sys.modules, "torch.nn", torch)
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    loaded.clear()
    asked.clear()


def opened(model: str, **options: Any) -> Embedder:
    return open_embedder(EmbedOptions(provider="local", model=model, **options))


def scores(model: str, texts: list[str], deadline: float | None = None) -> list[float | None]:
    reranker = open_reranker(RerankOptions("local", model))
    assert reranker is not None
    return reranker.score("the otter", texts, deadline)


@pytest.mark.usefixtures("installed")
def test_texts_are_embedded_in_order_and_counted() -> None:
    """Each text gets its vector; tokens and truncated texts are counted; the model is loaded once, on first use."""
    embedder = opened("known")
    assert loaded == []
    reply = embedder.embed_documents(["one", "one two three four five six", ""])
    assert [unpacked(vector)[0] for vector in reply.vectors] == [3.0, 27.0, 0.0]
    assert (reply.tokens, reply.truncated) == (6, 1)
    embedder.embed_query("q")
    assert loaded == ["known"]


@pytest.mark.usefixtures("installed")
def test_nothing_to_embed_loads_nothing() -> None:
    """An empty list loads no model."""
    assert opened("known").embed_documents([]).vectors == ()
    assert loaded == []


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("model", "options", "query", "document"),
    [
        ("known", {}, "", ""),
        ("known/e5-small-v2", {}, "query: ", "passage: "),
        ("x/e5-small-known-prompts", {}, "own q: ", "own d: "),
        ("x/e5-small-known-prompts", {"query_prefix": "Q> ", "document_prefix": ""}, "Q> ", ""),
    ],
)
def test_the_words_in_front_are_the_models_own_or_its_familys(
    model: str, options: dict[str, Any], query: str, document: str
) -> None:
    """Settings override a model's own prompts, which override its family's prefixes."""
    embedder = opened(model, **options)
    embedder.embed_documents(["t"])
    embedder.embed_query("q")
    assert asked == [(document, "t"), (query, "q")]


@pytest.mark.usefixtures("installed")
def test_a_model_that_cannot_be_loaded_is_unavailable_in_one_line_once() -> None:
    """A missing model is reported in one line with its setting, and loading is not tried again."""
    embedder = opened("other/model")
    for _ in range(2):
        with pytest.raises(ModelUnavailable, match=r"other/model cannot be loaded: .* local folder$") as caught:
            embedder.embed_query("q")
    assert "embedding.model" in caught.value.hint
    assert loaded == ["other/model"]
    with pytest.raises(ModelUnavailable, match=r"other/model cannot be loaded: .* local folder$") as caught:
        scores("other/model", ["otter"])
    assert "rerank.model" in caught.value.hint


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(("model", "said"), [("known-broken", "out of memory$"), ("known-short", "0 {} for 1")])
def test_a_model_that_fails_gives_our_error(model: str, said: str) -> None:
    """Any exception of the package, and too few results, become one error of ours."""
    with pytest.raises(ModelFault, match=said.format("vectors")):
        opened(model).embed_query("q")
    with pytest.raises(ModelFault, match=said.format("scores")):
        scores(model, ["otter"])


@pytest.mark.usefixtures("installed")
def test_a_tokenizer_of_another_kind_costs_only_the_count() -> None:
    """If tokens cannot be counted, texts are embedded anyway."""
    reply = opened("known-untold").embed_documents(["one two"])
    assert (len(reply.vectors), reply.tokens, reply.truncated) == (1, 0, 0)


@pytest.mark.usefixtures("installed")
def test_a_lone_surrogate_is_embedded() -> None:
    """Invalid Unicode is replaced before it reaches the model."""
    opened("known").embed_documents(["otter \udcff"])
    assert asked == [("", "otter ?")]
    assert scores("known", ["otter \udcff"]) == [1.0]


@pytest.mark.usefixtures("installed")
def test_texts_are_scored_in_order_until_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts are scored in small batches until the deadline; the rest has no score."""
    texts = [f"otter {number}" if number % 3 else "the otter" for number in range(11)]
    assert scores("known", texts) == [1.0 if number % 3 else 2.0 for number in range(11)]
    ticks = iter((0.0, 9.0))
    monkeypatch.setattr(rerank, "monotonic", lambda: next(ticks))
    assert scores("known", ["otter"] * 6, 5.0) == [1.0] * 4 + [None] * 2


def test_a_missing_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without sentence-transformers the model is unavailable, with the extra to install in the hint."""
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(ModelUnavailable, match="sentence_transformers") as caught:
        opened("known").embed_query("q")
    with pytest.raises(ModelUnavailable, match="sentence_transformers"):
        scores("known", ["otter"])
    assert "pip install 'lorelog[local]'" in caught.value.hint
