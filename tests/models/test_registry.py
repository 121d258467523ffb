"""The register of providers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from recollect.core.errors import ConfigError
from recollect.core.options import PROVIDERS as NAMES
from recollect.core.options import EmbedOptions
from recollect.models import PROVIDERS, open_embedder

SOURCE = Path(__file__).parents[2] / "src"
HEAVY = {"numpy", "onnxruntime", "tokenizers", "http", "http.client", "ssl", "concurrent.futures"}


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
    [("buildin", "builtin"), ("OpenAI", "openai"), ("open-ai", "openai"), ("zzz", "builtin, openai, fake")],
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
    program = "from recollect.core.options import EmbedOptions; from recollect.models import open_embedder"
    if name:
        program += f"; open_embedder(EmbedOptions(provider={name!r}))"
    loaded = loaded_after(program)
    assert "recollect.models" in loaded
    assert not loaded & HEAVY
