"""Minimal drafts for tests."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from lorelog.core.record import RecordDraft
from lorelog.records.kinds import complete_draft

TASK = "task-1"
LEAST: dict[str, dict[str, Any]] = {
    "task_start": {"goal": "make it fast"},
    "task_progress": {"summary": "half done", "next_step": "the other half"},
    "run_start": {"tool_name": "pytest", "command": "pytest -q", "why_chosen": "it is there", "inputs": ["tests"]},
    "run_finish": {"summary": "all passed"},
    "evidence": {"evidence_kind": "benchmark", "summary": "3 ms"},
    "wiki_page": {"artifact_role": "concept", "related_artifact_ids": ["r-1"], "summary": "s", "content": "# Page"},
}


def draft(kind: str = "decision", /, fields: dict[str, Any] | None = None, **values: Any) -> RecordDraft:
    """Return a draft of a kind with its required fields and any other given values."""
    start = RecordDraft(kind, task=TASK, agent="mara", status="completed" if kind == "run_finish" else "")
    return complete_draft(replace(start, fields={**LEAST.get(kind, {}), **(fields or {})}, **values))
