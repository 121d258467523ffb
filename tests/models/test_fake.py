"""The fake embedder, which is shipped."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.models.vendors import cosine

from lorelog.models.embed import fake

SOURCE = Path(__file__).parents[2] / "src"


def test_the_same_text_gives_the_same_bytes_in_every_process() -> None:
    """Another process with another hash seed returns the same vector."""
    program = "from lorelog.models.embed.fake import FakeEmbedder\nprint(FakeEmbedder().embed_query('Redis cache, 缓存').hex())"
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True
        )
        assert bytes.fromhex(done.stdout.strip()) == fake.FakeEmbedder().embed_query("Redis cache, 缓存")


def test_texts_that_share_words_are_near() -> None:
    """Common words make texts near, common parts of words a little."""
    embedder = fake.FakeEmbedder()
    query = embedder.embed_query("redis cache")
    vectors = embedder.embed_documents(["the redis cache is full", "caching with rediss", "lunch at noon"]).vectors
    same, similar, other = (cosine(query, vector) for vector in vectors)
    assert same > similar > other


@given(st.text())
def test_every_text_has_a_vector_of_unit_length_or_zero(text: str) -> None:
    """Every text has 64 numbers of unit length; a text without words has zeros."""
    (vector,) = fake.FakeEmbedder().embed_documents([text]).vectors
    assert len(vector) == 256
    length = cosine(vector, vector)
    assert length == pytest.approx(1.0, abs=1e-5) or vector == bytes(256)
