"""The real model, loaded once, and servers on loopback."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from tests.models.vendors import Rig

from lorelog.core.options import EmbedOptions
from lorelog.models.embed.builtin import BuiltinEmbedder

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
"""Before a test imports onnxruntime itself."""


@pytest.fixture(scope="session")
def embedder() -> Iterator[BuiltinEmbedder]:
    opened = BuiltinEmbedder(EmbedOptions(threads=2))
    yield opened
    opened.close()


@pytest.fixture
def rig() -> Iterator[Rig]:
    """Servers and embedders that are closed after the test."""
    made = Rig()
    yield made
    made.stop()
