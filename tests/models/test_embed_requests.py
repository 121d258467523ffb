"""The golden request of each vendor, field by field, from the vendors' references; and the batches that texts are sent in."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.models.vendors import VENDORS, Rig, each_vendor, unpacked

from lorelog.core.errors import ConfigError, ModelFault
from lorelog.core.options import EmbedOptions
from lorelog.models.embed import open_embedder
from lorelog.models.embed.remote import estimate_tokens, split_batches


def google(task: str, text: str, dimensions: int | None = 3, model: str = "gemini-embedding-001") -> dict[str, Any]:
    body: dict[str, Any] = {"model": f"models/{model}", "content": {"parts": [{"text": text}]}}
    body |= {"taskType": task} if task else {}
    return {"requests": [body | ({"outputDimensionality": dimensions} if dimensions else {})]}


Body = dict[str, Any]


def listed(model: str, document: Body | None = None, query: Body | None = None, **more: Any) -> tuple[Body, Body]:
    """Return the bodies for the document `t` and the query `q` of a vendor that takes a list of texts."""
    common = {"model": model, **more}
    return {**common, "input": ["t"], **(document or {})}, {**common, "input": ["q"], **(query or {})}


def voyage(model: str, **more: Any) -> tuple[Body, Body]:
    return listed(model, {"input_type": "document"}, {"input_type": "query"}, encoding_format="base64", **more)


def googled(
    model: str = "gemini-embedding-001", *, tasks: bool = True, dimensions: int | None = 3
) -> tuple[Body, Body]:
    names = ("RETRIEVAL_DOCUMENT", "RETRIEVAL_QUERY") if tasks else ("", "")
    return google(names[0], "t", dimensions, model), google(names[1], "q", dimensions, model)


SHAPES: list[tuple[str, Body, tuple[Body, Body]]] = [
    ("openai", {}, listed("text-embedding-3-small", encoding_format="base64")),
    ("openai", {"dimensions": 3}, listed("text-embedding-3-small", encoding_format="base64", dimensions=3)),
    ("google", {}, googled()),
    ("google", {"model": "models/text-embedding-004"}, googled("text-embedding-004")),
    ("google", {"model": "embedding-001", "dimensions": 0}, googled("embedding-001", tasks=False, dimensions=None)),
    ("voyage", {}, voyage("voyage-3-lite")),
    ("voyage", {"model": "voyage-3.5", "dimensions": 3}, voyage("voyage-3.5", output_dimension=3)),
    (
        "jina",
        {"dimensions": 3},
        listed(
            *("jina-embeddings-v4", {"task": "retrieval.passage"}, {"task": "retrieval.query"}),
            truncate=True,
            dimensions=3,
        ),
    ),
    ("jina", {"model": "jina-embeddings-v2-base-de"}, listed("jina-embeddings-v2-base-de")),
    ("mistral", {}, listed("mistral-embed", encoding_format="float")),
    (
        "mistral",
        {"model": "codestral-embed", "dimensions": 3},
        listed("codestral-embed", encoding_format="float", output_dimension=3),
    ),
    ("ollama", {}, listed("nomic-embed-text", {"input": ["search_document: t"]}, {"input": ["search_query: q"]})),
    ("ollama", {"model": "all-minilm:22m"}, listed("all-minilm:22m")),
]


@pytest.mark.parametrize(("name", "options", "bodies"), SHAPES)
def test_a_request_has_the_shape_that_the_vendor_documents(
    name: str, options: Body, bodies: tuple[Body, Body], rig: Rig
) -> None:
    """A document and a query are sent as in the vendor's reference."""
    server = rig.serve(VENDORS[name].well)
    embedder = rig.open(VENDORS[name], server, **options)
    embedder.embed_documents(["t"])
    embedder.embed_query("q")
    assert [request.body for request in server.requests] == list(bodies)


def test_google_asks_for_768_numbers_unless_told() -> None:
    """The default dimensions are requested and leave the model name plain; others mark it."""
    usual = open_embedder(EmbedOptions(provider="google"))
    other = open_embedder(EmbedOptions(provider="google", dimensions=1536))
    same = open_embedder(EmbedOptions(provider="google", dimensions=768))
    assert usual._requested == 768  # type: ignore[attr-defined]
    assert [embedder.model for embedder in (usual, other, same)] == [
        "gemini-embedding-001",
        "gemini-embedding-001@1536",
        "gemini-embedding-001",
    ]


@each_vendor
def test_prefixes_of_ones_own_are_honoured(vendor: Any, rig: Rig) -> None:
    """Prefixes from the settings are sent to every vendor."""
    server = rig.serve(vendor.well)
    embedder = rig.open(vendor, server, query_prefix="Q> ", document_prefix="D> ")
    embedder.embed_documents(["t"])
    embedder.embed_query("q")
    assert [vendor.texts(request) for request in server.requests] == [["D> t"], ["Q> q"]]


# -- dimensions -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("openai", "text-embedding-ada-002"),
        ("google", "embedding-001"),
        ("voyage", "voyage-3-lite"),
        ("voyage", "voyage-law-2"),
        ("jina", "jina-embeddings-v2-base-en"),
        ("mistral", "mistral-embed"),
        ("ollama", "all-minilm"),
        ("ollama", "nomic-embed-text-v1"),
        ("local", "all-MiniLM-L6-v2"),
        ("onnx", "gpahal/bge-m3-onnx-int8"),
    ],
)
def test_a_model_that_cannot_be_cut_is_refused_when_it_is_chosen(name: str, model: str) -> None:
    """Dimensions for a model that cannot change them are a ConfigError before anything is sent."""
    with pytest.raises(ConfigError, match=f"{model} cannot have 100 dimensions") as caught:
        open_embedder(EmbedOptions(provider=name, model=model, dimensions=100))
    assert "embedding.dimensions" in caught.value.hint


@pytest.mark.parametrize("name", ["openai", "ollama"])
def test_a_matryoshka_model_is_cut_here_where_the_server_is_not_asked(name: str, rig: Rig) -> None:
    """Vectors are truncated and normalized here, and the server is not asked for fewer dimensions."""
    vendor = VENDORS[name]
    server = rig.serve(vendor.answering([3.0, 4.0, 12.0]))
    embedder = rig.open(vendor, server, model="nomic-embed-text:v1.5", dimensions=2)
    assert unpacked(embedder.embed_documents(["t"]).vectors[0]) == pytest.approx([0.6, 0.8])
    assert unpacked(embedder.embed_query("q")) == pytest.approx([0.6, 0.8])
    assert not {"dimensions", "output_dimension"} & server.requests[0].body.keys()


def test_a_server_that_ignores_the_length_is_found_out(rig: Rig) -> None:
    """With an unknown model the dimensions are requested, and vectors of another length are rejected."""
    vendor = VENDORS["openai"]
    server = rig.serve(vendor.well)
    embedder = rig.open(vendor, server, model="house-blend", dimensions=2)
    with pytest.raises(ModelFault, match=r"vectors of 3 dimensions where embedding\.dimensions asks for 2"):
        embedder.embed_query("q")
    assert server.requests[0].body["dimensions"] == 2


# -- limits ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "most"), [("google", 100), ("mistral", 512), ("voyage", 1000)])
def test_no_request_holds_more_texts_than_the_vendor_takes(name: str, most: int, rig: Rig) -> None:
    """A batch size beyond the vendor's limit is reduced to it."""
    vendor = VENDORS[name]
    server = rig.serve(vendor.well)
    rig.open(vendor, server, batch_size=5000).embed_documents(["t"] * 1001)
    assert max(len(vendor.texts(request)) for request in server.requests) == most


@given(texts=st.lists(st.text(max_size=60), max_size=30), most_texts=st.integers(1, 10), max_tokens=st.integers(1, 100))
def test_batches_hold_every_text_once_in_order_within_limits(
    texts: list[str], most_texts: int, max_tokens: int
) -> None:
    """All texts are kept in order; only a single text may exceed a limit, and a batch ends only where the next one would."""
    found = [list(batch) for batch in split_batches(texts, most_texts, max_tokens)]
    assert [text for batch in found for text in batch] == texts
    sizes = [sum(map(estimate_tokens, batch)) for batch in found]
    for batch, size in zip(found, sizes, strict=True):
        assert 1 <= len(batch) <= most_texts
        assert len(batch) == 1 or size <= max_tokens
    for batch, size, following in zip(found, sizes, found[1:], strict=False):
        assert len(batch) == most_texts or size + estimate_tokens(following[0]) > max_tokens


def test_the_guess_is_rather_too_many() -> None:
    """Estimates for English prose, code and Chinese are not below the counts of common tokenizers."""
    assert estimate_tokens("The quick brown fox jumps over the lazy dog.") >= 10
    assert estimate_tokens("def find_files(model: str) -> ModelFiles:") >= 12
    assert estimate_tokens("会话从 Redis 移到了 SQLite") >= 14
