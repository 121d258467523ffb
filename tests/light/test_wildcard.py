"""Wildcards match what they say, in time proportional to the text."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.light.wildcard import MAX_PATH_CHARS, matches_path, matches_text


def text_reference(pattern: str, text: str) -> bool:
    """The rule of `matches_text`, written as a recursion."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        return text_reference(pattern[1:], text) or (bool(text) and text_reference(pattern, text[1:]))
    return bool(text) and pattern[0] in ("?", text[0]) and text_reference(pattern[1:], text[1:])


def path_reference(pattern: str, path: str) -> bool:
    """The rule of `matches_path` for a pattern that begins at the root and ends with a wildcard, part by part."""

    @cache
    def parts_match(wanted: tuple[str, ...], parts: tuple[str, ...]) -> bool:
        if not wanted:
            return not parts
        if wanted == ("**",):
            return bool(parts)
        if wanted[0] == "**":
            return parts_match(wanted[1:], parts) or (bool(parts) and parts_match(wanted, parts[1:]))
        return bool(parts) and text_reference(wanted[0], parts[0]) and parts_match(wanted[1:], parts[1:])

    return parts_match(tuple(pattern.strip("/").split("/")), tuple(path.split("/")))


@given(st.text("ab*?", max_size=8), st.text("ab", max_size=10))
def test_a_text_pattern_means_what_the_recursion_says(pattern: str, text: str) -> None:
    """`*` is any text and `?` one character, for every pattern and text."""
    assert matches_text(pattern, text) == text_reference(pattern, text)


PART = st.sampled_from(["a", "b", "ab", "*", "a*", "*b", "?", "?b", "**"])


@given(
    st.lists(PART, min_size=1, max_size=5), st.lists(st.sampled_from(["a", "b", "ab", "ba"]), min_size=1, max_size=5)
)
def test_a_path_pattern_means_what_the_reference_says(parts: list[str], path: list[str]) -> None:
    """`*` stays within a part and `**` crosses parts, for every pattern that begins at the root."""
    pattern = "/" + "/".join([*parts, "*"])

    assert matches_path(pattern, "/".join(path)) == path_reference(pattern, "/".join(path))


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("src/db/**", "src/db/pool.py", True),
        ("src/db/**", "src/db/a/b.py", True),
        ("src/db/**", "src/dbx/pool.py", False),
        ("src/*", "src/db/pool.py", False),
        ("*.sql", "migrations/2026/one.sql", True),
        ("pool.py", "src/db/pool.py", True),
        ("db/pool.py", "src/db/pool.py", True),
        ("/db/pool.py", "src/db/pool.py", False),
        ("src/db", "src/db/pool.py", True),
        ("src/d", "src/db/pool.py", False),
        ("tests/", "packages/a/tests/x.py", True),
        ("src/**/test_*.py", "src/test_a.py", True),
        ("src/**/test_*.py", "src/a/b/test_a.py", True),
        ("**/x", "abx", False),
        ("Src/**", "src/a", False),
    ],
)
def test_a_path_pattern_follows_the_documented_rules(pattern: str, path: str, *, expected: bool) -> None:
    """Each rule of the documentation, by an example."""
    assert matches_path(pattern, path) is expected


def test_a_pattern_made_to_backtrack_ends_at_once() -> None:
    """A pattern that would take a backtracking matcher for ever is answered."""
    assert not matches_text("*a" * 100 + "b", "a" * 20_000)
    assert not matches_path("/" + "*a" * 100 + "b", "a" * MAX_PATH_CHARS)
    assert not matches_path("**/a" * 70 + "/b*", "/".join(["a"] * 2_000))
    assert not matches_text("*?a?" * 50 + "b", "a" * 20_000)
