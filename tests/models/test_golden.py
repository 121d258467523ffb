"""Golden vectors: what the built-in model says on this machine is what it said where they were made.

`golden.json` was made by this file, run as a script (`python tests/models/test_golden.py --write`), on aarch64 with
onnxruntime 1.31 and tokenizers 0.23, by the plain recipe of `by_the_recipe` and not by lorelog's own code. Other
processors round differently in places, which int8 scales amplify: cosine .999 admits that, and would not admit a wrong
prefix (.97 and less), a missing mask, another pooling or a saturating int8 kernel.
"""

from __future__ import annotations

import base64
import json
import os
import struct
import sys
from pathlib import Path
from typing import TypedDict

import pytest

from lorelog.models.builtin import FOLDER, BuiltinEmbedder

GOLDEN = Path(__file__).parent / "golden.json"
TEXTS = {
    "query": ["why did we drop redis for the session cache?"],
    "passage": [
        "",
        "Implemented Redis caching with a 5-minute TTL.",
        "## Decision\nWe keep sessions in SQLite: one file, no server, and `PRAGMA journal_mode=WAL` lets readers go on.",
        "我们决定使用 SQLite 而不是 Redis，因为它不需要服务器。検索は速い。",
        "Shipped it 🚀🎉 — naïve café tests pass ✅",
        "The deploy failed because the migration locked the table for eleven minutes. " * 60,
    ],
}


class Golden(TypedDict):
    kind: str
    text: str
    first: list[float]
    vector: str


def golden() -> list[Golden]:
    loaded: list[Golden] = json.loads(GOLDEN.read_text(encoding="utf-8"))
    return loaded


def unpacked(vector: bytes) -> tuple[float, ...]:
    return struct.unpack(f"<{len(vector) // 4}f", vector)


def by_the_recipe(kind: str, text: str) -> list[float]:
    """Prefix, 512 tokens, mean of the last hidden state over the attention mask, unit length."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import numpy as np
    import onnxruntime
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(512)
    encoding = tokenizer.encode(f"{kind}: {text}")
    feed = {
        "input_ids": np.array([encoding.ids]),
        "attention_mask": np.array([encoding.attention_mask]),
        "token_type_ids": np.array([encoding.type_ids]),
    }
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(str(FOLDER / "model.onnx"), options, providers=["CPUExecutionProvider"])
    states = session.run(None, feed)[0][0]
    mask = feed["attention_mask"][0][:, None]
    mean = (states * mask).sum(axis=0) / mask.sum()
    return [float(value) for value in mean / np.linalg.norm(mean)]


def write() -> None:
    made: list[Golden] = []
    for kind, texts in TEXTS.items():
        for text in texts:
            vector = by_the_recipe(kind, text)
            made.append(
                {
                    "kind": kind,
                    "text": text,
                    "first": [round(value, 5) for value in vector[:12]],
                    "vector": base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode(),
                },
            )
    GOLDEN.write_text(json.dumps(made, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


@pytest.mark.parametrize("kind", sorted(TEXTS))
def test_vectors_are_the_golden_ones(kind: str, embedder: BuiltinEmbedder) -> None:
    """The built-in model gives the committed vectors, to within what another processor may round."""
    expected = [entry for entry in golden() if entry["kind"] == kind]
    assert [entry["text"] for entry in expected] == TEXTS[kind]
    for entry in expected:
        if kind == "query":
            found = unpacked(embedder.embed_query(entry["text"]))
        else:
            found = unpacked(embedder.embed_documents([entry["text"]]).vectors[0])
        wanted = unpacked(base64.b64decode(entry["vector"]))
        assert len(found) == len(wanted) == 384
        assert sum(a * b for a, b in zip(found, wanted, strict=True)) >= 0.999
        assert found[:12] == pytest.approx(entry["first"], abs=0.01)


def test_a_wrong_prefix_would_be_noticed() -> None:
    """The tolerance is tight enough: the same text under the other prefix is not within it."""
    text = TEXTS["query"][0]
    with_passage = by_the_recipe("passage", text)
    with_query = by_the_recipe("query", text)
    assert sum(a * b for a, b in zip(with_passage, with_query, strict=True)) < 0.99


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python tests/models/test_golden.py --write")
    write()
