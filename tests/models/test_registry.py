"""The registry of providers."""

from __future__ import annotations

from typing import Any

import pytest

from lorelog.core.errors import ConfigError
from lorelog.core.options import EMBEDDING_PROVIDERS as NAMES
from lorelog.core.options import EmbedOptions
from lorelog.models.embed import PROVIDERS, max_texts_in_flight, open_embedder


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
