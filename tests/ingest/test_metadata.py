"""Anchors, dates and front matter of Markdown files."""

from __future__ import annotations

import pytest

from lorelog.core.document import Anchor
from lorelog.core.options import ChunkOptions
from lorelog.ingest import metadata
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
        ("session:s turn:t db:/data/Open Code/opencode.db", Anchor("s", "t", "/data/Open Code/opencode.db", "db")),
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
        (  # Unknown keys and other words are skipped; they also end an address.
            "v:2 session:s loose words x-y:z turn:t transcript:/a b/c.jsonl later:key memory:m",
            Anchor("s", "t", "/a b/c.jsonl", "transcript", memory="m"),
        ),
        # An anchor may span lines; the first of equal keys and of equal tags counts.
        ("\n  memory:m\n  tags:a, b,a,,c\n  memory:n\n", Anchor(memory="m", tags=("a", "b", "c"))),
        # A comment without a session or memory, or that begins as prose, is not an anchor.
        *((comment, None) for comment in ("", "TODO", "type:decision tags:a", "turn:t transcript:/p")),
        *((comment, None) for comment in ("session:", "session: s", "see session:s", "mysession:s")),
    ],
)
def test_every_dialect_is_read(comment: str, anchor: Anchor | None) -> None:
    """Anchors of Claude Code, Codex, OpenClaw (path and URL), OpenCode, DSH and lorelog are read; addresses may contain spaces."""
    assert metadata.parse_anchor(comment) == anchor


def test_covered_hashes_may_follow_the_anchor() -> None:
    """Hashes of an anchor and of covers comments below it form one list, within the same section."""
    first_hash, second_hash, third_hash = (digit * 16 for digit in "1a2")
    text = (
        f"# A\n<!-- memory:m covers:{first_hash},nonsense -->\n<!-- covers:{second_hash}, {first_hash} -->\n<!-- covers:{third_hash} and more -->\nsaid\n"
        f"# B\n<!-- covers:{third_hash} -->\nsaid\n"
    )
    first, second = chunk_markdown(text, "/a.md", ChunkOptions()).chunks

    assert first.anchor == Anchor(memory="m", covers=(first_hash, second_hash))
    assert first.text == "# A\nsaid"
    assert second.anchor is None
    assert metadata.parse_covers(f"x covers:{first_hash}") == ()


def test_only_the_first_piece_lists_covered_chunks() -> None:
    """Only the first piece of a long summary carries the list of covered chunks."""
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


BASE = metadata.PartialDatetime("2026-01-01")


@pytest.mark.parametrize(
    ("name", "day"),
    [
        ("/m/2026-03-05.md", "2026-03-05"),
        ("/m/2026-03-05-standup.md", "2026-03-05"),
        ("/m/2026-03-05-2.md", "2026-03-05"),
        ("/m/2024-02-29.md", "2024-02-29"),
        ("/m/2026-02-29.md", ""),
        ("/m/2026-13-01.md", ""),
        ("/m/2026-03-051.md", ""),
        ("/m/notes-2026-03-05.md", ""),
        ("/2026-03-05/notes.md", ""),
        ("", ""),
    ],
)
def test_journal_names_give_a_day(name: str, day: str) -> None:
    """A file name that begins with a valid ISO day is a journal of that day."""
    assert metadata.day_from_filename(name) == day


@pytest.mark.parametrize(
    ("title", "stamp"),
    [
        ("Notes", "2026-01-01"),
        ("14:30", "2026-01-01T14:30"),
        ("9:05 – call", "2026-01-01T09:05"),
        ("Session 14:47", "2026-01-01T14:47"),
        ("**14:30**", "2026-01-01T14:30"),
        ("14:30:59", "2026-01-01T14:30"),
        ("2:30 pm", "2026-01-01T14:30"),
        ("12:05 AM", "2026-01-01T00:05"),
        ("24:00", "2026-01-01"),
        ("10:99", "2026-01-01"),
        ("16:9 screens", "2026-01-01"),
        ("Meet at 14:30", "2026-01-01"),
        ("2026-03-05", "2026-03-05"),
        ("[1.2.0] - 2026-03-05", "2026-03-05"),
        ("2026-03-05 14:30", "2026-03-05T14:30"),
        ("2026-03-05T14:30:00Z", "2026-03-05T14:30"),
        ("2026-02-30", "2026-01-01"),
        ("12026-03-05", "2026-01-01"),
    ],
)
def test_headings_narrow_the_moment(title: str, stamp: str) -> None:
    """A valid day in a heading replaces the day, a time at its start adds the time; other text changes nothing."""
    assert BASE.refine(title).to_iso("fallback") == stamp


def test_moments_are_inherited() -> None:
    """A subsection inherits day and time; a new day resets the time."""
    entry = BASE.refine("14:30")
    assert entry.refine("Details").to_iso("") == "2026-01-01T14:30"
    assert entry.refine("2026-03-05").to_iso("") == "2026-03-05"


def test_a_time_without_a_day_is_not_used() -> None:
    """A time is not combined with the fallback day, which the text does not mention."""
    assert metadata.PartialDatetime().refine("14:30").to_iso("2026-09-09") == "2026-09-09"


def parse(text: str) -> metadata.FrontMatter:
    lines = text.split("\n")
    return metadata.parse_front_matter(lines[: metadata.front_matter_length(lines)])


FRONT_MATTER = {
    "four keys among any others": (
        '---\nlayout: post\nTitle: "A: b"\ndate: 2026-03-05T10:00:00Z # UTC\ntype: decision\ntags: [x, "y z", x]\n---',
        metadata.FrontMatter("A: b", "2026-03-05", "decision", ("x", "y z")),
    ),
    "TOML between `+++`, up to the first table": (
        "+++\ntitle = 'T'\ndate = 2026-03-05\ntags = [\"a\"]\n[extra]\ntype = 'no'\n+++\nbody",
        metadata.FrontMatter("T", "2026-03-05", "", ("a",)),
    ),
    "no nested key": ("---\nparent:\n  title: nested\n---", metadata.FrontMatter()),
    "no folded text": ("---\ntitle: >\n  folded\n---", metadata.FrontMatter()),
    "no day that does not exist": ("---\ndate: 2026-02-30\n---", metadata.FrontMatter()),
    "no word for a day": ("---\ndate: yesterday\n---", metadata.FrontMatter()),
    "nothing from empty keys": ("---\ntitle:\ntags:\n---", metadata.FrontMatter()),
    **{
        f"nothing from what is not front matter: {text!r}": (text, metadata.FrontMatter())
        for text in (
            "",
            "---",
            "---\n---",
            "---\ntitle: never closed",
            "--- \n\n# Heading\n---",
            "x\n---\ntitle: late\n---",
        )
    },
}


@pytest.mark.parametrize(("text", "front_matter"), FRONT_MATTER.values(), ids=FRONT_MATTER)
def test_front_matter_is_read(text: str, front_matter: metadata.FrontMatter) -> None:
    """Title, date, type and tags are read among any other keys, in YAML and TOML; anything else is ignored."""
    assert parse(text) == front_matter


@pytest.mark.parametrize(
    "tags",
    [
        "tags: [a, b]",
        "tags: a, b",
        "tags: ['a', \"b\"]",
        "tags:\n- a\n- b",
        "tags:\n  - a\n  - 'b'\nother: c",
        "tags: # both\n  - a\n  - b",
    ],
)
def test_lists_are_read_in_every_form(tags: str) -> None:
    """A list may be written in brackets, between commas or with dashes."""
    assert parse(f"---\nother: x\n{tags}\n---").tags == ("a", "b")


def test_metadata_of_a_file_is_limited() -> None:
    """Tags beyond the limits are dropped and counted, and no field repeats megabytes in every chunk."""
    many = ",".join(f"t{number}" for number in range(200_000))
    anchor = f"<!-- memory:m tags:{many} cues:{many} transcript:/{'p' * 100_000} origin:user -->"
    text = f"---\ntitle: {'x' * 100_000}\ntags: [{'y' * 500},{many}]\n---\n\n# a\n\n{anchor}\ntext\n"
    parsed = chunk_markdown(text, "/a.md", ChunkOptions())
    assert parsed.dropped_tags == 200_000 - metadata.MAX_TAGS + 1
    assert parsed.chunks[0].tags[:2] == ("t0", "t1")
    assert len(parsed.title) == 500
    anchored = parsed.chunks[-1].anchor
    assert anchored is not None
    assert (anchored.memory, anchored.origin, anchored.transcript) == ("m", "user", "")
    assert max(len(chunk.tags) for chunk in parsed.chunks) == metadata.MAX_TAGS
    assert len(anchored.cues) == 20
