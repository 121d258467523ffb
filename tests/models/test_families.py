"""Model families by name, and the names that vectors are stored under."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.core.options import EmbedOptions
from lorelog.models.embed import open_embedder
from lorelog.models.embed.families import FAMILIES, find_family, prefixes_from_prompts, vector_model_name

SENTENCE = "Represent this sentence for searching relevant passages: "
INSTRUCT = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: "

KNOWN = [
    ("intfloat/e5-small-v2", "query: ", "passage: ", "mean", False),
    ("/models/multilingual-e5-base/", "query: ", "passage: ", "mean", False),
    ("~/models/my-e5-large-v2", "query: ", "passage: ", "mean", False),
    ("intfloat/multilingual-e5-large-instruct", INSTRUCT, "", "mean", False),
    ("intfloat/e5-mistral-7b-instruct", INSTRUCT, "", "lasttoken", False),
    ("nomic-embed-text", "search_query: ", "search_document: ", "mean", True),
    ("nomic-embed-text:latest", "search_query: ", "search_document: ", "mean", True),
    ("nomic-ai/nomic-embed-text-v1", "search_query: ", "search_document: ", "mean", False),
    ("nomic-ai/nomic-embed-text-v1.5-GGUF", "search_query: ", "search_document: ", "mean", True),
    ("BAAI/bge-small-en-v1.5", SENTENCE, "", "cls", False),
    ("BAAI/bge-large-zh-v1.5", "为这个句子生成表示以用于检索相关文章：", "", "cls", False),
    ("gpahal/bge-m3-onnx-int8", "", "", "cls", False),
    ("mixedbread-ai/mxbai-embed-large-v1", SENTENCE, "", "cls", True),
    ("snowflake-arctic-embed:110m", SENTENCE, "", "cls", False),
    ("Snowflake/snowflake-arctic-embed-m-v1.5", SENTENCE, "", "cls", True),
    ("snowflake-arctic-embed2", "query: ", "", "cls", True),
    ("Snowflake/snowflake-arctic-embed-l-v2.0", "query: ", "", "cls", True),
    ("embeddinggemma:300m", "task: search result | query: ", "title: none | text: ", "mean", True),
    ("Qwen/Qwen3-Embedding-0.6B", INSTRUCT, "", "lasttoken", True),
    ("jina-embeddings-v4-text-retrieval-GGUF", "Query: ", "Passage: ", "mean", True),
    ("Alibaba-NLP/gte-multilingual-base", "", "", "cls", True),
    ("Alibaba-NLP/gte-large-en-v1.5", "", "", "cls", False),
    ("all-MiniLM-L6-v2", "", "", "mean", False),
    ("text-embedding-3-small", "", "", "mean", False),
    ("made5-small-talk", "", "", "mean", False),
    ("", "", "", "mean", False),
]


@pytest.mark.parametrize(("model", "query", "document", "pooling", "matryoshka"), KNOWN)
def test_a_family_is_known_by_its_name(model: str, query: str, document: str, pooling: str, matryoshka: bool) -> None:  # noqa: FBT001
    """A model gets the prefixes it was trained with, whether it is named by an id, a path or with a tag.

    Vectors depend on every row: a changed row needs a mark in the stored name (`vector_model_name`).
    """
    family = find_family(model)
    assert (family.prefixes.query, family.prefixes.document) == (query, document)
    assert (family.pooling, family.matryoshka) == (pooling, matryoshka)


def test_every_family_is_held_fast_above() -> None:
    """Each row of the table is reached by a name above."""
    reached = {find_family(model).name for model, *_ in KNOWN}
    assert {family.name for family in FAMILIES} <= reached


def names(**options: object) -> str:
    return open_embedder(EmbedOptions(**options)).model  # type: ignore[arg-type]


@pytest.mark.parametrize("provider", ["openai", "google", "voyage", "jina", "mistral", "ollama", "local", "onnx"])
def test_vectors_of_another_form_have_another_name(provider: str) -> None:
    """Another document prefix, or none, changes the name; the query prefix does not."""
    usual = names(provider=provider)
    marked = {names(provider=provider, document_prefix=form) for form in ("a: ", "b: ", "search_documents: ")}
    assert len(marked | {usual}) == 4
    assert all(name.startswith(f"{usual}+") for name in marked)
    assert names(provider=provider, query_prefix="a: ") == usual


def test_no_words_at_all_are_told_from_the_usual_ones() -> None:
    """Removing a model's default prefix changes the name; setting the default does not."""
    assert names(provider="ollama", document_prefix="") != names(provider="ollama")
    assert names(provider="ollama", document_prefix="search_document: ") == "nomic-embed-text"


def test_words_that_an_api_does_not_have_bear_a_mark() -> None:
    """A family's prefix with a compatible server marks the name: other programs do not send it."""
    assert names(provider="openai", model="nomic-embed-text").startswith("nomic-embed-text+")
    assert names(provider="openai", model="nomic-embed-text", document_prefix="") == "nomic-embed-text"
    assert names(provider="openai", model="bge-small-en-v1.5") == "bge-small-en-v1.5"


def test_vectors_of_another_length_have_another_name() -> None:
    """Configured dimensions are part of the name."""
    assert names(provider="openai", dimensions=512) == "text-embedding-3-small@512"
    assert names(provider="ollama", dimensions=256) == "nomic-embed-text@256"
    assert names(provider="onnx", model="/m/nomic-embed-text-v1.5", dimensions=256) == "/m/nomic-embed-text-v1.5@256"


FORM = st.text(max_size=20)


@given(one=st.tuples(FORM, st.integers(0, 4096)), other=st.tuples(FORM, st.integers(0, 4096)))
def test_different_vectors_never_share_a_name(one: tuple[str, int], other: tuple[str, int]) -> None:
    """Different prefixes or dimensions give different names, and the same give the same."""
    assert (vector_model_name("model", *one) == vector_model_name("model", *other)) == (one == other)


@pytest.mark.parametrize(
    ("prompts", "found"),
    [
        (None, None),
        ({}, None),
        ({"query": "", "document": ""}, None),
        ({"query": "q: "}, ("q: ", "")),
        ({"query": "q: ", "passage": "p: "}, ("q: ", "p: ")),
        ({"query": "q: ", "document": "d: ", "passage": "p: "}, ("q: ", "d: ")),
        ({"query": 3, "document": ["d"]}, None),
        ("query: ", None),
    ],
)
def test_a_models_own_prompts_are_read(prompts: object, found: tuple[str, str] | None) -> None:
    """A model's own prompts are used if it has any."""
    forms = prefixes_from_prompts(prompts)
    assert (forms and (forms.query, forms.document)) == found
