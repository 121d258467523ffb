"""The embedder of vectors that were made with an earlier setting."""

from __future__ import annotations

import pytest

from lorelog.core.options import EmbedOptions
from lorelog.models.embed import open_embedder, previous_embedder


@pytest.mark.parametrize(
    "before",
    [
        EmbedOptions("openai", "text-embedding-3-large"),
        EmbedOptions("openai", "text-embedding-3-large", dimensions=256),
        EmbedOptions("openai", "house@model"),
        EmbedOptions("builtin"),
        EmbedOptions("fake"),
    ],
)
def test_a_model_that_may_be_asked(before: EmbedOptions) -> None:
    """A model of the configured provider, or a built-in one, is recognised by its name."""
    made = open_embedder(before)

    again = previous_embedder(
        EmbedOptions("openai", api_key="k", base_url="http://127.0.0.1:1"), f"{made.provider}/{made.model}"
    )

    assert again is not None
    assert (again.provider, again.model) == (made.provider, made.model)


def test_prefixes_are_those_of_then_or_of_now() -> None:
    """Vectors with a custom prefix are recognised only if the prefix is still configured."""
    chosen = EmbedOptions("openai", "m", api_key="k", document_prefix="text: ")
    name = f"openai/{open_embedder(chosen).model}"

    assert "+" in name
    assert previous_embedder(EmbedOptions("openai", "other", api_key="k", document_prefix="text: "), name) is not None
    assert previous_embedder(EmbedOptions("openai", "other", api_key="k"), name) is None


@pytest.mark.parametrize(
    "name",
    ["voyage/voyage-3-lite", "ollama/nomic-embed-text", "onnx/org/m", "none/none", "fake/x", "builtin/e5-small-v2", ""],
)
def test_only_the_configured_server_is_contacted(name: str) -> None:
    """No server is contacted and no package loaded unless it is configured now; unknown names give None."""
    assert previous_embedder(EmbedOptions("openai", api_key="k"), name) is None
