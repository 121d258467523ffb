"""lorelog-1 as int8 ONNX, and its vocabulary: where the files are, and how to check them. Standard library only."""

from __future__ import annotations

from pathlib import Path

NAME = "lorelog-1"
DIMENSIONS = 384
MAX_TOKENS = 512
"""Tokens that the model reads, the two that mark beginning and end included."""
WEIGHTS = "model.onnx"
VOCABULARY = "vocab.txt"
"""One entry per line; its id is the number of lines before it."""
SHA256 = {
    WEIGHTS: "46b0286dbe7e7b2735f0b0ee665bb4038fc18975d2298629faeb7d706220d652",
    VOCABULARY: "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
}


def _find_folder() -> Path:
    here = Path(__file__).parent
    try:
        # Written by the build if LORELOG_ENCODER_DIR was set: the files are installed elsewhere.
        return Path((here / "folder.txt").read_text("utf-8").strip())
    except FileNotFoundError:
        return here


FOLDER = _find_folder()
"""Folder of the weights and the vocabulary."""
