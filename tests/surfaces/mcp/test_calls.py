"""Arguments as models send them, and answers as models read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.surfaces.mcp.calls import ToolResult, call_tool, render_search, render_section
from lorelog.surfaces.mcp.protocol import LineBuffer


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
