"""A tool call and a prompt are answered with the memories whose cues match, from files that may contain anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.light.cue_table import event_cues, match_cues
from lorelog.light.prompt_match import select_named
from lorelog.services.cues.cue import read_cues
from lorelog.services.standing.memories import StandingMemory, encode_cue_table

ROOT = "/work/app"


def memory(name: str, *cues: str, own: bool = True, **fields: Any) -> StandingMemory:
    values = {"type": "correction", "date": "2026-03-05", "origin": "user", "source": "j.md:1", "project": "p"} | fields
    return StandingMemory(id=name, text=name, own=own, is_standing=True, cues=cues, **values)


@pytest.fixture
def table(tmp_path: Path) -> Any:
    """Write a table of memories, and return its path as the reader takes it."""

    def write(*memories: StandingMemory) -> tuple[str, ...]:
        file = tmp_path / "x.cues"
        file.write_bytes(encode_cue_table(memories))
        return (str(file), str(tmp_path / "missing.cues"))

    return write


def ids(files: tuple[str, ...], moment: str = "tool-before", **call: Any) -> list[str]:
    return [match["id"] for match in match_cues(files, call, root=ROOT, moment=moment)]


def test_a_file_brings_the_memories_of_its_path(table: Any) -> None:
    """Patterns, directories, names and suffixes match edits and reads, absolute or relative, and no other file."""
    files = table(
        memory("dir", "path=src/db/**"), memory("file", "path=src/db/pool.py"), memory("name", "path=pool.py"),
        memory("suffix", "path=*.sql"), memory("stem", "path=test_*.py"), memory("bare", "path=Dockerfile*"),
    )  # fmt: skip

    assert set(ids(files, kind="edit", paths=[f"{ROOT}/src/db/pool.py"])) == {"dir", "file", "name"}
    assert set(ids(files, kind="read", paths=["src/db/pool.py"])) == {"dir", "file", "name"}
    assert ids(files, kind="edit", paths=["x/one.sql"]) == ["suffix"]
    assert ids(files, kind="edit", paths=["tests/test_a.py"]) == ["stem"]
    assert ids(files, kind="edit", paths=["Dockerfile.dev"]) == ["bare"]
    assert ids(files, kind="edit", paths=["src/web/app.ts"]) == []
    assert ids(files, kind="search", paths=["src/db/pool.py"]) == []


def test_the_most_specific_cue_comes_first_and_each_memory_once(table: Any) -> None:
    """A memory with several matching cues is one match, with its most specific cue."""
    files = table(memory("wide", "path=src/**"), memory("exact", "path=src/**", "path=src/db/pool.py"))

    found = match_cues(files, {"kind": "edit", "paths": ["src/db/pool.py"]}, root=ROOT, moment="tool-before")

    assert [(match["id"], match["cue"]) for match in found] == [
        ("exact", "path=src/db/pool.py"),
        ("wide", "path=src/**"),
    ]
    assert {"id", "cue", "type", "text", "date", "origin", "own"} <= found[0].keys()


def test_the_users_own_memories_come_before_those_of_the_repository(table: Any) -> None:
    """However specific a cue of the repository is."""
    files = table(memory("theirs", "path=src/db/pool.py", own=False), memory("mine", "path=src/**"))

    assert ids(files, kind="edit", paths=["src/db/pool.py"]) == ["mine", "theirs"]


def test_a_memory_that_is_never_used_comes_after_others(table: Any) -> None:
    """Five deliveries without use outweigh a more specific cue, but not that the memory is the user's own."""
    files = table(
        memory("foreign", "command=npm *", own=False),
        memory("idle", "command=npm install", unused=5),
        memory("plain", "command=npm *", unused=4),
    )

    assert ids(files, kind="run", command="npm install zod") == ["plain", "idle", "foreign"]


def test_a_command_brings_its_memories(table: Any) -> None:
    """Commands match inside a command line; files that it names match, too."""
    files = table(
        memory("npm", "command=npm *"), memory("push", "command=git push --force"), memory("sql", "path=*.sql")
    )

    assert ids(files, kind="run", command="cd web && npm install") == ["npm"]
    assert ids(files, kind="run", command="git push origin --force") == ["push"]
    assert ids(files, kind="run", command="psql -f migrations/one.sql") == ["sql"]
    assert ids(files, kind="run", command="pnpm install && ls") == []


def test_a_tool_brings_the_memories_of_a_part_of_its_name(table: Any) -> None:
    """All parts of the cue are parts of the tool's name; letters inside of a part do not count."""
    files = table(memory("server", "tool=linear"), memory("one", "tool=linear create_issue"), memory("no", "tool=line"))

    assert set(ids(files, kind="other", tool="mcp__Linear__create_issue")) == {"server", "one"}
    assert ids(files, kind="edit", tool="mcp__linear__update", content="x") == ["server"]
    assert ids(files, kind="run", tool="Bash", command="linear") == []


def test_a_symbol_is_found_in_the_text_that_is_written(table: Any) -> None:
    """Whole names only; a dotted one must be written together; output does not count."""
    files = table(memory("name", "symbol=ConnectionPool"), memory("dotted", "symbol=pool.acquire"))

    assert ids(files, kind="edit", content="x = ConnectionPool()") == ["name"]
    assert ids(files, kind="edit", content="ConnectionPoolFactory()") == []
    assert ids(files, kind="edit", content="self.pool.acquire()") == ["dotted"]
    assert ids(files, kind="edit", content="pool = lock; lock.acquire()") == []
    assert ids(files, "tool-after", kind="edit", content="ConnectionPool") == []


def test_errors_and_failures_match_after_the_call(table: Any) -> None:
    """The output of a call brings the memories of its error; a failed call also those of the event."""
    files = table(
        memory("code", "error=ECONNREFUSED"),
        memory("text", "error=bad port * in config"),
        memory("any", "event=failure"),
    )

    assert ids(files, "tool-after", kind="run", output="connect ECONNREFUSED 127.0.0.1") == ["code"]
    assert set(ids(files, "tool-failed", kind="run", output="x\nValueError: bad port 80 in config.py")) == {
        "text",
        "any",
    }
    assert ids(files, "tool-after", kind="run", output="all good") == []
    assert ids(files, kind="run", command="echo ECONNREFUSED", output="ECONNREFUSED") == []


def test_events_before_a_commit_and_a_test_run(table: Any) -> None:
    """The command that begins tells the moment."""
    files = table(memory("commit", "event=commit"), memory("test", "event=test"))

    assert ids(files, kind="run", command="git add -A && git commit -m x") == ["commit"]
    assert ids(files, kind="run", command="uv run pytest") == ["test"]
    assert ids(files, kind="run", command="git status") == []


def test_a_session_brings_its_events_and_days(table: Any) -> None:
    """A day counts on that day and shortly after, across the ends of months, and not before."""
    files = table(memory("start", "event=session-start"), memory("day", "day=2026-02-28"))

    def at(today: str) -> list[str]:
        return [match["id"] for match in event_cues(files, "session-start", today)]

    assert at("2026-02-27") == ["start"]
    assert set(at("2026-02-28")) == set(at("2026-03-02")) == {"start", "day"}
    assert at("2026-03-03") == ["start"]
    assert at("nonsense") == ["start"]


def test_an_expired_memory_is_not_brought(table: Any) -> None:
    """Also if it expired after the file was written."""
    files = table(memory("old", "path=a.py", expires="2020-01-01"), memory("new", "path=a.py", expires="2999-01-01"))

    assert ids(files, kind="edit", paths=["a.py"]) == ["new"]


@pytest.mark.parametrize(
    "call",
    [
        {},
        {"kind": "edit", "paths": None, "content": 3},
        {"kind": "edit", "paths": [None, "", "/", "a\0b", "x" * 100_000]},
        {"kind": "run", "command": "'" * 50_000},
        {"kind": "run", "command": "$(" * 20_000, "output": None},
        {"kind": "edit", "content": "\ud800" * 1000},
    ],
)
def test_a_strange_call_brings_nothing_and_raises_nothing(table: Any, call: dict[str, Any]) -> None:
    """Hosts of unknown versions send anything."""
    files = table(memory("a", "path=src/a.py"), memory("b", "symbol=parse_config"))

    for moment in ("tool-before", "tool-after", "tool-failed", "?"):
        assert match_cues(files, call, root=ROOT, moment=moment) == []


@given(st.binary(max_size=400))
def test_a_damaged_file_brings_nothing_and_raises_nothing(data: bytes) -> None:
    """The file is derived; whatever is in it, the agent's work goes on."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "x.cues"
        file.write_bytes(b"p\t0\t*\t[\npa.py\t0\ta.py\t{}\n" + data)
        call = {"kind": "edit", "paths": ["a.py"], "content": "a b"}
        assert isinstance(match_cues((str(file),), call, root=ROOT, moment="tool-before"), list)


PATHS = st.lists(
    st.sampled_from(["src", "db", "web", "a.py", "b.ts", "x.sql", "test_a.py"]), min_size=1, max_size=4
).map("/".join)
PATTERNS = st.sampled_from(
    [
        "src/**",
        "src/db/*",
        "*.py",
        "**/db/**",
        "a.py",
        "db/a.py",
        "test_*.py",
        "web/",
        "/src/*.ts",
        "src/**/x.sql",
        "?.py?",
    ]
)


@given(st.lists(PATTERNS, min_size=1, max_size=6), PATHS)
def test_the_table_finds_what_comparing_every_pattern_finds(patterns: list[str], path: str) -> None:
    """The keys lose no match."""
    import tempfile

    from lorelog.light.wildcard import matches_path

    memories = [memory(str(number), f"path={pattern}") for number, pattern in enumerate(patterns)]
    expected = {m.id for m in memories if any(matches_path(cue.value, path) for cue in read_cues(m.cues))}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "x.cues"
        file.write_bytes(encode_cue_table(memories))
        found = match_cues((str(file),), {"kind": "edit", "paths": [path]}, root=ROOT, moment="tool-before")

    assert {match["id"] for match in found} == expected


def test_a_filed_memory_needs_both_its_file_and_what_is_done_there(table: Any) -> None:
    """A filed memory with a path comes if the call also has its command or name; a name alone brings only what the user added."""
    reason = "said on 2026-03-05 in a prompt, filed by claude"
    files = table(
        memory("added", "symbol=StepsCount"),
        memory("name", "symbol=StepsCount", reason=reason),
        memory("edited", "symbol=StepsCount", "path=steps.py", reason=reason),
        memory("commit", "path=docs/**", "command=git commit", "tool=linear", reason=reason),
    )
    edit = {"kind": "edit", "content": "x = StepsCount()"}

    assert ids(files, paths=["/p/other.py"], **edit) == ["added"]
    assert set(ids(files, paths=["/p/steps.py"], **edit)) == {"added", "edited"}
    assert ids(files, kind="read", paths=["/p/steps.py"]) == []
    assert ids(files, kind="run", command="git commit -m x") == ids(files, kind="edit", paths=["docs/a.md"]) == []
    assert ids(files, kind="run", command="git add docs/a.md && git commit -m x") == ["commit"]
    assert ids(files, kind="other", tool="mcp__linear__create_issue") == ["commit"]


def test_a_filed_rule_is_not_about_reading_with_a_tool_nor_about_a_temporary_repository(table: Any) -> None:
    """It comes before the tracker is written to and before commits of the project; what the user added comes with all of them."""
    cues = ("tool=linear", "event=commit")
    files = table(memory("added", *cues), memory("filed", *cues, reason="said on 2026-03-05, filed by claude"))

    assert set(ids(files, kind="other", tool="mcp__linear__create_issue")) == {"added", "filed"}
    assert ids(files, kind="other", tool="mcp__linear__get_issue") == ["added"]
    assert set(ids(files, kind="run", command=f"cd {ROOT}/docs && git commit -m x")) == {"added", "filed"}
    assert ids(files, kind="run", command="cd /tmp/try && git init && git commit -m x") == ["added"]


RULES: list[dict[str, Any]] = [
    {"id": "npm", "named": ["npm"]},
    {"id": "stash", "named": ["git stash"]},
    {"id": "db", "named": ["src/db", "pool.py"]},
    {"id": "symbol", "named": ["parse_config"]},
    {"id": "topic", "named": ["database migrations", "\u6570\u636e\u5e93"]},
    {"id": "make", "named": ["`make`"]},
    {"id": "broken", "named": "npm"},
    {"id": "none"},
    {"id": "idle", "named": ["npm install"], "unused": 5},
]


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("npm fails, see `NPM`", ["npm"]),
        ("do a git  stash first, then npm.", ["stash", "npm"]),
        ("npm install fails", ["npm", "idle"]),
        ("why is src/db/other.py slow?", ["db"]),
        ("move lib/pool.py", ["db"]),
        ("call parse_config() twice", ["symbol"]),
        ("The Database migrations are late", ["topic"]),
        ("\u68c0\u67e5\u6570\u636e\u5e93\u8fc1\u79fb", ["topic"]),
        ("run `make` again", ["make"]),
        ("make it blue", []),
        ("npm-check and my_npm and pnpm", []),
        ("parse_config_file, pool.pyc", []),
        ("migrate the database", []),
        ("# npm\n## Database migrations\nadd a button", []),
        ("add a button", []),
    ],
)
def test_a_rule_comes_if_its_phrase_stands_in_the_prompt(prompt: str, expected: list[str]) -> None:
    """A phrase counts as whole words, outside of headings; the longest phrase comes first, a rule never used last."""
    assert [rule["id"] for rule in select_named(RULES, prompt)] == expected


@given(st.lists(st.text(max_size=10), max_size=4), st.text(max_size=200))
def test_any_prompt_and_phrases_are_survived(phrases: list[str], prompt: str) -> None:
    """Whatever is typed, a rule is selected or not."""
    assert select_named([{"id": "a", "named": phrases}], prompt) in ([], [{"id": "a", "named": phrases}])
