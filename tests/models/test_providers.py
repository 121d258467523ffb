"""Model families and providers by name, the names that vectors are stored under, and docs/providers.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.docs.pages import read, rows
from tests.models.vendors import VENDORS, Rig

from lorelog.core.errors import ConfigError
from lorelog.core.options import EMBEDDING_PROVIDERS as NAMES
from lorelog.core.options import EmbedOptions
from lorelog.models.embed import PROVIDERS, max_texts_in_flight, open_embedder
from lorelog.models.embed.families import FAMILIES, find_family, prefixes_from_prompts, vector_model_name
from lorelog.models.embed.remote import ADAPTERS

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


def test_settings_may_choose_exactly_the_providers_there_are() -> None:
    """The settings accept exactly the registered providers, and none."""
    assert set(NAMES) == {*PROVIDERS, "none"}


@pytest.mark.parametrize("name", sorted(PROVIDERS))
def test_every_provider_opens_under_its_name(name: str) -> None:
    """Each provider opens without key, package or server, and reports its own name and default model."""
    embedder = open_embedder(EmbedOptions(provider=name))
    assert (embedder.provider, embedder.model) == (name, PROVIDERS[name].default_model)
    embedder.close()
    embedder.close()


@pytest.mark.parametrize(
    ("asked", "hint"),
    [("buildin", "builtin"), ("OpenAI", "openai"), ("open-ai", "openai"), ("zzz", ", ".join(PROVIDERS))],
)
def test_an_unknown_provider_is_a_config_error_with_the_nearest_name(asked: str, hint: str) -> None:
    """A misspelt provider is named, and the hint offers the nearest, or all if none is near."""
    with pytest.raises(ConfigError, match=asked) as caught:
        open_embedder(EmbedOptions(provider=asked))
    assert hint in caught.value.hint


def test_a_model_that_a_provider_does_not_have_is_a_config_error() -> None:
    """A provider with one model rejects others; others accept any name."""
    with pytest.raises(ConfigError, match="e5-large") as caught:
        open_embedder(EmbedOptions(model="e5-large"))
    assert "lorelog-2" in caught.value.hint
    embedder = open_embedder(EmbedOptions(provider="openai", model="anything/at-all"))
    assert embedder.model == "anything/at-all"


@pytest.mark.parametrize("name", [name for name, provider in PROVIDERS.items() if not provider.accepts_any_model])
@pytest.mark.parametrize(
    ("chosen", "key"),
    [
        ({"dimensions": 64}, "embedding.dimensions"),
        ({"query_prefix": "q: "}, "embedding.query_prefix"),
        ({"document_prefix": ""}, "embedding.document_prefix"),
    ],
)
def test_a_model_of_one_shape_refuses_another(name: str, chosen: dict[str, Any], key: str) -> None:
    """Settings that have no effect with a provider are rejected by name."""
    with pytest.raises(ConfigError, match=key) as caught:
        open_embedder(EmbedOptions(provider=name, **chosen))
    assert key in caught.value.hint


def test_as_many_texts_are_handed_over_as_are_under_way() -> None:
    """A provider with parallel requests gets a batch for each, of the configured size."""
    assert max_texts_in_flight(EmbedOptions(provider="builtin")) == 32
    assert max_texts_in_flight(EmbedOptions(provider="openai")) == 4 * 256
    assert max_texts_in_flight(EmbedOptions(provider="openai", batch_size=10)) == 40
    assert max_texts_in_flight(EmbedOptions(provider="ollama", batch_size=10)) == 10


def test_defaults_are_those_that_people_know() -> None:
    """Models, batch sizes and variables are those of memsearch, so that settings can be reused."""
    assert {
        name: (provider.default_model, provider.batch_size, provider.key_variable, provider.url_variable)
        for name, provider in PROVIDERS.items()
    } == {
        "builtin": ("lorelog-2", 32, "", ""),
        "openai": ("text-embedding-3-small", 256, "OPENAI_API_KEY", "OPENAI_BASE_URL"),
        "google": ("gemini-embedding-001", 100, "GOOGLE_API_KEY", ""),
        "voyage": ("voyage-3-lite", 128, "VOYAGE_API_KEY", ""),
        "jina": ("jina-embeddings-v4", 128, "JINA_API_KEY", ""),
        "mistral": ("mistral-embed", 64, "MISTRAL_API_KEY", ""),
        "ollama": ("nomic-embed-text", 512, "OLLAMA_API_KEY", "OLLAMA_HOST"),
        "local": ("all-MiniLM-L6-v2", 512, "", ""),
        "onnx": ("gpahal/bge-m3-onnx-int8", 32, "", ""),
        "fake": ("fake-64", 256, "", ""),
    }


PAGE = "docs/providers.md"
TESTS = Path(__file__).parents[1]
TABLE = {row[0].strip("`"): row[1:] for row in rows(read(PAGE)) if len(row) == 10 and row[0].startswith("`")}


def test_the_table_names_every_provider() -> None:
    """Each provider has a row, and each row a provider."""
    assert list(TABLE) == list(PROVIDERS)


def test_the_table_has_every_default() -> None:
    """Default model, batch size, key and address variable are those of the registry."""
    for name, provider in PROVIDERS.items():
        model, _, batch, key, address, *_ = TABLE[name]
        assert model == f"`{provider.default_model}`", name
        assert batch == str(provider.batch_size), name
        assert (f"`{provider.key_variable}`" in key) if provider.key_variable else (key == "none"), name
        assert not provider.url_variable or address == f"`{provider.url_variable}`", name


def test_the_table_marks_providers_that_take_dimensions() -> None:
    """`asked for` marks adapters that can request dimensions, `cut` those that truncate here."""
    for name, provider in PROVIDERS.items():
        said = TABLE[name][6]
        if not provider.accepts_any_model:
            assert said == "no", name
        elif name in {"local", "onnx", "ollama"}:
            assert said == "cut", name
        else:
            models = {"voyage": "voyage-3.5", "mistral": "codestral-embed"}
            adapter = ADAPTERS[name]
            assert adapter.takes_dimensions(models.get(name, provider.default_model)), name
            assert said.startswith("asked for"), name


def test_the_table_tells_where_texts_are_sent() -> None:
    """The listed address of each vendor is the adapter's base URL."""
    for name, provider in PROVIDERS.items():
        if provider.key_variable and not provider.url_variable:
            base_url = ADAPTERS[name].base_url
            assert base_url.startswith(f"https://{TABLE[name][4]}/"), name


def test_every_promise_names_tests_that_there_are() -> None:
    """Each row about errors names its tests, and every named test exists."""
    written = "\n".join(path.read_text("utf-8") for path in TESTS.rglob("test_*.py"))
    manners = [row for row in rows(read(PAGE)) if len(row) == 3 and "`test_" in row[2]]
    assert len(manners) >= 12
    named = set(re.findall(r"`(test_\w+)`", read(PAGE)))
    assert len(named) >= 20
    for name in named:
        assert f"def {name}(" in written, name


def test_the_table_marks_providers_that_distinguish_queries(rig: Rig) -> None:
    """A vendor whose models do not distinguish queries gets the same request for both; the others differ."""
    for vendor in VENDORS.values():
        server = rig.serve(vendor.well)
        embedder = rig.open(vendor, server)
        embedder.embed_documents(["same"])
        embedder.embed_query("same")
        document, query = (request.body for request in server.requests)
        said = TABLE[vendor.name][5]
        if "no difference" in said or (vendor.name == "openai" and said == "by the model's name"):
            assert document == query, vendor.name
        else:
            assert document != query, vendor.name


def test_the_table_marks_providers_that_report_tokens(rig: Rig) -> None:
    """`yes` marks vendors whose replies report tokens."""
    for vendor in VENDORS.values():
        reply = rig.open(vendor, rig.serve(vendor.well)).embed_documents(["a"])
        assert TABLE[vendor.name][7] == ("yes" if reply.tokens else "no"), vendor.name
    assert open_embedder(EmbedOptions(provider="fake")).embed_documents(["a b"]).tokens


def test_googles_usual_length_is_told() -> None:
    """The default dimensions of Google are those in the table."""
    embedder = open_embedder(EmbedOptions(provider="google"))
    assert TABLE["google"][1] == str(embedder._requested)  # type: ignore[attr-defined]


def test_the_families_are_told_with_their_words() -> None:
    """The prefixes in the table of families are those that are sent."""
    told = {
        row[0]: row[1:]
        for row in rows(read(PAGE))
        if len(row) == 3 and row[0].startswith("`") and "test_" not in row[2]
    }
    for name in ("nomic-embed-text", "embeddinggemma"):
        query, document = (cell.strip("`").replace("\\|", "|") for cell in told[f"`{name}`"])
        forms = find_family(name).prefixes
        assert (query.strip(), document.strip()) == (forms.query.strip(), forms.document.strip())
