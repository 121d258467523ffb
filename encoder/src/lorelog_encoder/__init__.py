"""e5-small-v2 as int8 ONNX, and its vocabulary: where the files are, and how to check them. Standard library only."""

from __future__ import annotations

from pathlib import Path

NAME = "e5-small-v2"
DIMENSIONS = 384
MAX_TOKENS = 512
"""Tokens that the model reads, the two that mark beginning and end included."""
WEIGHTS = "model.onnx"
VOCABULARY = "vocab.txt"
"""One entry per line; its id is the number of lines before it."""
SHA256 = {
    WEIGHTS: "d74a213ce7122581aa2e024601e79e969373e7fe3cd3aa78c4996a5c79d4c5ad",
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
