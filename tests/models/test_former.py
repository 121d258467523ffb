"""Who is asked for vectors of a model that was chosen before, and who is not."""

from __future__ import annotations

import pytest

from lorelog.core.options import EmbedOptions
from lorelog.models import former_embedder, open_embedder


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
    """A model of the provider that is chosen now, or one that computes here, is known again by its name."""
    made = open_embedder(before)

    again = former_embedder(
        EmbedOptions("openai", api_key="k", base_url="http://127.0.0.1:1"), f"{made.provider}/{made.model}"
    )

    assert again is not None
    assert (again.provider, again.model) == (made.provider, made.model)


def test_prefixes_are_those_of_then_or_of_now() -> None:
    """Vectors with unusual words in front are known again where those are still chosen, and else by nobody."""
    chosen = EmbedOptions("openai", "m", api_key="k", document_prefix="text: ")
    name = f"openai/{open_embedder(chosen).model}"

    assert "+" in name
    assert former_embedder(EmbedOptions("openai", "other", api_key="k", document_prefix="text: "), name) is not None
    assert former_embedder(EmbedOptions("openai", "other", api_key="k"), name) is None


@pytest.mark.parametrize(
    "name", ["voyage/voyage-3-lite", "ollama/nomic-embed-text", "onnx/org/m", "none/none", "fake/x", ""]
)
def test_nobody_else_is_asked(name: str) -> None:
    """Texts go to no server, and no package is loaded, that is not chosen now; unknown names are nobody's."""
    assert former_embedder(EmbedOptions("openai", api_key="k"), name) is None
