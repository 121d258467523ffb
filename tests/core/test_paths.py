"""Paths of a home, and which path is inside which directory, on every system."""

from __future__ import annotations

import pytest

from lorelog.core.paths import is_below


@pytest.mark.parametrize(
    ("path", "directory", "separator", "inside"),
    [
        ("/a/b", "/a/b", "/", True),
        ("/a/b/c", "/a/b", "/", True),
        ("/a/bc", "/a/b", "/", False),
        ("/a", "/", "/", True),
        ("C:\\Users\\mara\\app\\notes", "C:\\Users\\mara\\app", "\\", True),
        ("C:\\Users\\mara\\apple", "C:\\Users\\mara\\app", "\\", False),
        ("C:\\Users", "C:\\", "\\", True),
        ("D:\\Users", "C:\\", "\\", False),
    ],
)
def test_a_path_is_inside_a_directory_of_either_system(
    path: str, directory: str, separator: str, *, inside: bool
) -> None:
    """Borders are those of the system: `/a/bc` is not inside `/a/b`, and drives are apart."""
    assert is_below(path, directory, separator) is inside
