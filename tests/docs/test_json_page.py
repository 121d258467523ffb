"""docs/json.md describes what `--json` prints, field by field and in both directions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.docs.pages import blocks, read, rows, sections, spans
from tests.surfaces.conftest import Shell, write

from recollect.operations.replies import LatencyShape

PAGE = sections(read("docs/json.md"))
BY_NAME = {"projects": "", "settings": ".KEY"}
"""Objects whose keys are names of things, not fields."""

LATENCY = LatencyShape.__annotations__
"""Of the process that answers, which as a command of its own has counted nothing yet."""

JOURNAL = """# 2026-03-05

### 14:30
<!-- memory:01a1dd23-0000-7000-8000-000000000001 type:decision tags:redis origin:agent session:s turn:t transcript:x.jsonl
supersedes:01a1dd22 expires:2027-01-01 branch:main commit:abc -->
Chose Redis for the cache

### 15:30
Chose Redis for the queue
"""


def fields(value: Any, prefix: str = "") -> Iterator[str]:
    """Yield the dotted names of all fields of a JSON value."""
    if isinstance(value, list):
        for one in value:
            yield from fields(one, f"{prefix}[]")
    if not isinstance(value, dict):
        return
    if prefix in BY_NAME:
        for one in value.values():
            yield from fields(one, prefix + BY_NAME[prefix])
        return
    for key, one in value.items():
        name = f"{prefix}.{key}" if prefix else key
        yield name
        yield from fields(one, name)


def documented(section: str) -> set[str]:
    """Return the fields that a section of the page documents; `x.*` stands for the chunk fields below x."""
    names: set[str] = set()
    for name in (spans(row[0])[0] for row in rows(PAGE[section]) if row[0].startswith("`")):
        if name.endswith("*"):
            names |= {name[:-1] + one for one in documented("Chunk fields")}
        else:
            names.add(name)
    return names


@pytest.fixture
def journal(project: Path, shell: Shell) -> Path:
    """A journal whose first entry has an anchor with everything in it, indexed."""
    path = write(project / "notes" / "2026-03-05.md", JOURNAL)
    assert shell("index", "notes").status == 0
    return path


def test_search_is_documented(shell: Shell, journal: Path) -> None:
    """Every field of a search, with or without a token budget, is documented, and no other."""
    plain = shell("search", "redis", "--json", "--explain").json
    small = shell("search", "redis", "--json", "--token-budget", 10).json
    large = shell("search", "redis", "--json", "--token-budget", 10_000).json

    assert {*fields(plain), *fields(small), *fields(large)} == documented("search")


def test_expand_is_documented(shell: Shell, journal: Path) -> None:
    """Every field of an expanded section is documented, and no other."""
    assert set(fields(shell("expand", "01a1dd23", "--json").json)) == documented("expand")


def test_list_is_documented(shell: Shell, journal: Path) -> None:
    """Every field of listed memories and documents is documented, and no other."""
    memories = shell("list", "--json").json
    documents = shell("list", "--documents", "--json").json

    assert {*fields(memories), *fields(documents)} == documented("list")


def test_index_is_documented(shell: Shell, journal: Path, project: Path) -> None:
    """Every field of an index report is documented, and no other."""
    (project / "notes" / "bad.md").write_bytes(b"\xff")

    assert set(fields(shell("index", "--json").json)) == documented("index")


def test_eval_is_documented(shell: Shell, journal: Path, project: Path) -> None:
    """Every field of an evaluation is documented, and no other."""
    queries = write(project / "q.jsonl", '{"id": "q", "text": "redis"}\nno question\n')
    qrels = write(project / "r.tsv", "q\t2026-03-05.md\t1\nq\tgone.md\t1\n")

    assert set(fields(shell("eval", "--queries", queries, "--qrels", qrels, "--json").json)) == documented("eval")


def test_add_stats_and_reset_are_documented(shell: Shell, journal: Path) -> None:
    """Every field of these replies is documented, and no other."""
    assert set(fields(shell("add", "one more", "--json").json)) == documented("add")
    assert set(fields(shell("stats", "--json").json)) == documented("stats")
    assert set(fields(shell("reset", "--yes", "--json").json)) == documented("reset")


def test_get_and_delete_are_documented(shell: Shell, journal: Path) -> None:
    """Every field of these replies is documented, and no other."""
    assert set(fields(shell("get", "01a1dd23", "--json").json)) == documented("get")
    hidden = shell("delete", "01a1dd23", "--json").json
    assert set(fields(hidden)) == documented("delete, restore")
    assert set(fields(shell("restore", "01a1dd23", "--json").json)) == documented("delete, restore")


def test_transcript_is_documented(shell: Shell, journal: Path) -> None:
    """Every field of a conversation is documented, and no other."""
    lines = [
        {"type": "user", "uuid": "u", "sessionId": "s", "message": {"role": "user", "content": "read it"}},
        {
            "type": "assistant",
            "uuid": "a",
            "sessionId": "s",
            "message": {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "done"},
                    {"type": "tool_use", "id": "1", "name": "Read", "input": {"path": "x"}},
                ],
            },
        },
    ]
    write(journal.parent / "x.jsonl", "".join(json.dumps(line) + "\n" for line in lines))

    shown = shell("transcript", journal.parent / "x.jsonl", "--json")

    assert set(fields(shown.json)) == documented("transcript")


def test_called_operations_are_documented(shell: Shell, journal: Path) -> None:
    """Every field of the replies that only `call` prints is documented, and no other."""
    write(journal.parent / "again.md", journal.read_text("utf-8"))
    shell("index")
    added = shell("call", "add_batch", "--json", '{"memories": [{"text": "one"}]}').json

    assert set(fields(shell("call", "health").json)) == documented("health")
    assert set(fields(added)) == documented("add_batch")
    counted = shell("call", "metrics").json | {"operations": [dict.fromkeys(LATENCY, 0)], "cache": {}}
    assert set(fields(counted)) == documented("metrics")
    recalled = shell("call", "session.recall", "--json", '{"prompt": "redis", "k": 2, "min_relevance": 0}').json
    assert set(fields(recalled)) == documented("session.recall")


def test_sessions_are_documented(shell: Shell, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every field of what capturing answers is documented, and no other."""
    folder = project / ".claude" / "projects" / "p"
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(project / ".claude"))
    said = {"type": "user", "uuid": "u", "sessionId": "s", "cwd": str(project), "timestamp": "2026-03-05T14:30:00Z"}
    line = json.dumps(said | {"message": {"role": "user", "content": "why redis?"}})
    path = write(folder / "s.jsonl", line + "\n")
    asked = {"host": "claude", "session": "s", "transcript": str(path), "everything": True, "dry_run": True}
    bad = [{"path": "", "message": "", "hint": ""}]

    assert set(fields(shell("call", "session.capture", "--json", json.dumps(asked)).json)) == documented(
        "session.capture"
    )
    filled = shell("hosts", "backfill", "claude", "--json").json
    assert filled["turns"] == 1
    assert set(fields(filled | {"problems": bad})) == documented("hosts backfill")
    assert set(fields(shell("call", "session.status").json)) == documented("session.status")
    assert set(fields(shell("hosts", "flush", "--json").json)) == documented("hosts flush")


def test_installing_is_documented(shell: Shell) -> None:
    """Every field of what installing into hosts answers is documented, and no other."""
    for verb in ("install", "uninstall"):
        assert set(fields(shell("hosts", verb, "codex", "--json").json)) == documented("hosts install, hosts uninstall")
    assert set(fields(shell("hosts", "status", "--json").json)) == documented("hosts status")


def test_config_is_documented(shell: Shell) -> None:
    """Every field of the settings' replies is documented, and no other."""
    assert set(fields(shell("config", "init", "--json").json)) == documented("config init")
    assert set(fields(shell("config", "list", "--json").json)) == documented("config list")
    assert set(fields(shell("config", "get", "search.k", "--json").json)) == documented("config get")
    changed = {
        *fields(shell("config", "set", "search.k", 9, "--json").json),
        *fields(shell("config", "unset", "search.k", "--json").json),
    }
    assert changed == documented("config set, config unset")


def test_errors_are_documented(shell: Shell) -> None:
    """Every field of an error is documented, and no other."""
    assert set(fields(shell("expand", "zzz", "--json").json)) == documented("Errors")


@pytest.mark.parametrize("section", [name for name in PAGE if blocks(PAGE[name], "json")])
def test_examples_hold_documented_fields(section: str) -> None:
    """Each example on the page is JSON and holds no field that its table does not have."""
    for block in blocks(PAGE[section], "json"):
        assert set(fields(json.loads(block))) <= documented(section)
