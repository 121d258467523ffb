"""What agents are offered, arguments as models send them, and answers as models read them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.models.reference_tokenizer import make_tokenizer
from tests.surfaces.conftest import Shell

from lorelog.operations.catalogue import all_operations
from lorelog.retrieval.token_estimate import estimate_tokens
from lorelog.surfaces.mcp.calls import ToolResult, call_tool, render_search, render_section
from lorelog.surfaces.mcp.protocol import LineBuffer
from lorelog.surfaces.mcp.session import McpMethods, ProgressTracker
from lorelog.surfaces.mcp.tools import CALL_ONLY_FAMILIES, CALL_ONLY_OPERATIONS, INSTRUCTIONS, TOOLS


def asked(name: str, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    heard: list[tuple[str, dict[str, Any]]] = []

    def ask(op: str, given: dict[str, Any]) -> dict[str, Any]:
        heard.append((op, given))
        return {"hits": [], "packing": None, "notes": [], "code": None, "nothing_relevant": ""}

    answer = call_tool(name, arguments, ask)
    assert not answer.failed, answer.text
    return heard[0]


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        ({"query": "x", "top_k": 3}, {"k": 3}),
        ({"query": "x", "top_k": "3"}, {"k": 3}),
        ({"query": "x", "top_k": 3.0}, {"k": 3}),
        ({"query": "x", "top_k": 0}, {}),
        ({"query": "x", "top_k": None}, {}),
        ({"query": "x", "token_budget": -1}, {}),
        ({"query": "x", "filters": {"tags": ["a"], "since": "7d"}}, {"tags": ["a"], "since": "7d"}),
        ({"query": "x", "filters": '{"tags": ["a"]}'}, {"tags": ["a"]}),
        ({"query": "x", "filters": {"tags": "a"}}, {"tags": ["a"]}),
        ({"query": "x", "filters": {"all_projects": "true"}}, {"all_projects": True}),
        ({"query": "42"}, {}),
    ],
)
def test_what_was_meant_is_taken(arguments: dict[str, Any], meant: dict[str, Any]) -> None:
    """Numbers and objects that a model sends as text are read as what they are; a count of nothing is the usual one."""
    request = {"query": arguments["query"], "one_per_memory": True, **meant}
    assert asked("search_memory", arguments) == ("memory.search", request)


@pytest.mark.parametrize(
    "arguments",
    [
        {"query": 5},
        {"query": "x", "top_k": True},
        {"query": "x", "top_k": 1.5},
        {"query": "x", "filters": [1]},
        {"query": "x", "filters": {"tags": {"a": 1}}},
        {"query": "x", "limit": 5},
        {},
    ],
)
def test_what_was_not_meant_is_refused(arguments: dict[str, Any]) -> None:
    """Everything else is refused in words."""
    answer = call_tool("search_memory", arguments, lambda *_: {})
    assert answer.failed
    assert answer.structured["error"]["code"] == "usage"


def hit(text: str) -> dict[str, Any]:
    one = {
        "id": "0123",
        "score": 0.5,
        "relevance": 0.5,
        "source": "/notes.md",
        "start_line": 1,
        "end_line": 2,
        "heading_path": [text],
        "date": "",
        "type": "",
        "tags": [],
        "snippet": text,
        "expand_tokens": 10,
        "anchor": {"origin": text},
        "trust": {"tier": text, "verified_by": [], "signed": False, "requires_verification": True, "tainted": False},
    }
    return {"hits": [one], "packing": None, "notes": [], "code": None, "nothing_relevant": ""}


def section(text: str) -> dict[str, Any]:
    shape = hit(text)["hits"][0]
    return {**shape, "content": text, "tokens": 10, "transcript": None, "notes": []}


def unquoted(answer: ToolResult) -> list[str]:
    return [line for line in answer.text.split("\n") if not line.startswith(">")]


@given(st.text())
def test_no_text_breaks_out_of_its_quote(text: str) -> None:
    """Whatever stands in memory, the lines that are not marked as quotes are the same as for any other text."""
    pairs = [
        (render_search(hit(text)), render_search(hit("plain"))),
        (render_section(section(text)), render_section(section("plain"))),
    ]
    for answer, plain in pairs:
        assert unquoted(answer) == unquoted(plain)
        assert not any(ord(letter) < 32 and letter not in "\n\t" for letter in answer.text)


@given(st.text())
def test_no_name_breaks_out_of_its_line(text: str) -> None:
    """A file, type or tag with line breaks in its name adds no line to the answer."""
    named = hit("plain")
    named["hits"][0] |= {"source": text, "type": text, "tags": [text]}
    assert len(render_search(named).text.splitlines()) == len(render_search(hit("plain")).text.splitlines())
    named["hits"][0]["anchor"] = {"origin": text}
    named["hits"][0]["trust"] |= {"tainted": True}
    assert len(render_search(named).text.splitlines()) == len(render_search(hit("plain")).text.splitlines()) + 1


def test_a_long_section_is_cut(project: Path) -> None:
    """A section that no host would pass on is cut, and the answer says how to read a part of it."""
    answer = render_section(section("word " * 100_000))
    assert len(answer.text) < 45_000
    assert "'lines' reads a part of it" in answer.text


@given(st.lists(st.binary(max_size=20)), st.lists(st.integers(1, 30)))
def test_lines_are_cut_wherever_bytes_come(lines: list[bytes], sizes: list[int]) -> None:
    """A stream's lines do not depend on how it was cut up; those beyond the limit are told of and not kept."""
    whole = b"".join(line.replace(b"\n", b"") + b"\n" for line in lines)
    buffer = LineBuffer(max_bytes=12)
    found: list[bytes | None] = []
    rest = whole
    for size in [*sizes, len(whole) + 1]:
        found += buffer.feed(rest[:size])
        rest = rest[size:]
    assert found == [line if len(line) <= 12 else None for line in whole.split(b"\n")[:-1]]


OPERATIONS_WITH_TOOLS = ("memory.search", "memory.expand", "memory.transcript", "memory.add", "memory.index")


def tokens(text: str) -> int:
    """The larger of two counts: our estimate, and those of the built-in model's tokenizer."""
    return max(estimate_tokens(text), len(make_tokenizer().encode(text).ids))


def test_the_tool_list_is_cheap() -> None:
    """All that `tools/list` answers costs a model less than 1,500 tokens, and the instructions less than 100."""
    listed = McpMethods(lambda *_: {}).respond("tools/list", {}, ProgressTracker())
    assert tokens(json.dumps(listed, ensure_ascii=False)) < 1500
    assert tokens(INSTRUCTIONS) < 100


def test_every_operation_has_a_way() -> None:
    """Each operation that may be asked for over MCP has a tool, or `memory_call` names it or its family; nothing else is named."""
    reachable = {name for name, operation in all_operations().items() if "mcp" not in operation.absent}
    named = {*OPERATIONS_WITH_TOOLS, *(name if "." in name else f"memory.{name}" for name in CALL_ONLY_OPERATIONS)}
    in_families = {name for name in reachable if name.partition(".")[0] in CALL_ONLY_FAMILIES}

    assert reachable == named | in_families
    assert not named & in_families
    assert {name.partition(".")[0] for name in all_operations()} >= {"task", "artifact"}
    (called,) = (tool for tool in TOOLS if tool["name"] == "memory_call")
    assert all(f"{family}.*" in called["description"] for family in CALL_ONLY_FAMILIES)


def test_schemas_are_sound() -> None:
    """Each tool says when to call it, requires only what it has, and describes an object."""
    for tool in TOOLS:
        assert len(tool["description"]) > 40
        assert tool["inputSchema"]["type"] == "object"
        assert set(tool["inputSchema"]["required"]) <= set(tool["inputSchema"]["properties"])


MAX_TOKENS = 700


def note(number: int, topic: str) -> str:
    """A captured note with an outcome, files and a long list of commands."""
    commands = "\n".join(f"  - `make {topic}-{step} --verbose --config deploy/{topic}.yaml`" for step in range(8))
    return (
        f"### 1{number % 10}:{number:02}\n"
        f"<!-- session:s{number} turn:t memory:0195c1f2-7d2e-7abc-8000-{number:012} type:turn origin:agent -->\n"
        f"- User asked: please look at the {topic} pipeline, it fails on the build machine since yesterday\n"
        f"- Outcome: The {topic} pipeline failed because the cache key changed. The key now has the lock file's hash, "
        f"and the {topic} job passes again on the build machine.\n"
        f"  - The old caches were removed by hand, because they cannot expire.\n"
        f"- Files: ci/{topic}.yaml, scripts/{topic}.sh\n- Commands:\n{commands}\n"
        f"- Errors: Bash `make {topic}-0`: exit status 2\n\n"
    )


def journal(project: Path) -> None:
    folder = project / ".lorelog" / "memory"
    folder.mkdir(parents=True)
    topics = ("docs", "release", "lint", "image", "wheel", "upload", "bench")
    text = "".join(note(number, topic) for number, topic in enumerate(topics))
    (folder / "2026-11-15.md").write_text(f"# 2026-11-15\n\n{text}", "utf-8")


def test_five_hits_cost_at_most_700_tokens(project: Path, shell: Shell) -> None:
    """Five memories with id, date and source fit into 700 tokens; as JSON they cost thousands."""
    journal(project)
    shell("index")
    text = shell("search", "pipeline fails on the build machine", "--short", "-k", 5).out

    assert (
        len(
            re.findall(
                r"^\d\. 2026-11-15 1\d:\d\d .*\.lorelog/memory/2026-11-15\.md:\d+ id \w+ \(~", text, re.MULTILINE
            )
        )
        == 5
    )
    assert estimate_tokens(text) <= MAX_TOKENS
    reply = shell("search", "pipeline fails on the build machine", "--json", "-k", 5).json
    assert estimate_tokens(json.dumps(reply)) > 4 * MAX_TOKENS


def test_a_snippet_prefers_the_outcome(project: Path, shell: Shell) -> None:
    """The quotation is of the outcome, although request and commands have the words too; a command is found alone."""
    journal(project)
    shell("index")
    text = shell("search", "release pipeline", "--short", "-k", 1).out
    assert "\n> - Outcome: The release pipeline failed because" in text
    assert "make release" not in text

    assert "make release-3" in shell("search", "release-3", "--short", "-k", 1, "--lane", "lexical").out


def test_a_memory_in_several_chunks_is_one_entry(project: Path, shell: Shell) -> None:
    """A long memory is shown once, and the others follow, with --short and without."""
    long = "\n\n".join(f"The otter report, part {number}: " + "otters swim far. " * 60 for number in range(8))
    shell("add", long)
    shell("add", "Otters are counted in May.")
    chunks = shell("search", "otters", "--json", "-k", 5).json["hits"]
    assert len({hit["anchor"]["memory"] for hit in chunks}) == len(chunks) == 2

    text = shell("search", "otters", "--short", "-k", 5).out
    assert len(re.findall(r"^\d\. ", text, re.MULTILINE)) == 2
    assert "counted in May" in text


def test_nothing_found_is_said(project: Path, shell: Shell) -> None:
    """A search without hits prints one line."""
    assert shell("search", "otters", "--short").out == "No results found.\n"
