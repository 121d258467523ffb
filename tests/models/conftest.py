"""The real model, opened once; a test that needs it fails when it is not there, with the way to get it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lorelog.core.options import EmbedOptions
from lorelog.models.builtin import FOLDER, BuiltinEmbedder


@pytest.fixture(scope="session")
def embedder() -> Iterator[BuiltinEmbedder]:
    missing = [name for name in ("model.onnx", "tokenizer.json") if not (FOLDER / name).is_file()]
    if missing:
        pytest.fail(f"the built-in model lacks {missing}: run `python scripts/fetch_model.py` (make test does)")
    opened = BuiltinEmbedder(EmbedOptions(threads=2))
    yield opened
    opened.close()
