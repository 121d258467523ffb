"""docs/json.md describes what `--json` prints, field by field and in both directions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.docs.pages import blocks, read, rows, sections, spans
from tests.surfaces.conftest import Shell, write

from lorelog.core.document import short_hash
from lorelog.light.delivery_log import append_delivery
from lorelog.records.kinds import FIELDS, FieldType

PAGE = sections(read("docs/json.md"))
BY_NAME = {
    "counts": "",
    **dict.fromkeys(("projects", "languages", "trees[].languages", "left_out"), ""),
    **dict.fromkeys(("selected", "unreached", "receipts[].selected"), ""),
    **dict.fromkeys(("exchanges[].writers", "exchanges[].projects"), ""),
    "settings": ".KEY",
}
"""Objects whose keys are names of things, not fields."""

JOURNAL = """# 2026-03-05

### 14:30
<!-- memory:01a1dd23-0000-7000-8000-000000000001 type:decision tags:redis origin:agent session:s turn:t transcript:x.jsonl
supersedes:01a1dd22 expires:2027-01-01 branch:main commit:abc covers:{covered} cues:path=src%2Fcache.py -->
Chose Redis for the cache

### 15:30
Chose Redis for the queue
""".replace("{covered}", short_hash("### 15:30\nChose Redis for the queue"))


def fields(value: Any, prefix: str = "") -> Iterator[str]:
    """Yield the dotted names of all fields of a JSON value."""
    if isinstance(value, list):
        for entry in value:
            yield from fields(entry, f"{prefix}[]")
    if not isinstance(value, dict):
        return
    if prefix in BY_NAME:
        for element in value.values():
            yield from fields(element, prefix + BY_NAME[prefix])
        return
    for key, item in value.items():
        name = f"{prefix}.{key}" if prefix else key
        yield name
        yield from fields(item, name)


def documented(section: str) -> set[str]:
    """Return the fields that a section of the page documents; `x.*` stands for the chunk fields below x, `x.**` for a record's."""
    names: set[str] = set()
    for name in (spans(row[0])[0] for row in rows(PAGE[section]) if row[0].startswith("`")):
        if name.endswith("**"):
            names |= {name[:-2] + item for item in documented("Record fields")}
        elif name.endswith("*"):
            names |= {name[:-1] + entry for entry in documented("Chunk fields")}
        else:
            names.add(name)
    return names


@pytest.fixture
def journal(project: Path, shell: Shell) -> Path:
    """A journal whose first entry has an anchor with everything in it, indexed."""
    path = write(project / "notes" / "2026-03-05.md", JOURNAL)
    assert shell("index", "notes").status == 0
    return path


def names_a_file(shell: Shell, journal: Path) -> None:
    """Remember something about a file of the project."""
    write(journal.parents[1] / "cache_it.py", "redis = 1\n")
    assert shell("add", "redis is in cache_it.py").status == 0


@pytest.mark.slow
def test_search_is_documented(shell: Shell, journal: Path) -> None:
    """Every field of a search, with or without a token budget, is documented, and no other."""
    assert shell("decide", "redis it is", "--because", "it is fast").status == 0
    names_a_file(shell, journal)
    plain = shell("search", "redis", "--json", "--explain").json
    small = shell("search", "redis", "--json", "--token-budget", 10).json
    large = shell("search", "redis", "--json", "--token-budget", 10_000).json

    assert {*fields(plain), *fields(small), *fields(large)} == documented("search")


def test_expand_is_documented(shell: Shell, journal: Path) -> None:
    """Every field of an expanded section is documented, and no other."""
    # As of a hit, tested there.
    found = {name for name in documented("show") if name.startswith("freshness.findings[]")}
    assert set(fields(shell("show", "01a1dd23", "--json").json)) | found == documented("show")


def test_eval_is_documented(shell: Shell, journal: Path, project: Path) -> None:
    """Every field of an evaluation is documented, and no other."""
    queries = write(project / "q.jsonl", '{"id": "q", "text": "redis"}\nno question\n')
    qrels = write(project / "r.tsv", "q\t2026-03-05.md\t1\nq\tgone.md\t1\n")

    assert set(fields(shell("eval", "--queries", queries, "--qrels", qrels, "--json").json)) == documented("eval")


def test_status_is_documented(shell: Shell, journal: Path, home: Path) -> None:
    """Every field of the status screen is documented, and no other."""
    append_delivery(str(home / "data" / "default" / "deliveries"), "claude", "s", {"memories": ["m"]})
    screen = {
        name for name in fields(shell("status", "--json").json) if not name.startswith(("index.", "cost.limits["))
    }
    assert screen == {name for name in documented("status") if not name.startswith("problems[")}


def test_sessions_are_documented(shell: Shell, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every field of what capturing answers is documented, and no other."""
    folder = project / ".claude" / "projects" / "p"
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(project / ".claude"))
    said = {"type": "user", "uuid": "u", "sessionId": "s", "cwd": str(project), "timestamp": "2026-03-05T14:30:00Z"}
    line = json.dumps(said | {"message": {"role": "user", "content": "why redis?"}})
    write(folder / "s.jsonl", line + "\n")
    bad = [{"path": "", "message": "", "hint": ""}]

    filled = shell("backfill", "claude", "--json").json
    assert filled["turns"] == 1
    assert set(fields(filled | {"problems": bad})) == documented("backfill")


def test_uninstalling_is_documented(shell: Shell) -> None:
    """Every field of what `uninstall` answers is documented, and no other."""
    shell("add", "we use pnpm")
    bad = [{"path": "", "message": "", "hint": ""}]
    reply = shell("uninstall", "--dry-run", "--json").json
    assert set(fields(reply | {"problems": bad})) == documented("uninstall")


PRINTED = (
    *("list", "list --documents", 'call memory.get {"id":"01a1dd23"}', "init --dry-run", "wiki lint", "wiki build"),
    'call session.recall {"prompt":"redis","k":9,"min_relevance":0}',
    *("hosts install codex", "hosts uninstall codex", "hosts status", "hosts flush"),
    *("config init", "config list", "config get search.k", "config set search.k 9", "config unset search.k"),
    *("identity create mara", "identity export mara", "identity list", "identity show mara", "identity forget mara"),
)
"""Commands whose replies no operation declares, or several of which share a section."""


def test_printed_fields_are_documented(shell: Shell, journal: Path) -> None:
    """Every field that these commands print, and every field of an error, is documented, and no other."""
    shell("task", "start", "a goal")
    shell("call", "artifact.decision", "--json", '{"summary": "redis it is", "writer": "mara"}')
    names_a_file(shell, journal)
    parts = {part: section for section in PAGE for part in section.split(", ")}
    printed = {"Errors": set(fields(shell("show", "zzz", "--json").json))}
    for line in PRINTED:
        named = [part for part in parts if line.removeprefix("call ").startswith(part)]
        names = printed.setdefault(parts[max(named, key=len)], set())
        names |= set(fields(shell(*line.split(), "--json").json))

    assert printed == {section: documented(section) for section in printed}


def test_context_is_documented(shell: Shell, journal: Path) -> None:
    """Every field of the context for a task is documented, and no other."""
    found = shell("call", "context.find_relevant_context", "--json", '{"task": "redis"}').json
    assert set(found) == documented("context.get_hot_context, context.find_relevant_context")


@pytest.mark.parametrize("section", [name for name in PAGE if blocks(PAGE[name], "json")])
def test_examples_hold_documented_fields(section: str) -> None:
    """Each example on the page is JSON and holds no field that its table does not have."""
    for block in blocks(PAGE[section], "json"):
        assert set(fields(json.loads(block))) <= documented(section)


EVERYTHING: dict[FieldType, Any] = {
    FieldType.TEXT: "t",
    FieldType.TEXTS: ["t"],
    FieldType.IDS: [],
    FieldType.NUMBER: 1.0,
    FieldType.SHARE: 0.5,
    FieldType.OBJECT: {"name": 1},
    FieldType.VALUE: "v",
    FieldType.DATASETS: [{"name": "d", "version": "1", "description": "x"}],
    FieldType.ENTITIES: [{"name": "e", "entity_type": "t", "role": "r"}],
    FieldType.PROVENANCE: dict.fromkeys(
        ("uri", "repo", "commit", "path", "tool_name", "tool_version", "tool_call_id"), "p"
    ),
}
"""Something for each type of field."""


def named_freely(names: set[str]) -> set[str]:
    """Return names of fields without those that a writer made up."""
    return {name for name in names if not name.endswith((".metrics.name", ".parameters.name"))}


def test_records_are_documented(shell: Shell) -> None:
    """Every field of what is written of tasks, and of how they are shown, is documented, and no other."""
    task = shell("task", "start", "a whole", "--as", "mara", "--json").json
    part = shell(
        "task", "start", "a part", "--parent", task["task_id"], "--session", "s", "--as", "mara", "--json"
    ).json
    decided = shell("decide", "x", "--because", "y", "--task", part["task_id"], "--as", "mara", "--json").json
    identity = {"artifact_id": decided["artifact_id"]}
    about = {
        "reply_to_artifact_id": decided["artifact_id"],
        "supports_claim": True,
        "writer": "otto",
        "session_id": "s",
    }
    rests = {"related_artifact_ids": [task["artifact_id"]], "parent_task_id": task["task_id"]}
    said = {name: EVERYTHING[field.type] for name, field in FIELDS.items() if name != "content"}
    replied = {**said, **about, **rests}
    for op in ("artifact.verification", "artifact.revision"):
        written = shell("call", op, "--json", json.dumps(replied)).json
        assert set(fields(written)) == documented(next(name for name in PAGE if name.startswith("task start")))
    page = {"artifact_kind": "wiki_page", "artifact_role": "concept", "summary": "s", "content": "# c", **rests}
    shell("call", "artifact.create", "--json", json.dumps({**page, "task_id": part["task_id"]}))
    shell(
        *("task", "run-start", part["task_id"], "--tool", "x", "--command", "x", "--why", "x", "--input", "x"),
        *("--as", "mara"),
    )
    shell("task", "finish", part["task_id"])

    assert named_freely(set(fields(shell("task", "show", part["task_id"], "--json").json))) == documented("task show")
    for words in (("list", "--status", "all"), ("search", "part")):
        assert set(fields(shell("task", *words, "--json").json)) == documented("task list, task search")
    thread = shell("show", identity["artifact_id"], "--json", "--history").json
    assert named_freely(set(fields(thread))) == documented("show --history")
    shown = named_freely(set(fields(shell("show", identity["artifact_id"], "--json").json)))
    assert shown <= documented("show, of a record")
    assert {name for name in documented("show, of a record") if "." not in name} <= shown


def test_import_is_documented(shell: Shell, project: Path) -> None:
    """Every field of importing records is documented, and no other."""
    shell("task", "start", "count otters")
    text = shell("export", "--format", "ledger").out
    taken = shell("import", write(project / "in", f"{text}nonsense\n"), "--tenant", "t", "--json").json
    assert set(fields(taken)) == documented("import")
