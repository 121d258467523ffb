"""One request for every operation, over the notes of `write_notes`."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.code.repositories import git

from lorelog.services.backup.archive import BackupWriter

MEMORY = "newt-1"
"""A memory with an id, of the episode `walk`."""
NOTES = f"""# A

an otter in the river

## B

a beaver's dam

## C
<!-- memory:{MEMORY} tags:episode:walk -->

a newt under the stone
"""


JUDGE = shlex.join([sys.executable, "-c", """print('[{"n": 1, "label": "other"}]')"""])
"""A program that judges: the first statement is nothing to keep, the others stay open."""
NEW_GUARD = {"command": "npm *", "message": "use pnpm, not npm"}
GUARD_REQUESTS: dict[str, dict[str, Any]] = {
    "guard.add": NEW_GUARD,
    "guard.list": {},
    "guard.rules": {},
    "guard.test": {"id": "g"},
    "guard.enable": {"id": "g"},
    "guard.change": {"id": "g", "change": "dismiss"},
    "review.decide": {"verdicts": [{"id": "g", "kind": "guard", "label": "approve"}]},
}


def write_notes(directory: Path) -> None:
    """Write a note, some code, a conversation, a judged question, and an empty repository, in a repository without a commit."""
    (directory / "notes").mkdir(parents=True)
    (directory / "notes" / "a.md").write_text(NOTES, "utf-8")
    (directory / "beaver.py").write_text("import os\n\n\ndef dam() -> None:\n    dam()\n", "utf-8")
    (directory / "q.jsonl").write_text('{"id": "q", "text": "otter"}\n', "utf-8")
    (directory / "r.tsv").write_text("q\ta.md\t1\n", "utf-8")
    said = {"type": "user", "uuid": "u", "sessionId": "s", "message": {"role": "user", "content": "hi"}}
    (directory / "t.jsonl").write_text(json.dumps(said) + "\n", "utf-8")
    git(directory, "init", "-q", "--bare", "remote.git")
    git(directory, "init", "-q")
    BackupWriter(directory / "no home").write(directory / "empty.tar.gz")


@dataclass(frozen=True, slots=True)
class Told:
    """The task that `tell` wrote, and a record of it."""

    task: str
    artifact: str


def tell(ask: Callable[[str, dict[str, Any]], Any]) -> Told:
    """Start a task and add evidence; `ask` calls an operation."""
    task = ask("task.start", {"goal": "count the otters", "writer": "mara"})["task_id"]
    given = {"task_id": task, "evidence_kind": "count", "summary": "seven otters", "writer": "mara"}
    return Told(task, ask("task.add_evidence", given)["artifact_id"])


def requests(identity: str, told: Told) -> dict[str, dict[str, Any]]:
    """Return requests by operation, in an order in which all of them work.

    `identity` is a section of the notes, `told` is what is known of a task.
    """
    task, reply = {"task_id": told.task}, {"reply_to_artifact_id": told.artifact}
    return {
        "task.start": {"goal": "count the beavers", "expected_outputs": ["a number"]},
        "task.progress": {**task, "summary": "half the river", "next_step": "the other half"},
        "task.run_start": {**task, "tool_name": "wc", "command": "wc -l", "why_chosen": "it counts", "inputs": ["a"]},
        "task.run_finish": {**task, "status": "completed", "notes": "seven lines"},
        "task.add_evidence": {
            **task,
            "evidence_kind": "count",
            "summary": "six",
            "metric_name": "n",
            "metric_value": 6,
        },
        "task.finish": {**task, "what_worked": ["counting"], "confidence": 0.9},
        "task.get": task,
        "task.search": {"query": "otters", "k": 3},
        "artifact.create": {**task, "artifact_kind": "evidence", "evidence_kind": "count", "summary": "five"},
        "artifact.review": {**reply, "summary": "looks right", "writer": "otto"},
        "artifact.revision": {**reply, "summary": "eight otters", "writer": "mara"},
        "artifact.decision": {"summary": "otters are counted at dawn"},
        "artifact.verification": {**reply, "supports_claim": True, "writer": "otto"},
        "artifact.get": {"artifact_id": told.artifact},
        "artifact.search": {"query": "otters"},
        "artifact.list_thread": {"artifact_id": told.artifact},
        "memory.search": {"query": "otter", "explain": True},
        "context.find_relevant_context": {"task": "count the otters", "k": 5},
        "context.get_hot_context": {},
        "context.agent_context": {"queries": ["otters"], "token_budget": 300},
        "task.resume": {**task, "query": "otters", "k": 5},
        "artifact.find_failures": {"query": "otters"},
        "artifact.find_decisions": {"k": 5},
        "artifact.find_evidence": {"all_projects": True},
        "artifact.read_wiki": {"page": "index.md"},
        "context.brief_project": {"query": "otters", "include_related_projects": False},
        "memory.expand": {"id": identity},
        "memory.get": {"id": identity},
        "memory.transcript": {"place": "./t.jsonl"},
        "memory.list": {"documents": True},
        "memory.add": {"text": "a heron", "tags": ["bird"]},
        "memory.add_batch": {
            "memories": [{"text": "one"}, {"text": "Never use yarn; use pnpm.", "type": "correction"}]
        },
        "memory.compact": {"llm": "none", "source": "notes", "dry_run": False},
        "memory.set_expiry": {"id": MEMORY, "expires": "3m", "review_after": None},
        "memory.feedback": {"query": "newt", "id": MEMORY, "relevance": "relevant"},
        "memory.find_near_duplicates": {"threshold": 0.5, "limit": 5},
        "memory.edit": {
            "id": MEMORY,
            "before": f"## C\n<!-- memory:{MEMORY} tags:episode:walk -->\n\na newt under the stone",
            "text": f"## C\n<!-- memory:{MEMORY} tags:episode:walk -->\n\ntwo newts under the stone",
        },
        "memory.supersede": {"id": MEMORY, "text": "the newt has left the stone", "origin": "agent"},
        "memory.delete": {"id": identity},
        "memory.forget": {"ids": [identity], "dry_run": True},
        "memory.forget_verify": {"receipt": "last"},
        "memory.forget_receipts": {},
        "memory.restore": {"id": identity},
        "memory.index": {},
        "memory.stats": {"growth_since": "30d"},
        "memory.health": {},
        "memory.cost": {"since": "30d"},
        "memory.metrics": {},
        "memory.evaluate": {"queries": "q.jsonl", "qrels": "r.tsv"},
        "session.recall": {"host": "claude", "session": "s", "prompt": "an otter", "k": 3, "min_relevance": 0.0},
        "session.why": {"text": "KeyError: 1", "session": "s"},
        "session.capture": {"host": "claude", "session": "s", "transcript": "t.jsonl", "everything": True},
        "session.status": {},
        "session.timeline": {"since": "7d"},
        "session.hosts": {},
        "roots.list": {},
        "roots.remove": {"paths": ["notes"]},
        "ledger.verify": {"limit": 10},
        "settings.list": {},
        "settings.set": {"key": "search.k", "value": "9"},
        "sync.exchange": {"remote": "./remote.git", "shared_name": "app", "dry_run": True},
        "sync.status": {},
        "session.handoff": {"to": "codex"},
        "backup.create": {"file": "home.tar.gz", "dry_run": True},
        "backup.verify": {"file": "empty.tar.gz"},
        "backup.restore": {"file": "empty.tar.gz", "dry_run": True},
        "memory.export": {"format": "jsonl", "all_projects": True},
        "memory.check_store": {},
        "code.index": {"force": True},
        "code.status": {},
        "code.find_definition": {"name": "dam"},
        "code.find_references": {"name": "dam", "uses": ["call"], "certainty": "name"},
        "code.find_callers": {"name": "beaver.dam", "depth": 2},
        "code.find_imports": {"module": "os"},
        "code.outline": {"path": "."},
        "code.search": {"query": "dm"},
        "code.why": {"place": "beaver.py:4"},
        "code.check": {"staged": True},
        "code.memories": {"path": "beaver.py"},
        "debug.find_tool_calls": {"tool_name": "memory", "limit": 5},
        "debug.find_errors": {"error_signature": "KeyError"},
        "debug.why": {"text": "KeyError: 1"},
        "debug.how": {"purpose": "run the tests"},
        "debug.friction": {},
        **GUARD_REQUESTS,
        "delivery.list": {"kind": "cue", "since": "7d", "limit": 5},
        "delivery.balance": {"min_deliveries": 1},
        "review.list": {"kind": "guard"},
        "review.run": {"judge": "command"},
        "code.forget": {},
        "memory.reset": {},
    }
