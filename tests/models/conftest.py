"""The real model, loaded once. If it is missing, the test fails with the command to get it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lorelog.core.options import EmbedOptions
from lorelog.models.embed.builtin import MODEL_FOLDER, BuiltinEmbedder


@pytest.fixture(scope="session")
def embedder() -> Iterator[BuiltinEmbedder]:
    missing = [name for name in ("model.onnx", "tokenizer.json") if not (MODEL_FOLDER / name).is_file()]
    if missing:
        pytest.fail(f"the built-in model lacks {missing}: run `python scripts/fetch_model.py` (make test does)")
    opened = BuiltinEmbedder(EmbedOptions(threads=2))
    yield opened
    opened.close()
