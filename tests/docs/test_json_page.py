"""docs/json.md describes what `--json` prints and the reply of every operation, field by field and in both directions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.code.repositories import git
from tests.docs.pages import blocks, headings, links, read, rows, sections, spans
from tests.surfaces.conftest import Shell, write

from lorelog.core.document import short_hash
from lorelog.light.delivery_log import append_delivery
from lorelog.operations.catalogue import describe_all

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
    *("list", "list --documents", "init --dry-run", "wiki lint", "wiki build"),
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


@pytest.mark.parametrize("section", [name for name in PAGE if blocks(PAGE[name], "json")])
def test_examples_hold_documented_fields(section: str) -> None:
    """Each example on the page is JSON and holds no field that its table does not have."""
    for block in blocks(PAGE[section], "json"):
        assert set(fields(json.loads(block))) <= documented(section)


def test_objects_in_records_are_documented(shell: Shell) -> None:
    """Every field of the data, the things and the source that a record names is documented, and no other."""
    named = {
        "dataset_refs": [{"name": "d", "version": "1", "description": "x"}],
        "entity_refs": [{"name": "e", "entity_type": "t", "role": "r"}],
        "provenance": dict.fromkeys(
            ("uri", "repo", "commit", "path", "tool_name", "tool_version", "tool_call_id"), "p"
        ),
    }
    decided = shell("call", "artifact.decision", "--json", json.dumps({"summary": "x", "writer": "mara", **named})).json
    shown = shell("show", decided["artifact_id"], "--json").json["artifact"]
    of_objects = {name for name in documented("Record fields") if name.startswith(tuple(named)) and name not in named}
    assert set(fields({name: shown[name] for name in named})) == of_objects | named.keys()


def test_import_is_documented(shell: Shell, project: Path) -> None:
    """Every field of importing records is documented, and no other."""
    shell("task", "start", "count otters")
    text = shell("export", "--format", "ledger").out
    taken = shell("import", write(project / "in", f"{text}nonsense\n"), "--tenant", "t", "--json").json
    assert set(fields(taken)) == documented("import")


REPLIES: dict[str, Any] = {operation["name"]: operation["reply"] for operation in describe_all()}
SECTIONS = {spans(row[0])[0]: links(row[1])[0] for row in rows(PAGE["Operations"])}
BY_EXAMPLE = {"memory.search", "context.get_hot_context", "code.forget"}
"""Operations whose section has fields of several replies."""
_TRUST = r"(trust|verification_hint|grounding_refs\[\])\."
_DIGEST = rf"artifact\.|{_TRUST}|results\[\]\.trust\."
ELSEWHERE = {
    "task.resume": rf"{_TRUST}|resume\.(task|(open_runs|recent_runs|decisions)\[\])\.",
    "context.brief_project": rf"{_DIGEST}|brief\.(completed_tasks|failures|decisions|evidence)\[\]\.",
    "context.find_relevant_context": r"results\[\]\.",
    "artifact.search": rf"hits\[\]\.(artifact\.|{_TRUST})",
    **dict.fromkeys((f"artifact.find_{name}" for name in ("failures", "decisions", "evidence")), _DIGEST),
}
"""Fields that another section describes."""
UNDECLARED = re.compile(r"(^|\.)(dataset_refs\[\]|entity_refs\[\]|provenance|anchor)\.")
"""Fields of objects that replies declare as a whole: compared with what is printed."""


def schema_fields(schema: Any, definitions: Any, prefix: str = "") -> set[str]:
    """Return the dotted names of all fields that a JSON Schema declares."""
    if "$ref" in schema:
        return schema_fields(definitions[schema["$ref"].rpartition("/")[2]], definitions, prefix)
    if "anyOf" in schema:
        return set().union(*(schema_fields(kind, definitions, prefix) for kind in schema["anyOf"]))
    if "items" in schema:
        return schema_fields(schema["items"], definitions, f"{prefix}[]")
    names: set[str] = set()
    for key, value in schema.get("properties", {}).items():
        name = f"{prefix}.{key}" if prefix else key
        names |= {name, *schema_fields(value, definitions, name)}
    return names


def test_every_operation_has_a_section() -> None:
    """The table lists each operation of the registry once, and each row leads to a section of the page."""
    assert list(SECTIONS) == list(REPLIES)
    assert {target.removeprefix("#") for target in SECTIONS.values()} <= headings(read("docs/json.md"))


@pytest.mark.parametrize("operation", [name for name in REPLIES if name not in BY_EXAMPLE])
def test_a_reply_is_documented(operation: str) -> None:
    """Every field that the reply declares is documented, and no other."""
    (section,) = (name for name in PAGE if headings(f"## {name}") == {SECTIONS[operation].removeprefix("#")})
    reply = REPLIES[operation]
    elsewhere = re.compile(ELSEWHERE.get(operation, "$^"))
    declared = {name for name in schema_fields(reply, reply.get("$defs", {})) if not elsewhere.match(name)}
    assert declared == {name for name in documented(section) if not UNDECLARED.search(name)}


def test_the_merge_driver_is_documented(shell: Shell, project: Any) -> None:
    """Every field of what `sync --merge-driver` prints is documented, and no other."""
    git(project, "init", "-q")
    assert set(fields(shell("sync", "--merge-driver", "--json").json)) == documented("sync --merge-driver")


def test_every_kind_of_finding_is_named() -> None:
    """The page of the wiki explains each kind of finding that json.md names."""
    kinds = next(row[2] for row in rows(PAGE["wiki lint"]) if "kind" in row[0])
    assert [kind for kind in spans(kinds) if f"`{kind}`" not in read("docs/wiki.md")] == []
