"""The real model, loaded once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lorelog.core.options import EmbedOptions
from lorelog.models.embed.builtin import BuiltinEmbedder


@pytest.fixture(scope="session")
def embedder() -> Iterator[BuiltinEmbedder]:
    opened = BuiltinEmbedder(EmbedOptions(threads=2))
    yield opened
    opened.close()
