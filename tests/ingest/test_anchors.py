"""Anchors in all dialects."""

from __future__ import annotations

import pytest

from lorelog.core.document import Anchor
from lorelog.core.options import ChunkOptions
from lorelog.ingest.anchors import parse_anchor, parse_covers
from lorelog.ingest.markdown import chunk_markdown


@pytest.mark.parametrize(
    ("comment", "anchor"),
    [
        (
            " session:abc123 turn:def-456 transcript:/home/u/.claude/projects/x/s.jsonl ",
            Anchor("abc123", "def-456", "/home/u/.claude/projects/x/s.jsonl", "transcript"),
        ),
        (
            "session:s1 rollout:/Users/Ann Lee/.codex/My Sessions/r.jsonl",
            Anchor("s1", "", "/Users/Ann Lee/.codex/My Sessions/r.jsonl", "rollout"),
        ),
        ("session:s transcript:/a b/c.jsonl", Anchor("s", "", "/a b/c.jsonl", "transcript")),
        (
            "session:s transcript:openclaw-session://agent/session?sessionKey=agent:main:x&store=/p",
            Anchor("s", "", "openclaw-session://agent/session?sessionKey=agent:main:x&store=/p", "transcript"),
        ),
        (
            "session:s turn:t db:/data/Open Code/opencode.db",
            Anchor("s", "t", "/data/Open Code/opencode.db", "db"),
        ),
        (
            "memory:m1 type:decision tags:a,b supersedes:m0 expires:2026-12-31 origin:user branch:main commit:c0ffee",
            Anchor(
                memory="m1",
                type="decision",
                tags=("a", "b"),
                origin="user",
                supersedes="m0",
                expires="2026-12-31",
                branch="main",
                commit="c0ffee",
            ),
        ),
    ],
)
def test_every_dialect_is_read(comment: str, anchor: Anchor) -> None:
    """Claude Code, Codex, OpenClaw (path and URL), OpenCode and DSH, and our own; addresses may hold spaces."""
    assert parse_anchor(comment) == anchor


def test_unknown_words_are_passed_over() -> None:
    """Words with unknown keys, and loose words, change nothing; they also end an address."""
    anchor = parse_anchor("v:2 session:s loose words x-y:z turn:t transcript:/a b/c.jsonl later:key memory:m")
    assert anchor == Anchor("s", "t", "/a b/c.jsonl", "transcript", memory="m")


def test_anchors_may_wrap_and_repeat() -> None:
    """An anchor may run over several lines; of equal keys the first counts, of equal tags too."""
    anchor = parse_anchor("\n  memory:m\n  tags:a, b,a,,c\n  memory:n\n")
    assert anchor == Anchor(memory="m", tags=("a", "b", "c"))


@pytest.mark.parametrize(
    "comment",
    [
        "",
        "TODO",
        "type:decision tags:a",
        "turn:t transcript:/p",
        "session:",
        "session: s",
        "see session:s",
        "mysession:s",
    ],
)
def test_other_comments_are_no_anchors(comment: str) -> None:
    """Without a session or a memory, or when it begins as prose, a comment is just a comment."""
    assert parse_anchor(comment) is None


def test_what_a_summary_covers_may_go_on_below_it() -> None:
    """Hashes of the anchor and of comments of their own below are one list; other words and other sections' are none of it."""
    one, two, three = (digit * 16 for digit in "1a2")
    text = (
        f"# A\n<!-- memory:m covers:{one},nonsense -->\n<!-- covers:{two}, {one} -->\n<!-- covers:{three} and more -->\nsaid\n"
        f"# B\n<!-- covers:{three} -->\nsaid\n"
    )
    first, second = chunk_markdown(text, "/a.md", ChunkOptions()).chunks

    assert first.anchor == Anchor(memory="m", covers=(one, two))
    assert first.text == "# A\nsaid"
    assert second.anchor is None
    assert parse_covers(f"x covers:{one}") == ()


def test_only_the_first_piece_says_what_is_covered() -> None:
    """A long summary is cut into pieces with its anchor on each, and the list, which may be long, is on one of them."""
    listed = "\n".join(
        f"<!-- covers:{','.join(f'{line:08x}{number:08x}' for number in range(24))} -->" for line in range(9)
    )
    lines = "\n".join(f"- otters of part {number} sleep" for number in range(60))
    chunks = chunk_markdown(
        f"### 14:30\n<!-- memory:m type:summary -->\n{listed}\n{lines}\n", "/a.md", ChunkOptions()
    ).chunks

    assert len(chunks) > 1
    assert [len(chunk.anchor.covers) for chunk in chunks if chunk.anchor] == [216, *[0] * (len(chunks) - 1)]
    assert {(chunk.anchor.memory, chunk.type) for chunk in chunks if chunk.anchor} == {("m", "summary")}
    assert not any("covers" in chunk.text for chunk in chunks)
