"""Golden vectors: the built-in model returns on this machine the vectors that are committed.

`golden.json` was written by this file, run as a script (`python tests/models/test_golden.py --write`), on x86_64 with
onnxruntime 1.31 and tokenizers 0.23, by the recipe in `embed_by_recipe` and not by lorelog's code. Sums of floats round
differently on other processors, which can move an activation to the next of its 256 steps. So vectors are compared by cosine,
at least .99: the texts with a wrong prefix are further away. On the same machine lorelog and the recipe must agree to .9999.
"""

from __future__ import annotations

import base64
import json
import os
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

import pytest
from tests.models.reference_tokenizer import make_tokenizer
from tests.models.vendors import unpacked

from lorelog.models.embed.builtin import BuiltinEmbedder, encoder_folder

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
    vector: str


def golden() -> list[Golden]:
    loaded: list[Golden] = json.loads(GOLDEN.read_text(encoding="utf-8"))
    return loaded


def embed_by_recipe(kind: str, text: str) -> list[float]:
    """Return the vector as train/README.md has it: prefix, 512 tokens, the only output of the model. It stands in a batch, padded."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import numpy as np
    import onnxruntime

    tokenizer = make_tokenizer()
    tokenizer.enable_truncation(512)
    encoding = tokenizer.encode(f"{kind}: {text}")
    others = [tokenizer.encode(f"passage: {'padded ' * count}") for count in (1, 60)]
    width = max(len(item.ids) for item in (encoding, *others))
    feed = {
        name: np.array([values + [0] * (width - len(values)) for values in rows])
        for name, rows in (
            ("input_ids", [item.ids for item in (others[0], encoding, others[1])]),
            ("attention_mask", [item.attention_mask for item in (others[0], encoding, others[1])]),
        )
    }
    session = onnxruntime.InferenceSession(str(encoder_folder() / "model.onnx"), providers=["CPUExecutionProvider"])
    (vectors,) = session.run(["sentence_embedding"], feed)
    return [float(value) for value in vectors[1]]


def write() -> None:
    entries: list[Golden] = []
    for kind, texts in TEXTS.items():
        for text in texts:
            vector = embed_by_recipe(kind, text)
            entries.append(
                {
                    "kind": kind,
                    "text": text,
                    "vector": base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode(),
                }
            )
    GOLDEN.write_text(json.dumps(entries, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(TEXTS))
def test_vectors_are_the_golden_ones(kind: str, embedder: BuiltinEmbedder) -> None:
    """The built-in model returns the committed vectors, to within the rounding of another processor."""
    expected = [entry for entry in golden() if entry["kind"] == kind]
    assert [entry["text"] for entry in expected] == TEXTS[kind]
    for entry in expected:
        if kind == "query":
            vector = unpacked(embedder.embed_query(entry["text"]))
        else:
            vector = unpacked(embedder.embed_documents([entry["text"]]).vectors[0])
        assert len(vector) == 384
        assert cosine(vector, unpacked(base64.b64decode(entry["vector"]))) >= 0.99
        assert cosine(vector, embed_by_recipe(kind, entry["text"])) >= 0.9999


@pytest.mark.slow
def test_a_wrong_prefix_would_be_noticed() -> None:
    """The same text with the other prefix is outside the tolerance."""
    for text in (TEXTS["query"][0], *TEXTS["passage"]):
        assert cosine(embed_by_recipe("passage", text), embed_by_recipe("query", text)) < 0.98


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python tests/models/test_golden.py --write")
    write()
