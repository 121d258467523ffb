"""Texts as word pieces of uncased BERT: many sequences in one array, and the files that hold them."""

from __future__ import annotations

import io
import lzma
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

START, END = 101, 102
MAX_TOKENS = 500
"""Of a passage, prefix and marks not counted: a model reads 512, and the longest prefix has nine."""
MAX_QUESTION_TOKENS = 80
QUESTION_PREFIX, PASSAGE_PREFIX = "query: ", "passage: "


@dataclass(frozen=True, slots=True)
class Sequences:
    """Token ids one after the other (uint16), and how many belong to each sequence; 0 is a text that is missing."""

    tokens: Any
    lengths: Any

    def only(self, mask: Any) -> Sequences:
        """Return the sequences with those tokens only that a mask by token id has."""
        kept = mask[self.tokens]
        counts = np.concatenate(([0], np.cumsum(kept)))
        ends = np.cumsum(self.lengths.astype(np.int64))
        return Sequences(self.tokens[kept], counts[ends] - counts[ends - self.lengths])

    def chosen(self, which: Any) -> Sequences:
        """Return the sequences that a mask by place has."""
        return Sequences(self.tokens[np.repeat(which, self.lengths)], self.lengths[which])


def joined(parts: Sequence[Sequences]) -> Sequences:
    return Sequences(np.concatenate([part.tokens for part in parts]), np.concatenate([part.lengths for part in parts]))


class WordPieces:
    """Turns texts into sequences, many at a time, with the `tokenizers` library."""

    def __init__(self, vocabulary: Path) -> None:
        from tokenizers import BertWordPieceTokenizer

        self._tokenizer = BertWordPieceTokenizer(str(vocabulary), lowercase=True)

    def __call__(self, texts: Sequence[str], max_tokens: int) -> Sequences:
        encoded = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        rows = [np.array(entry.ids[:max_tokens], np.uint16) for entry in encoded]
        lengths = np.array([row.size for row in rows], np.int64)
        return Sequences(np.concatenate(rows) if rows else np.empty(0, np.uint16), lengths)


def word_mask(vocabulary: Path) -> Any:
    """Return for each token id whether it has a letter or digit."""
    entries = vocabulary.read_text("utf-8").removesuffix("\n").split("\n")
    return np.array([any(map(str.isalnum, entry)) for entry in entries])


def read_arrays(path: Path) -> dict[str, Any]:
    """Read what `write_arrays` wrote."""
    content = path.read_bytes()
    with np.load(io.BytesIO(lzma.decompress(content) if path.suffix == ".xz" else content)) as stored:
        return {name: stored[name] for name in stored.files}


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays as .npz; packed if the name ends in .xz."""
    content = io.BytesIO()
    np.savez(content, **arrays)
    path.write_bytes(lzma.compress(content.getvalue(), preset=3) if path.suffix == ".xz" else content.getvalue())


KINDS = ("answers", "code", "commits", "dialogue", "documents", "languages", "science")


@dataclass(frozen=True, slots=True)
class Pairs:
    """Questions, the passage of each, and the kind of each pair (its place in KINDS)."""

    questions: Sequences
    passages: Sequences
    kinds: Any


def read_pairs(*paths: Path) -> Pairs:
    """Return the pairs of files, one after the other."""
    parts = [read_arrays(path) for path in paths]
    return Pairs(
        joined([Sequences(part["questions"], part["question_lengths"]) for part in parts]),
        joined([Sequences(part["passages"], part["passage_lengths"]) for part in parts]),
        np.concatenate([part["kinds"] for part in parts]),
    )


def write_pairs(path: Path, pairs: Pairs) -> None:
    arrays = {
        "questions": pairs.questions.tokens,
        "question_lengths": pairs.questions.lengths,
        "passages": pairs.passages.tokens,
        "passage_lengths": pairs.passages.lengths,
        "kinds": pairs.kinds,
    }
    write_arrays(path, arrays)
