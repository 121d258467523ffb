"""Each import source finds, recognizes and reads what its tool writes.

Made by the tool itself: `claude-mem.db.gz` (claude-mem 13.25.3, its SessionStore), `mem0.json` and `mem0-history.db.gz` (mem0ai 2.2.1) and
`mcp-memory.jsonl` (server-memory 2026.8.31); dates were changed afterwards. The others follow the documented or observed form.
"""

from __future__ import annotations

import gzip
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.surfaces.conftest import write

from lorelog.core.errors import SourceError, UsageError
from lorelog.ingest.importers.source import (
    SOURCE_MODULES,
    ImportedEntry,
    ImportedItem,
    ImportedSetting,
    MachinePlaces,
    SkippedItem,
    detect_source,
    open_source,
)

FIXTURES = Path(__file__).parent / "fixtures"


def unpack(name: str, target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(gzip.decompress((FIXTURES / f"{name}.gz").read_bytes()))
    return target


def read(source: str, path: Path) -> list[ImportedItem]:
    return list(open_source(source).read(path))


def entries(items: list[ImportedItem]) -> list[ImportedEntry]:
    return [item for item in items if isinstance(item, ImportedEntry)]


def skipped(items: list[ImportedItem]) -> list[str]:
    return [item.reason for item in items if isinstance(item, SkippedItem)]


def test_claude_mem(tmp_path: Path) -> None:
    """Observations become memories with type, author, session and files; summaries are archive; sensitive ones stay out."""
    path = unpack("claude-mem.db", tmp_path / ".claude-mem" / "claude-mem.db")
    assert list(open_source("claude-mem").find(MachinePlaces(tmp_path, tmp_path))) == [path]
    items = read("claude-mem", path)
    decision, bugfix, other, summary = entries(items)
    assert decision.type == "decision"
    assert decision.text.startswith("**Sessions are kept in Redis**")
    assert "- TTL is 30 minutes" in decision.text
    assert "`src/login/session.ts`" in decision.text
    assert decision.author == "claude-sonnet-4-5"
    assert decision.anchor == (("session", "0b1c2d3e-1111-4222-8333-444455556666"),)
    assert decision.at is not None
    assert decision.at.timestamp() == 1741185000
    assert (bugfix.type, bugfix.tags) == ("lesson", ("bugfix", "gotcha"))
    assert [entry.project for entry in (decision, other)] == ["app", "other"]
    assert summary.archive
    assert not decision.archive
    assert "SameSite matters" in summary.text
    assert skipped(items) == ["claude-mem marked it as sensitive"]
    assert not list(path.parent.glob("*-wal"))


def test_mem0_json(tmp_path: Path) -> None:
    """The reply of mem0's `get_all` becomes memories with category, date and author."""
    first, second = entries(read("mem0", FIXTURES / "mem0.json"))
    assert (first.text, first.tags, first.author) == ("I prefer tabs over spaces in Go", ("style",), "mara")
    assert (second.text, second.author) == ("The staging database is on host stage-4", "helper")
    assert second.at is not None
    assert second.at.year == 2025


def test_mem0_history(tmp_path: Path) -> None:
    """mem0's history gives the newest text of each memory, dated by its first; deleted ones are left out."""
    path = unpack("mem0-history.db", tmp_path / ".mem0" / "history.db")
    items = read("mem0", path)
    assert [entry.text for entry in entries(items)] == [
        "I prefer tabs over spaces in Go",
        "The staging database is on host stage-4",
    ]
    assert skipped(items) == ["it was deleted in mem0"]


def test_mem0_plugin_export(tmp_path: Path) -> None:
    """The blocks of mem0's plugin export are read one by one, also if a text contains a rule."""
    text = "---\nid: a\ncreated_at: 2025-03-05T10:00:00Z\ntype: decision\nfiles: src/a.py\ncategories: db, cache\n---\nUse Redis.\n---\nReally.\n\n---\nid: b\ntype: fact\n---\nPort 8443.\n"
    first, second = entries(read("mem0", write(tmp_path / "mem0-export-app-2025.md", text)))
    assert first.text == "Use Redis.\n---\nReally.\n\nFiles: `src/a.py`"
    assert (first.type, first.tags, second.text) == ("decision", ("db", "cache"), "Port 8443.")


def test_mcp_memory() -> None:
    """An entity of the MCP memory server is one entry with its observations and relations; empty ones are skipped."""
    items = read("mcp-memory", FIXTURES / "mcp-memory.jsonl")
    service, team = entries(items)
    assert service.text == (
        "**Payment service** (service)\n\n- Runs on port 8443\n- Retries a charge three times, then parks it\n"
        "- Owned by the billing team\n- is owned by Billing team"
    )
    assert "- Deploys on Tuesdays" in team.text
    assert skipped(items) == ["it has no observations"]


CLAUDE_AI = [
    {
        "uuid": "c1",
        "name": "Brewing",
        "created_at": "2025-03-05T10:00:00Z",
        "chat_messages": [
            {
                "uuid": "m1",
                "sender": "human",
                "text": "How hot?",
                "created_at": "2025-03-05T10:00:00Z",
                "attachments": [{"file_name": "a.txt"}],
            },
            {
                "uuid": "m2",
                "sender": "assistant",
                "text": "x",
                "content": [{"type": "thinking", "text": "no"}, {"type": "text", "text": "94 degrees."}],
            },
            {"uuid": "m3", "sender": "human", "text": "Thanks, and how long?"},
            {"uuid": "m4", "sender": "assistant", "text": "Three minutes."},
        ],
    },
    {"uuid": "c2", "name": "Empty", "chat_messages": []},
    {"uuid": "c3"},
]


def test_claude_ai(tmp_path: Path) -> None:
    """Turns of a Claude.ai export are archive entries with title and date; its memory and project instructions are memories."""
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", json.dumps(CLAUDE_AI))
        archive.writestr("memories.json", json.dumps([{"conversations_memory": "Works on brewing."}]))
        project = {
            "uuid": "p",
            "name": "Roastery",
            "prompt_template": "Be brief.",
            "created_at": "2025-01-01T00:00:00Z",
            "docs": [{"filename": "a.md", "content": "Beans."}],
        }
        archive.writestr("projects.json", json.dumps([project]))
    found = detect_source(path)
    assert found is not None
    assert found.name == "claude-ai"
    items = list(found.read(path))
    turns = [entry for entry in entries(items) if entry.kind == "turn"]
    assert [turn.text for turn in turns] == [
        "**Brewing**\n\nUser: How hot?\n\n[attached: a.txt]\n\nAssistant: 94 degrees.",
        "**Brewing**\n\nUser: Thanks, and how long?\n\nAssistant: Three minutes.",
    ]
    assert all(turn.archive and turn.anchor == (("conversation", "c1"),) for turn in turns)
    assert [entry.archive for entry in entries(items) if entry.kind != "turn"] == [False, False, True]
    assert skipped(items) == ["it has no messages"]


def chatgpt_conversation(**more: Any) -> dict[str, Any]:
    """A conversation whose second answer was regenerated; the person saw the newer one."""

    def node(parent: str | None, children: list[str], role: str, text: str, **rest: Any) -> dict[str, Any]:
        message = {
            "author": {"role": role},
            "content": {"content_type": "text", "parts": [text]},
            "create_time": 1741168800.0,
            **rest,
        }
        return {"message": message, "parent": parent, "children": children}

    mapping = {
        "root": {"message": None, "parent": None, "children": ["sys"]},
        "sys": node("root", ["u"], "user", "about me", metadata={"is_visually_hidden_from_conversation": True}),
        "u": node("sys", ["old", "new"], "user", "How do I park a charge?"),
        "old": node("u", [], "assistant", "Old answer."),
        "new": node("u", [], "assistant", "Set the state.", metadata={"model_slug": "gpt-5"}),
    }
    return {
        "title": "Charges",
        "conversation_id": "g1",
        "create_time": 1741168800.0,
        "mapping": mapping,
        "current_node": "new",
        **more,
    }


def test_chatgpt(tmp_path: Path) -> None:
    """Of a ChatGPT conversation the branch that was seen last is read; hidden messages are not."""
    path = write(tmp_path / "out" / "conversations.json", json.dumps([chatgpt_conversation(), {"title": "bad"}]))
    for place in (path, path.parent):
        found = detect_source(place)
        assert found is not None
        assert found.name == "chatgpt"
        items = list(found.read(place))
        (turn,) = entries(items)
        assert turn.text == "**Charges**\n\nUser: How do I park a charge?\n\nAssistant: Set the state."
        assert turn.author == "gpt-5"
        assert turn.archive
        assert skipped(items) == ["it is not a conversation"]


def test_chatgpt_without_times_and_current_node() -> None:
    """A conversation without its own time takes its earliest message's, and a ring of parents ends."""
    from lorelog.ingest.importers.chats import _read_chatgpt_conversation

    value = chatgpt_conversation(create_time=None, current_node=None)
    value["mapping"]["root"]["parent"] = "u"
    (turn,) = entries(list(_read_chatgpt_conversation(value, "x")))
    assert turn.at is not None
    assert turn.at.timestamp() == 1741168800


def test_memsearch(tmp_path: Path) -> None:
    """Journal entries of memsearch keep time, session and transcript, as archive; settings are mapped, and keys are not."""
    folder = tmp_path / "app" / ".memsearch"
    write(
        folder / "memory" / "2025-03-05.md",
        "# 2025-03-05\n\n## Session 14:00\n\n### 14:30\n<!-- session:abc turn:def transcript:/tmp/t.jsonl -->\n- Added Redis caching\n\n### 14:45\n- No anchor here\n",
    )
    write(folder / "PROJECT.md", "A payment service.\n")
    write(
        folder / "config.toml",
        '[embedding]\nprovider = "openai"\nmodel = "m"\napi_key = "k"\n[milvus]\nuri = "~/.memsearch/milvus.db"\n'
        'collection = "notes"\n[watch]\ndebounce_ms = 900\n'
        '[plugins.claude-code.summarize]\nprovider = "openai"\nmodel = "small"\n[plugins.dsh.summarize]\nenabled = true\n'
        '[plugins.codex.summarize]\nprovider = "native"\nmodel = "mini"\n[plugins.opencode.summarize]\nenabled = false\nmodel = "x"\n',
    )
    for place in (tmp_path / "app", folder, folder / "memory"):
        items = read("memsearch", place)
        first, second, profile = entries(items)
        assert (first.text, first.archive) == ("- Added Redis caching", True)
        assert first.anchor == (("session", "abc"), ("turn", "def"), ("transcript", "/tmp/t.jsonl"))
        assert first.at is not None
        assert f"{first.at:%Y-%m-%d %H:%M}" == "2025-03-05 14:30"
        assert second.text == "- No anchor here"
        assert first.project == str(tmp_path / "app")
        assert profile.kind == "profile"
    settings = {item.key: item.value for item in items if isinstance(item, ImportedSetting)}
    assert settings == {
        "embedding.provider": "openai",
        "embedding.model": "m",
        "summarize.provider": "openai",
        "summarize.models": "claude=small,codex=mini",
        "watch.debounce_ms": "900",
    }
    assert "its own model writes notes only once 'summarize.provider' is 'host'" in skipped(items)
    assert skipped(items).count("the search index is a file of lorelog's own; 'store.uri' chooses Milvus") == 2
    server = tmp_path / ".memsearch.toml"
    write(server, '[milvus]\nuri = "http://db:19530"\ncollection = "notes"\n')
    found = {item.key: item.value for item in read("memsearch", server) if isinstance(item, ImportedSetting)}
    assert found == {"store.uri": "http://db:19530", "store.collection": "notes"}
    assert "keys and tokens are never imported; set them yourself" in skipped(items)
    assert "k" not in settings.values()


def test_loop(tmp_path: Path) -> None:
    """Loop's settings are read with comments and trailing commas; its notes are read from its paths, without excluded ones."""
    app = tmp_path / "app"
    config = '{\n // memory\n "memory": {"enabled": true, "paths": ["./notes", "!./notes/drafts", "/etc"], "max_chunk_chars": 800,\n "embeddings": {"provider": "ollama", "model": "nomic // text",},},\n}'
    write(app / ".loop" / "config.json", config)
    write(app / "notes" / "deploy.md", "# Deploy\n\nOn Tuesdays.\n")
    write(app / "notes" / "drafts" / "x.md", "A draft.\n")
    write(app / ".loop" / "C1" / "work" / "memory" / "2025-03-05.md", "Said hello.\n")
    items = read("loop", app)
    note, daily = entries(items)
    assert (note.text, note.archive, note.project) == ("# Deploy\n\nOn Tuesdays.", False, str(app))
    assert (daily.tags, daily.archive) == (("channel:C1",), True)
    settings = {item.key: item.value for item in items if isinstance(item, ImportedSetting)}
    assert settings["index.paths"] == "./notes,!./notes/drafts"
    assert settings["embedding.model"] == "nomic // text"
    assert any("outside of" in reason for reason in skipped(items))


def test_memd(tmp_path: Path) -> None:
    """OMF and batch files of memd give text, type, tags, date and writer; archived memories and other calls are left out."""
    memories = [
        {
            "content": "fact A",
            "tags": ["topic:release"],
            "created_at": "2025-04-18T00:00:00Z",
            "extensions": {"memd": {"chunk_type": "decision"}},
        },
        {"content": "old", "status": "archived"},
    ]
    items = read("memd", write(tmp_path / "a.json", json.dumps({"omf": "1.0", "memories": memories})))
    (entry,) = entries(items)
    assert (entry.text, entry.type, entry.tags) == ("fact A", "decision", ("topic:release",))
    assert entry.at is not None
    assert entry.at.year == 2025
    assert skipped(items) == ["it is archived in memd"]
    lines = [
        {
            "tool": "memory.add",
            "arguments": {"text": "one", "type": "fact", "tags": ["a"], "project_id": "app", "agent_id": "bot"},
        },
        {"tool": "memory.search", "arguments": {"query": "x"}},
        {"chunk_id": "1", "text": "two", "chunk_type": "trace", "timestamp_created": 1741168800000},
    ]
    path = write(tmp_path / "b.jsonl", "".join(json.dumps(line) + "\n" for line in lines) + "not json\n")
    items = read("memd", path)
    first, second = entries(items)
    assert (first.text, first.project, first.author) == ("one", "app", "bot")
    assert second.at is not None
    assert second.at.year == 2025
    assert skipped(items) == ["memory.search adds no memory", "1 lines are not JSON objects"]
    (tmp_path / ".memd" / "data").mkdir(parents=True)
    with pytest.raises(SourceError, match="own files"):
        read("memd", tmp_path / ".memd" / "data")


def test_basic_memory(tmp_path: Path) -> None:
    """A note of basic-memory keeps title, type and tags; categories and relations become tags."""
    note = "---\ntitle: Coffee\ntype: note\npermalink: coffee\ntags:\n- brewing\n---\n\n# Coffee\n\n- [method] Pour over #clean (morning)\n- [x] done\n\n## Relations\n- relates_to [[Tea Methods]]\n"
    write(tmp_path / "notes" / "coffee.md", note)
    assert open_source("basic-memory").accepts(tmp_path / "notes")
    (entry,) = entries(read("basic-memory", tmp_path / "notes"))
    assert entry.tags == ("brewing", "category:method", "link:Tea-Methods", "clean")
    assert entry.type == "note"
    assert entry.text.startswith("# Coffee")


def test_obsidian(tmp_path: Path) -> None:
    """Wikilinks, tags and aliases of a vault become tags; a link that several notes could answer is reported, not guessed."""
    vault = tmp_path / "vault"
    (vault / ".obsidian").mkdir(parents=True)
    write(
        vault / "Redis.md",
        '---\naliases: [cache, "key store"]\ntags: db/cache\n---\nSee [[Login|the login]], [[Plan]] and ![[image.png]]. #fast `#not`\n',
    )
    write(vault / "work" / "Login.md", "Keeps sessions in [[Redis#TTL]].\n")
    write(vault / "a" / "Plan.md", "One.\n")
    write(vault / "b" / "Plan.md", "Two.\n")
    write(vault / "2025-03-05.md", "Slept well.\n")
    write(vault / ".trash" / "gone.md", "Gone.\n")
    assert list(open_source("obsidian").find(MachinePlaces(tmp_path, tmp_path))) == [vault]
    items = read("obsidian", vault)
    by_name = {entry.place: entry for entry in entries(items)}
    assert set(by_name) == {"Redis.md", "work/Login.md", "a/Plan.md", "b/Plan.md", "2025-03-05.md"}
    assert by_name["Redis.md"].tags == ("db/cache", "fast", "alias:cache", "alias:key-store", "link:work/Login")
    assert by_name["work/Login.md"].tags == ("link:Redis",)
    assert by_name["2025-03-05.md"].archive
    assert any("[[Plan]] could be several notes" in reason for reason in skipped(items))


def test_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Instruction files are read by section, with their headings and the files they apply to; those of the home are the user's."""
    monkeypatch.setenv("HOME", str(tmp_path))
    app = tmp_path / "app"
    write(app / "CLAUDE.md", "Intro.\n\n# Style\n\nTabs.\n\n## Tests\n\nRun make test.\n")
    write(app / ".cursor" / "rules" / "ts.mdc", "---\ndescription: TypeScript\nglobs: src/**/*.ts\n---\nNo any.\n")
    write(tmp_path / ".claude" / "CLAUDE.md", "Be brief.\n")
    places = MachinePlaces(tmp_path, app)
    assert {str(path.relative_to(tmp_path)) for path in open_source("rules").find(places)} == {
        "app/CLAUDE.md",
        "app/.cursor/rules",
        ".claude/CLAUDE.md",
    }
    texts = [entry.text for entry in entries(read("rules", app))]
    assert texts == [
        "Intro.",
        "**Style**\n\nTabs.",
        "**Style > Tests**\n\nRun make test.",
        "No any.\n\nTypeScript\n\nFor files: src/**/*.ts",
    ]
    assert not any(entry.is_users for entry in entries(read("rules", app)))
    (users,) = entries(read("rules", tmp_path / ".claude" / "CLAUDE.md"))
    assert users.is_users


def test_letta(tmp_path: Path) -> None:
    """Blocks of an agent file are memories, its messages archive; system messages and empty blocks are left out."""
    document = {
        "agents": [
            {
                "name": "Ada",
                "block_ids": ["b1"],
                "messages": [
                    {"role": "system", "content": "x"},
                    {"role": "user", "content": [{"type": "text", "text": "Hi"}], "created_at": "2025-03-05T10:00:00Z"},
                    {"role": "assistant", "content": "Hello"},
                ],
            }
        ],
        "blocks": [
            {"id": "b1", "label": "human", "value": "Likes tea.", "description": "about the person"},
            {"id": "b2", "label": "empty", "value": ""},
        ],
    }
    path = write(tmp_path / "ada.af", json.dumps(document))
    items = read("letta", path)
    block, turn = entries(items)
    assert (block.text, block.author) == ("**human**: about the person\n\nLikes tea.", "Ada")
    assert turn.text == "**Ada**\n\nUser: Hi\n\nAssistant: Hello"
    assert turn.archive
    assert skipped(items) == ["the block is empty"]


def test_unknown_source() -> None:
    """An unknown source is answered with the nearest name."""
    with pytest.raises(UsageError, match="did you mean 'claude-mem'"):
        open_source("claudemem")


def make_fixture(name: str) -> Callable[[Path], Path]:
    return lambda folder: unpack(name, folder / name)


@pytest.mark.parametrize("name", SOURCE_MODULES)
def test_sources_keep_their_promise(name: str, tmp_path: Path) -> None:
    """Every source has its name, finds nothing in an empty home, and accepts neither an empty folder nor an empty file."""
    source = open_source(name)
    assert source.name == name
    (tmp_path / "home").mkdir()
    (tmp_path / "project").mkdir()
    assert list(source.find(MachinePlaces(tmp_path / "home", tmp_path / "project"))) == []
    assert not source.accepts(tmp_path / "project")
    assert not source.accepts(write(tmp_path / "empty.txt", ""))
    assert not source.accepts(tmp_path / "missing")


@pytest.mark.parametrize(
    ("name", "make"), [("claude-mem", make_fixture("claude-mem.db")), ("mem0", make_fixture("mem0-history.db"))]
)
def test_databases_are_recognized(name: str, make: Callable[[Path], Path], tmp_path: Path) -> None:
    """A database is recognized by its tables, whatever its name is."""
    found = detect_source(make(tmp_path).rename(tmp_path / "renamed.db"))
    assert found is not None
    assert found.name == name
