"""Hashes, ids and cleaned texts that agree with memsearch 0.4.23's, so that both can read the same notes, and where they differ."""

from __future__ import annotations

import pytest

from lorelog.core.document import chunk_id, short_hash
from lorelog.core.options import ChunkOptions
from lorelog.ingest.markdown import chunk_markdown


def test_contents_and_hashes_agree_where_lines_are_not_cut() -> None:
    """Where both find the same section, the stored content and its hash are the same."""
    text = "intro\n\n# A\ntext a\n\n## B\ntext b\n### C\ntext c\n# D\ntext d\n"
    chunks = chunk_markdown(text, "/a.md", ChunkOptions()).chunks
    assert [chunk.content_hash for chunk in chunks] == [
        "c432b372e0e30267",
        "9af9bc0143936e65",
        "1d32894223a52af6",
        "eb14868273f93d63",
        "598be4b7aa7c46f2",
    ]
    assert short_hash("## 决策 记录\n我们选择了 Redis。") == "d2195a5c804524f9"


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (("/a/b.md", 1, 2, "0123456789abcdef", "m"), "172f042aaf0551bb"),
        (("/home/u/é.md", 10, 20, "ffffffffffffffff", "gpahal/bge-m3-onnx-int8"), "13cc3f81d612e087"),
        (("", 0, 0, "", ""), "533401ec6ad4cdd3"),
    ],
)
def test_ids_agree(parts: tuple[str, int, int, str, str], expected: str) -> None:
    """From the same source, lines, hash and model both compute the same id."""
    assert chunk_id(*parts) == expected


@pytest.mark.parametrize(
    ("content", "cleaned"),
    [
        ("<!-- a -->x", "x"),
        ("a\n<!-- b\nc -->\n\n\n\nd", "a\n\nd"),
        ("  x  ", "x"),
        ("<!-- unclosed x", "<!-- unclosed x"),
        ("<!-- a --><!-- b -->\nq", "q"),
        ("", None),
        ("<!---->", None),
    ],
)
def test_cleaning_agrees(content: str, cleaned: str | None) -> None:
    """The embedded text is cleaned alike; if nothing is left, lorelog has no chunk."""
    chunks = chunk_markdown(content, "/a.md", ChunkOptions()).chunks
    assert [chunk.text for chunk in chunks] == ([] if cleaned is None else [cleaned])


def test_cleaning_differs_where_a_comment_filled_its_line() -> None:
    """Memsearch leaves an empty line in place of a comment; lorelog does not, so adding an anchor re-embeds nothing."""
    with_anchor, without = (
        chunk_markdown(text, "/a.md", ChunkOptions()).chunks[0]
        for text in ("### 14:30\n<!-- memory:m -->\n- done", "### 14:30\n- done")
    )
    assert with_anchor.text == without.text == "### 14:30\n- done"
    assert with_anchor.vector_key == without.vector_key
