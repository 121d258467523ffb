"""lorelog-2 as int8 ONNX, and its vocabulary: where the files are, and how to check them. Standard library only."""

from __future__ import annotations

from pathlib import Path

NAME = "lorelog-2"
DIMENSIONS = 384
MAX_TOKENS = 512
"""Tokens that the model reads, the two that mark beginning and end included."""
WEIGHTS = "model.onnx"
VOCABULARY = "vocab.txt"
"""One entry per line; its id is the number of lines before it."""
SHA256 = {
    WEIGHTS: "4b443b159350ec469ae74102885e68d6b46fd8a8a58da85cc02d69543d40e793",
    VOCABULARY: "8309ba160be05e6493507783d61abb566da742d2bf80a39beeffafa49e147226",
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
