"""The register of providers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lorelog.core.errors import ConfigError
from lorelog.core.options import PROVIDERS as NAMES
from lorelog.core.options import EmbedOptions
from lorelog.models import PROVIDERS, open_embedder, texts_at_once

SOURCE = Path(__file__).parents[2] / "src"
HEAVY = {
    "numpy",
    "onnxruntime",
    "tokenizers",
    "huggingface_hub",
    "sentence_transformers",
    "torch",
    "http",
    "http.client",
    "ssl",
    "concurrent.futures",
}


def test_settings_may_choose_exactly_the_providers_there_are() -> None:
    """The names that settings accept are the registered providers, and none."""
    assert set(NAMES) == {*PROVIDERS, "none"}


@pytest.mark.parametrize("name", sorted(PROVIDERS))
def test_every_provider_opens_under_its_name(name: str) -> None:
    """Each provider opens without key, package or server, and calls itself and its default model by their names."""
    embedder = open_embedder(EmbedOptions(provider=name))
    assert (embedder.provider, embedder.model) == (name, PROVIDERS[name].default_model)
    embedder.close()
    embedder.close()


@pytest.mark.parametrize(
    ("asked", "hint"),
    [("buildin", "builtin"), ("OpenAI", "openai"), ("open-ai", "openai"), ("zzz", ", ".join(PROVIDERS))],
)
def test_an_unknown_provider_is_a_config_error_with_the_nearest_name(asked: str, hint: str) -> None:
    """A misspelt provider is named, and the hint offers the nearest, or all when none is near."""
    with pytest.raises(ConfigError, match=asked) as caught:
        open_embedder(EmbedOptions(provider=asked))
    assert hint in caught.value.hint


def test_a_model_that_a_provider_does_not_have_is_a_config_error() -> None:
    """A provider with one model refuses others; a provider of any model takes the name as it is."""
    with pytest.raises(ConfigError, match="e5-large") as caught:
        open_embedder(EmbedOptions(model="e5-large"))
    assert "e5-small-v2" in caught.value.hint
    embedder = open_embedder(EmbedOptions(provider="openai", model="anything/at-all"))
    assert embedder.model == "anything/at-all"


@pytest.mark.parametrize("name", [name for name, provider in PROVIDERS.items() if not provider.any_model])
@pytest.mark.parametrize(
    ("chosen", "key"),
    [
        ({"dimensions": 64}, "embedding.dimensions"),
        ({"query_prefix": "q: "}, "embedding.query_prefix"),
        ({"document_prefix": ""}, "embedding.document_prefix"),
    ],
)
def test_a_model_of_one_shape_refuses_another(name: str, chosen: dict[str, Any], key: str) -> None:
    """Settings that would do nothing with a provider are refused by their name, not passed over."""
    with pytest.raises(ConfigError, match=key) as caught:
        open_embedder(EmbedOptions(provider=name, **chosen))
    assert key in caught.value.hint


def test_as_many_texts_are_handed_over_as_are_under_way() -> None:
    """A provider with several requests under way is handed a batch for each of them, of the size that was chosen."""
    assert texts_at_once(EmbedOptions(provider="builtin")) == 32
    assert texts_at_once(EmbedOptions(provider="openai")) == 4 * 256
    assert texts_at_once(EmbedOptions(provider="openai", batch_size=10)) == 40
    assert texts_at_once(EmbedOptions(provider="ollama", batch_size=10)) == 10


def test_defaults_are_those_that_people_know() -> None:
    """Models, batch sizes and variables are the ones that memsearch has, so that a setting can be taken along."""
    assert {
        name: (one.default_model, one.batch_size, one.key_variable, one.url_variable) for name, one in PROVIDERS.items()
    } == {
        "builtin": ("e5-small-v2", 32, "", ""),
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


def loaded_after(program: str) -> set[str]:
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{program}\nprint(*sys.modules, sep='\\n')"],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("name", ["", *sorted(PROVIDERS)])
def test_opening_is_light(name: str) -> None:
    """Importing the register, and opening any provider, loads no numpy, no onnxruntime and no HTTP client."""
    program = "from lorelog.core.options import EmbedOptions; from lorelog.models import open_embedder"
    if name:
        program += f"; open_embedder(EmbedOptions(provider={name!r}))"
    loaded = loaded_after(program)
    assert "lorelog.models" in loaded
    assert not loaded & HEAVY
