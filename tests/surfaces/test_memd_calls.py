"""Calls written for memd, as its reference describes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.surfaces.conftest import Shell, write

from lorelog.core.errors import UsageError
from lorelog.operations.catalogue import find_operation
from lorelog.operations.dispatch import read_request

BATCH: list[tuple[str, dict[str, Any]]] = [
    (
        "memory.add",
        {"tenant_id": "default", "project_id": "shop", "text": "Chose Redis for the cache", "type": "decision"},
    ),
    (
        "memory.add_batch",
        {
            "project_id": "shop",
            "chunks": [{"text": "Deploys are blue", "type": "doc", "project_id": "shop", "source": {"path": "a.md"}}],
        },
    ),
    (
        "memory.search",
        {
            "query": "redis",
            "project_id": "shop",
            "k": 5,
            "mode": "generic",
            "compact": True,
            "filters": {"types": ["decision"]},
        },
    ),
    ("task.start", {"tenant_id": "default", "project_id": "shop", "goal": "Ship the cache", "agent_id": "otto"}),
    ("artifact.search", {"query": "cache", "project_id": "shop", "k": 3}),
    ("context.brief_project", {"project_id": "shop"}),
    ("memory.stats", {"tenant_id": "default"}),
]


def request(name: str, **arguments: Any) -> Any:
    return read_request(find_operation(name), arguments)


def run_batch(shell: Shell, project: Path, lines: list[dict[str, Any]]) -> tuple[int, list[Any]]:
    write(project / "batch.jsonl", "\n".join(map(json.dumps, lines)))
    done = shell("batch", "--jsonl", "batch.jsonl", "--daemon", "off")
    return done.status, [json.loads(line) for line in done.out.splitlines()]


def test_a_batch_of_memd_runs_unchanged(shell: Shell, project: Path) -> None:
    """Lines with memd's tool, tenant_id, project_id, agent_id, chunks, mode and filters run, and their texts are found."""
    status, rows = run_batch(shell, project, [{"tool": name, "arguments": arguments} for name, arguments in BATCH])

    assert [row.get("error") for row in rows] == [None] * len(BATCH)
    assert status == 0
    assert rows[2]["result"]["hits"][0]["content"].endswith("Chose Redis for the cache")


def test_further_fields_of_a_line_are_named_and_ignored(shell: Shell, project: Path) -> None:
    """A line with fields that mean nothing here runs, and its row names them; one that misspells `arguments` is refused."""
    lines: list[dict[str, Any]] = [
        {"id": 7, "tool": "memory.stats", "arguments": {}, "comment": "x"},
        {"op": "memory.stats", "argument": {"project_id": "shop"}},
    ]

    status, (first, second) = run_batch(shell, project, lines)

    assert (status, first["ok"], first["ignored"]) == (1, True, ["comment", "id"])
    assert "unknown field 'argument'" in second["error"]["message"]


def test_names_of_memd_lead_to_ours(shell: Shell, project: Path) -> None:
    """An operation of memd that is another one here with the same fields runs; one with other fields, and a command, is named."""
    status, (exported, refused) = run_batch(
        shell, project, [{"tool": "memory.export_markdown"}, {"tool": "memory.export_omf"}]
    )

    assert (status, exported["ok"]) == (1, True)
    assert refused["error"]["hint"] == 'call memory.export with {"format": "omf"}'
    assert "lorelog export --format omf" in shell("export-omf").err


def test_lines_of_two_projects_are_not_mixed(shell: Shell, project: Path) -> None:
    """A batch that names two of memd's projects stops at the second: both would be written to one directory."""
    lines = [{"op": "memory.stats", "arguments": {"project_id": name}} for name in ("shop", "blog")]

    status, (first, second) = run_batch(shell, project, lines)

    assert (status, first["ok"]) == (1, True)
    assert "project 'blog'" in second["error"]["message"]


def test_fields_are_translated() -> None:
    """Ids, filters, moments and places of memd become our fields, and a path as project_id is the project."""
    found = request(
        "memory.search",
        query="x",
        project_id="/a",
        filters={"types": ["fact"], "episode_id": "e1", "time_range": {"from": "2026-01-02T03:04:05Z"}},
    )
    assert (found.project, found.types, found.tags, found.since) == ("/a", ["fact"], ["episode:e1"], "2026-01-02")
    assert request("memory.get", chunk_id="abc").id == "abc"
    assert request("memory.supersede", old_chunk_id="abc", new_text="new").text == "new"
    assert request("memory.set_expiry", chunk_id="abc", expires_at_ms=1767225600000).expires == "2026-01-01"
    assert request("memory.set_expiry", chunk_id="abc", expires_at_ms=None).expires is None
    added = request("memory.add", text="x", tags=["a"], episode_id="e1", source={"uri": "https://a"}, mode="document")
    assert added.tags == ["a", "episode:e1", "source:https://a"]
    assert request("memory.add", text="x", project_id=None, source=None).text == "x"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("memory.search", {"query": "x", "mode": "find_decisions"}),
        ("memory.search", {"query": "x", "filters": {"color": "red"}}),
        ("memory.search", {"query": "x", "tenant": "a", "tenant_id": "b"}),
        ("memory.search", {"query": "x", "chunk_id": "b"}),
        ("memory.search", {"query": "x", "queri": "b"}),
        ("memory.search", {"query": "x", "since": "2026-01-01", "filters": {"time_range": {"from": "2026-02-02"}}}),
        ("memory.set_expiry", {"id": "a", "expires_at_ms": 10**30}),
    ],
)
def test_what_has_no_counterpart_is_refused(name: str, arguments: dict[str, Any]) -> None:
    """A field that would select other memories than memd's is an error, not ignored."""
    with pytest.raises(UsageError):
        request(name, **arguments)
