"""The operations on tasks. The first line of a docstring is its help everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from lorelog.core.errors import NotFound
from lorelog.core.query import Trusted
from lorelog.core.record import Draft
from lorelog.engine import Engine
from lorelog.operations import record_replies as replies
from lorelog.operations import record_requests as requests
from lorelog.operations.days import day_of
from lorelog.operations.operation import Call
from lorelog.operations.record_shapes import artifact_shape, run_shape, task_shape
from lorelog.operations.requests import Request
from lorelog.operations.trust_shapes import grounding_shape, hint_shape, trust_shape
from lorelog.records.kinds import check_kind

if TYPE_CHECKING:
    from lorelog.records.tables import Run, Task
    from lorelog.services.records.finding import Finding, TaskHit
    from lorelog.services.records.judged import Judged
    from lorelog.services.records.wanted import Wanted
    from lorelog.services.records.writing import Written

_OWN = {
    "task_id": "task",
    "thread_id": "thread",
    "session_id": "session",
    "reply_to_artifact_id": "reply_to",
    "run_id": "reply_to",
    "relation_kind": "relation",
    "supports_claim": "supports_claim",
    "supersedes": "supersedes",
    "origin": "origin",
    "status": "status",
}
"""What a record says of itself and not in its fields, by its name here."""
_ALIASES = {"failed_attempts": "what_failed", "notes": "summary"}
"""memd's names of fields that records have under another."""
_ABOUT_CALLS = frozenset({"project", "tenant", "agent_id", "artifact_kind", "to_global"})


@dataclass(frozen=True, slots=True)
class TaskStory:
    """A task and all that was said of it."""

    task: Task
    artifacts: list[Judged]
    runs: list[Run]


def write_record(engine: Engine, kind: str, request: Request) -> Written:
    """Write what a request says as a record of a kind."""
    from lorelog.services.records.writing import write

    said = msgspec.structs.asdict(request)
    own: dict[str, Any] = {name: said[given] for given, name in _OWN.items() if given in said}
    fields = {
        _ALIASES.get(name, name): value
        for name, value in said.items()
        if name not in _OWN and name not in _ABOUT_CALLS and value is not None
    }
    draft = Draft(kind, fields=fields, **own)
    return write(engine.records(), draft, agent=said["agent_id"], to_global=said.get("to_global", False))


def start(engine: Engine, request: requests.TaskStartRequest, call: Call) -> Written:
    """Begin a task: say what it is for.

    The answer holds its `task_id`, which everything else about the task names.
    """
    return write_record(engine, "task_start", request)


def progress(engine: Engine, request: requests.TaskProgressRequest, call: Call) -> Written:
    """Say how far a task is, and what is to be done next."""
    return write_record(engine, "task_progress", request)


def run_start(engine: Engine, request: requests.RunStartRequest, call: Call) -> Written:
    """Say that a tool is run for a task, on what, and why."""
    return write_record(engine, "run_start", request)


def run_finish(engine: Engine, request: requests.RunFinishRequest, call: Call) -> Written:
    """Say what a run came to."""
    return write_record(engine, "run_finish", request)


def add_evidence(engine: Engine, request: requests.AddEvidenceRequest, call: Call) -> Written:
    """Record something that speaks for or against what a task holds."""
    return write_record(engine, "evidence", request)


def finish(engine: Engine, request: requests.TaskFinishRequest, call: Call) -> Written:
    """End a task: say what worked, what failed, and what is left."""
    return write_record(engine, "task_finish", request)


def get(engine: Engine, request: requests.TaskGetRequest, call: Call) -> TaskStory:
    """Show a task: where it is, and all that was said of it, oldest first."""
    from lorelog.services.records.judged import judged
    from lorelog.services.records.naming import find_task

    book = engine.records().book
    tables = book.tables()
    identity = find_task(tables, request.task_id)
    task = tables.task(identity)
    if task is None:
        raise NotFound(f"there is no task {identity!r}")
    return TaskStory(task, judged(book, tables.of_task(identity)), tables.runs(identity))


def search(engine: Engine, request: requests.TaskSearchRequest, call: Call) -> Finding:
    """Find tasks by what was said of them, best first; without a question those worked on last.

    One hit a task, with the records that it was found by. Conditions are exact. Who, which data, which things and which status are
    asked of the whole task, all else of the records.
    """
    from lorelog.services.records.finding import find_tasks

    archive = engine.records()
    return find_tasks(archive, wanted_of(engine, request))


def wanted_of(engine: Engine, request: requests.TaskSearchRequest | requests.ArtifactSearchRequest) -> Wanted:
    """Return what is to be found, as the service names it."""
    from lorelog.services.records.wanted import Wanted, resolved

    same = (
        *("query", "k", "kinds", "challenge_id", "artifact_role", "evidence_kind", "tool_name", "verification_status"),
        *("approval_state", "contributor", "dataset", "entity", "origin", "status", "supports_claim"),
        "include_superseded",
    )
    for kind in request.kinds:
        check_kind(kind)
    wanted = Wanted(
        **{name: getattr(request, name) for name in same},
        task=request.task_id,
        parent_task=request.parent_task_id,
        reply_to=request.reply_to_artifact_id,
        thread=request.thread_id,
        agent=request.agent_id,
        session=request.session_id,
        relation=request.relation_kind,
        since=day_of(request.since) if request.since else "",
        until=day_of(request.until) if request.until else "",
        trust=Trusted(request.trust),
        projects=projects_of(engine, request.projects, all_projects=request.all_projects),
    )
    return resolved(engine.records().book.tables(), wanted)


def projects_of(engine: Engine, given: list[str] | None, *, all_projects: bool) -> tuple[str, ...] | None:
    """Return the projects to look in: those given, all, or those that are seen from here."""
    if given is not None:
        return tuple(given)
    return None if all_projects or engine.defaults.all_projects else engine.records().projects


def found_tasks_shape(finding: Finding, query: str) -> replies.TaskSearchShape:
    """Tasks, best first."""
    return {"query": query, "hits": [_task_hit_shape(one) for one in finding.tasks], "notes": list(finding.notes)}


def _task_hit_shape(hit: TaskHit) -> replies.TaskHitShape:
    return {
        "task_id": hit.task.id,
        "goal": hit.task.goal,
        "status": hit.task.status,
        "project": hit.task.project,
        "updated_at": hit.task.updated_at,
        "score": hit.score,
        "relevance": hit.relevance,
        "matched": [
            {
                "artifact_id": one.judged.record.id,
                "artifact_kind": one.judged.record.kind,
                "snippet": one.snippet,
                "score": one.score,
                "trust": trust_shape(one.judged.trust),
            }
            for one in hit.matched
        ],
        "trust": trust_shape(hit.trust),
        "verification_hint": hint_shape(hit.trust),
        "grounding_refs": [grounding_shape(one.judged.grounding) for one in hit.matched],
    }


def written_shape(written: Written) -> replies.WrittenShape:
    """A record that is on disk."""
    record = written.record
    return {
        "task_id": record.task,
        "artifact_id": record.id,
        "thread_id": record.thread,
        "trust": trust_shape(written.judged.trust),
        "notes": list(written.notes),
    }


def story_shape(story: TaskStory) -> replies.TaskGetShape:
    """A task and all that was said of it."""
    return {
        "task": task_shape(story.task),
        "artifacts": [artifact_shape(one) for one in story.artifacts],
        "runs": [run_shape(run) for run in story.runs],
        "datasets": list(_named(story.artifacts, "dataset_refs")),
        "entities": list(_named(story.artifacts, "entity_refs")),
    }


def _named(artifacts: list[Judged], field: str) -> Iterator[Any]:
    """Yield what records name in a field, each once, in the order in which it was first named."""
    seen: list[object] = []
    for one in artifacts:
        value = one.record.fields.get(field)
        for part in value if isinstance(value, list) else ():
            if part not in seen:
                seen.append(part)
                yield part
