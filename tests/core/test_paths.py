"""Paths of a home, and which path is inside which directory."""

from __future__ import annotations

import pytest

from lorelog.core.paths import is_below


@pytest.mark.parametrize(
    ("path", "directory", "inside"),
    [("/a/b", "/a/b", True), ("/a/b/c", "/a/b", True), ("/a/bc", "/a/b", False), ("/a", "/", True)],
)
def test_a_path_is_inside_a_directory(path: str, directory: str, *, inside: bool) -> None:
    """A directory ends where its name does: `/a/bc` is not inside `/a/b`."""
    assert is_below(path, directory) is inside
