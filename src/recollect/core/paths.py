"""The border of a directory, as text: one rule for scanning, scoping and filtering."""

from __future__ import annotations


def is_below(path: str, directory: str) -> bool:
    """Say whether a path is a directory or lies in it; `/a/bc` does not lie in `/a/b`. Both are real paths."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")
