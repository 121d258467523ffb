"""Broken, huge and hostile sources: a bad record is skipped and named, and nothing outside the source is read."""

from __future__ import annotations

import gzip
import json
import os
import tracemalloc
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ingest.importers.test_sources import (
    CLAUDE_AI,
    FIXTURES,
    chatgpt_conversation,
    entries,
    read,
    skipped,
    unpack,
)
from tests.surfaces.conftest import write

from lorelog.core.errors import LorelogError, SourceError
from lorelog.ingest.importers.note_folders import parse_matter, read_notes
from lorelog.ingest.importers.source import SOURCE_MODULES, SkippedItem, clean_tags, clean_type, open_source, parse_time


def test_a_link_out_of_the_folder_is_not_read(tmp_path: Path) -> None:
    """Notes that are links out of the vault, pipes, or not text are named and left out; linked folders are not followed."""
    secret = write(tmp_path / "secret" / "key.md", "the secret\n")
    vault = tmp_path / "vault"
    (vault / ".obsidian").mkdir(parents=True)
    write(vault / "ok.md", "Fine.\n")
    (vault / "link.md").symlink_to(secret)
    (vault / "folder").symlink_to(secret.parent)
    os.mkfifo(vault / "pipe.md")
    (vault / "binary.md").write_bytes(b"\xff\xfe\x00bad")
    (vault / "huge.md").write_bytes(b"x" * 4_000_001)
    (Path(os.fsdecode(bytes(vault) + b"/n\xff.md"))).write_text("bad name", "utf-8")
    items = read("obsidian", vault)
    assert [entry.text for entry in entries(items)] == ["**ok**\n\nFine."]
    reasons = " ".join(skipped(items))
    for words in (
        "leads out of the folder, to key.md",
        "leads out of the folder, to secret",
        "not a regular file",
        "not UTF-8 text",
        "larger than",
        "name is not UTF-8",
    ):
        assert words in reasons


@pytest.mark.parametrize(
    ("name", "linked"),
    [
        *(("chatgpt", "conversations.json"), ("claude-ai", "conversations.json"), ("claude-mem", "claude-mem.db")),
        *(("loop", ".loop/config.json"), ("loop", ".loop/team/work/memory"), ("basic-memory", "a.md")),
        *(("memsearch", ".memsearch/config.toml"), ("memsearch", ".memsearch/USER.md"), ("rules", "GEMINI.md")),
    ],
)
def test_no_source_follows_a_link_out_of_its_folder(tmp_path: Path, name: str, linked: str) -> None:
    """What a folder holds behind a link out of it is not read by any source that takes folders, and is named."""
    link = tmp_path / "tool" / linked
    link.parent.mkdir(parents=True)
    outside = tmp_path / "outside" / "x.md"
    write(outside, "---\ntype: fact\npermalink: x\n---\nthe secret\n")
    link.symlink_to(outside if link.suffix else outside.parent)
    items = read(name, tmp_path / "tool")
    assert entries(items) == []
    assert f"leads out of the folder, to {link.resolve().name}" in " ".join(skipped(items))


def test_a_truncated_export_gives_its_complete_conversations(tmp_path: Path) -> None:
    """The conversations before the break of a truncated export are read, and the break is named."""
    text = json.dumps([chatgpt_conversation(), chatgpt_conversation(title="Second")])
    items = read("chatgpt", write(tmp_path / "conversations.json", text[:-20]))
    assert len(entries(items)) == 1
    assert skipped(items) == ["the file ends here unexpectedly, or is not valid JSON"]


def test_a_zip_bomb_ends(tmp_path: Path) -> None:
    """An archive that expands without end is given up at a limit, with little memory."""
    path = tmp_path / "bomb.zip"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("conversations.json", "w", force_zip64=True) as member,
    ):
        member.write(b'[{"mapping": {}, "x": "')
        for _ in range(300):
            member.write(b" " * 1_000_000)
    assert path.stat().st_size < 1_000_000
    tracemalloc.start()
    items = read("chatgpt", path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert not entries(items)
    assert len(items) == 1
    assert peak < 800_000_000


def test_hostile_names_in_an_archive(tmp_path: Path) -> None:
    """Names in an archive that lead elsewhere choose no path: nothing is unpacked, and the member is read like any other."""
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../../conversations.json", json.dumps(CLAUDE_AI))
    before = set(tmp_path.parent.rglob("*"))
    assert len([entry for entry in entries(read("claude-ai", path)) if entry.kind == "turn"]) == 2
    assert set(tmp_path.parent.rglob("*")) == before


def test_a_damaged_archive_and_database(tmp_path: Path) -> None:
    """A damaged archive or database is an error that names the file."""
    broken = tmp_path / "x.zip"
    broken.write_bytes(b"PK\x03\x04" + b"junk" * 100)
    with pytest.raises(SourceError, match="ZIP archive"):
        read("chatgpt", broken)
    data = gzip.decompress((FIXTURES / "claude-mem.db.gz").read_bytes())
    (tmp_path / "claude-mem.db").write_bytes(data[:4096] + b"\0" * 50_000)
    with pytest.raises(SourceError, match="cannot be read"):
        read("claude-mem", tmp_path / "claude-mem.db")


def test_columns_of_another_version(tmp_path: Path) -> None:
    """A claude-mem database with fewer columns is read as far as it goes."""
    import sqlite3

    path = tmp_path / "claude-mem.db"
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TABLE observations (id INTEGER, project TEXT, text TEXT, type TEXT, created_at TEXT)"
        )
        connection.execute(
            "INSERT INTO observations VALUES (1, 'app', 'Old form.', 'discovery', '2025-01-01T00:00:00Z')"
        )
        connection.execute("INSERT INTO observations VALUES (2, 'app', NULL, 'discovery', NULL)")
    connection.close()
    items = read("claude-mem", path)
    assert [(entry.text, entry.type) for entry in entries(items)] == [("Old form.", "fact")]
    assert skipped(items) == ["it has no text"]


def test_a_database_is_not_changed(tmp_path: Path) -> None:
    """Reading a tool's database leaves it and its folder as they were."""
    path = unpack("claude-mem.db", tmp_path / "claude-mem.db")
    before = path.read_bytes()
    read("claude-mem", path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", SOURCE_MODULES)
@given(data=st.binary(max_size=200))
def test_any_bytes(name: str, tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    """Any file is refused with an error of ours, or read as entries and skipped items; nothing else is raised."""
    path = tmp_path_factory.mktemp("any") / "memory.af"
    path.write_bytes(data)
    source = open_source(name)
    source.accepts(path)
    with suppress(LorelogError):
        assert all(item is not None for item in source.read(path))


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                _NAMES := [
                    "mapping",
                    "message",
                    "chat_messages",
                    "content",
                    "parts",
                    "author",
                    "role",
                    "text",
                    "memory",
                    "results",
                    "type",
                    "name",
                    "observations",
                    "agents",
                    "blocks",
                    "value",
                    "messages",
                    "current_node",
                    "parent",
                    "children",
                    "create_time",
                    "omf",
                    "memories",
                    "extensions",
                    "tags",
                    "x",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@pytest.mark.parametrize("name", ["chatgpt", "claude-ai", "mem0", "mcp-memory", "letta", "memd", "claude-mem"])
@given(value=json_values)
def test_any_json(name: str, tmp_path_factory: pytest.TempPathFactory, value: object) -> None:
    """JSON of any shape, with the names that a tool uses, raises nothing but errors of ours."""
    folder = tmp_path_factory.mktemp("json")
    for number, document in enumerate(
        (value, [value], {"memories": [value], "results": value, "observations": [value]})
    ):
        path = folder / f"{number}.json"
        path.write_text(json.dumps(document), "utf-8")
        with suppress(LorelogError):
            assert all(item is not None for item in open_source(name).read(path))


@given(lines=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=30), max_size=8))
def test_any_front_matter(lines: list[str]) -> None:
    """Any front matter is parsed into a dictionary."""
    assert isinstance(parse_matter(lines), dict)


@given(st.text(max_size=300))
def test_words_are_accepted_by_journals(text: str) -> None:
    """A cleaned tag or type passes the journal's own check."""
    from lorelog.core.memory import NewMemory
    from lorelog.services.memories.journal import check_memory

    check_memory(NewMemory("x", clean_type(text), clean_tags(text)))


@pytest.mark.parametrize("value", [None, "", "x", 1e30, -5, True, "9999-01-01", float("nan"), float("inf"), [], {}])
def test_values_that_are_not_past_times(value: object) -> None:
    """A value that is not a time of the past is no date."""
    assert parse_time(value) is None


def test_a_missing_note_is_named(tmp_path: Path) -> None:
    """A note that cannot be opened is named."""
    write(tmp_path / "a.md", "x")
    (tmp_path / "b.md").symlink_to(tmp_path / "nowhere.md")
    assert any(isinstance(item, SkippedItem) and item.place == "b.md" for item in read_notes(tmp_path))
