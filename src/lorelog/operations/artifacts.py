"""Operations that read tasks and artifacts, which are records, and check their ledger; `digests` has the digests of records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec

from lorelog.core.errors import ModelError, NotFound, StoreIncompatible, UsageError
from lorelog.core.query import SupportingRecord, TrustFilter
from lorelog.core.record import Trust, VerificationHint
from lorelog.core.serializable import ReplyItems, to_json
from lorelog.engine import Engine
from lorelog.operations.operation import (
    OperationFamily,
    OperationReply,
    RequestContext,
    ShellCommand,
    SparseReply,
    reply_from,
)
from lorelog.operations.records import ID_PREFIX_HINT, TASK_HELP, record_fields
from lorelog.operations.requests import (
    Name,
    NonEmptyId,
    OperationRequest,
    Projects,
    ScopedRequest,
    Text,
    Words,
    about,
    parse_past_day,
)
from lorelog.records.chain import LedgerFault, UnprovenSignature
from lorelog.records.kinds import ArtifactInfo, check_kind
from lorelog.records.tables import Task, ToolRun
from lorelog.retrieval.token_estimate import estimate_tokens
from lorelog.services.records.keyring import SignatureState, check_ledger
from lorelog.services.records.record_scope import (
    RatedRecord,
    RecordFilter,
    rate_records,
    resolve_filter_ids,
    resolve_record,
    resolve_task_id,
)
from lorelog.services.records.search import RecordHit, TaskHit, find_records, find_tasks

OPERATIONS = OperationFamily()
_FILTER_NAMES = {
    "task": "task_id",
    "parent_task": "parent_task_id",
    "thread": "thread_id",
    "reply_to": "reply_to_artifact_id",
    "agent": "writer",
    "session": "session_id",
    "relation": "relation_kind",
}
"""Search fields by their names in `RecordFilter`, where these differ."""


class TaskGetRequest(OperationRequest, frozen=True):
    """One task."""

    task_id: Annotated[NonEmptyId, about("The task." + ID_PREFIX_HINT)]


class ArtifactGetRequest(OperationRequest, frozen=True):
    """One record."""

    artifact_id: Annotated[NonEmptyId, about("The record." + ID_PREFIX_HINT)]


class ListThreadRequest(OperationRequest, frozen=True, kw_only=True):
    """One thread."""

    thread_id: Annotated[Name, about("The thread; the first thread of a task has the task's id.")] = ""
    artifact_id: Annotated[Name, about("A record of the thread." + ID_PREFIX_HINT)] = ""


class _RecordSearchRequest(ScopedRequest, frozen=True):
    """A query and exact filters. Empty filters are ignored."""

    query: Annotated[Text, about("A question or keywords; the newest first if empty.")] = ""
    k: Annotated[int, about("Number of hits.", ge=1, le=1000)] = 10
    kinds: Annotated[Words, about("Only records of one of these kinds.")] = []
    task_id: Annotated[Name, about("Only records of this task." + ID_PREFIX_HINT)] = ""
    parent_task_id: Annotated[Name, about("Only records of subtasks of this task." + ID_PREFIX_HINT)] = ""
    thread_id: Annotated[Name, about("Only records of this thread.")] = ""
    reply_to_artifact_id: Annotated[Name, about("Only replies to this record." + ID_PREFIX_HINT)] = ""
    writer: Annotated[Name, about("Only records of this writer.")] = ""
    session_id: Annotated[Name, about("Only records of this session.")] = ""
    challenge_id: Annotated[Name, about("Only records of this challenge.")] = ""
    artifact_role: Annotated[Name, about("Only records with this role.")] = ""
    relation_kind: Annotated[Name, about("Only records with this relation to the record they reply to.")] = ""
    evidence_kind: Annotated[Name, about("Only evidence of this kind.")] = ""
    tool_name: Annotated[Name, about("Only runs of this tool.")] = ""
    verification_status: Annotated[Name, about("Only records with this verdict.")] = ""
    approval_state: Annotated[Name, about("Only records in this state.")] = ""
    contributor: Annotated[Name, about("Only records with this contributor.")] = ""
    dataset: Annotated[Name, about("Only records about the dataset of this name.")] = ""
    entity: Annotated[Name, about("Only records about the entity of this name.")] = ""
    origin: Annotated[Name, about("Only records of this origin: user, agent, tool, import.")] = ""
    supports_claim: Annotated[
        bool | None, about("Only records that support (true) or contradict (false) the record they reply to.")
    ] = None
    since: Annotated[
        str, about("From this day on: 2026-03-05, today, yesterday, or an age: 7d, 2w, 3m, 1y.", max_length=40)
    ] = ""
    until: Annotated[str, about("Up to and including this day.", max_length=40)] = ""
    trust: Annotated[
        Literal["any", "canonical", "verified"],
        about("Minimum trust: any, canonical (every record is), or verified by a second writer."),
    ] = "any"
    include_superseded: Annotated[bool, about("Include superseded records.")] = False
    projects: Projects = None


class TaskSearchRequest(_RecordSearchRequest, frozen=True, kw_only=True):
    """Filters of a task search."""

    status: Annotated[
        Name, about("Only tasks with this status: in_progress, completed, failed, …; open: all unfinished tasks.")
    ] = ""


class ArtifactSearchRequest(_RecordSearchRequest, frozen=True, kw_only=True):
    """Filters of a record search."""

    status: Annotated[Name, about("Only records of this status.")] = ""
    include_artifact: Annotated[bool, about("Include each record in full.")] = True
    token_budget: Annotated[
        int,
        about(
            "Return the best hits whose JSON fits into this many tokens, in full where that fits; 0: no budget.",
            ge=0,
            le=10_000_000,
        ),
    ] = 0


class VerifyRequest(OperationRequest, frozen=True, kw_only=True):
    """How many problems to list."""

    limit: Annotated[int, about("Maximum number of faults, and of unproven signatures, to list.", ge=0, le=100_000)] = (
        100
    )


class TaskInfo(SparseReply, frozen=True, kw_only=True):
    """A task and its status."""

    task_id: str
    goal: str
    status: str
    project: str
    writer: str
    started_at: str
    updated_at: str
    finished_at: str = ""
    parent_task_id: str = ""
    records: int


class RunInfo(OperationReply, frozen=True, kw_only=True):
    """A tool run of a task; its id is that of the record that started it."""

    artifact_id: str
    writer: str
    tool_name: str
    command: str
    status: str
    summary: str
    started_at: str
    finished_at: str
    finish_artifact_id: str


class DatasetInfo(SparseReply, frozen=True, kw_only=True):
    """A dataset that records name."""

    name: str
    version: str = ""
    description: str = ""


class EntityInfo(SparseReply, frozen=True, kw_only=True):
    """An entity that records name."""

    name: str
    entity_type: str
    role: str = ""


class TaskGetReply(OperationReply, frozen=True, kw_only=True):
    """A task and all its records, oldest first."""

    task: TaskInfo
    artifacts: tuple[ArtifactInfo, ...]
    runs: tuple[RunInfo, ...]
    datasets: tuple[DatasetInfo, ...]
    entities: tuple[EntityInfo, ...]


class ArtifactGetReply(OperationReply, frozen=True, kw_only=True):
    """A record, its replies, and the records that supersede it."""

    found: bool
    artifact: ArtifactInfo | None
    replies: tuple[ArtifactInfo, ...]
    superseded_by: tuple[ArtifactInfo, ...]
    notes: tuple[str, ...]


class ThreadReply(ReplyItems[ArtifactInfo], OperationReply, frozen=True, kw_only=True):
    """A thread, oldest record first."""

    thread_id: str
    artifacts: tuple[ArtifactInfo, ...]


class RecordMatchInfo(OperationReply, frozen=True, kw_only=True):
    """A record that matches a task search."""

    artifact_id: str
    artifact_kind: str
    snippet: str
    score: float
    trust: Trust


class TaskHitInfo(OperationReply, frozen=True, kw_only=True):
    """A task that matches a search."""

    task_id: str
    goal: str
    status: str
    project: str
    updated_at: str
    score: float
    relevance: float
    matched: tuple[RecordMatchInfo, ...]
    trust: Trust
    verification_hint: VerificationHint
    grounding_refs: tuple[SupportingRecord, ...]


class TaskSearchReply(ReplyItems[TaskHitInfo], OperationReply, frozen=True, kw_only=True):
    """Tasks, best first."""

    query: str
    hits: tuple[TaskHitInfo, ...]
    notes: tuple[str, ...]


class ArtifactHitInfo(SparseReply, frozen=True, kw_only=True):
    """A record that matches a search."""

    artifact_id: str
    artifact_kind: str
    task_id: str
    thread_id: str
    goal: str
    snippet: str
    score: float
    relevance: float
    artifact: ArtifactInfo | None = None
    trust: Trust
    verification_hint: VerificationHint
    grounding_refs: tuple[SupportingRecord, ...]


class ArtifactSearchReply(ReplyItems[ArtifactHitInfo], OperationReply, frozen=True, kw_only=True):
    """Records, best first."""

    query: str
    hits: tuple[ArtifactHitInfo, ...]
    notes: tuple[str, ...]


class SignatureCounts(OperationReply, frozen=True, kw_only=True):
    """Number of signatures by state."""

    signed: int
    valid: int
    unknown_key: int
    wrong_name: int
    broken: int


class VerifyReply(OperationReply, frozen=True, kw_only=True):
    """Whether the ledger is intact."""

    ok: bool
    records: int
    redacted: int
    first_unverified: int
    torn_bytes: int
    fault_count: int
    faults: tuple[LedgerFault, ...]
    signatures: SignatureCounts
    unproven: tuple[UnprovenSignature, ...]


def artifact_info(rated: RatedRecord) -> ArtifactInfo:
    fields = {name: value for name, value in rated.record.fields.items() if value not in ("", [], {})}
    attributes = record_fields(rated.record, ArtifactInfo) | {"signed": rated.signed, "trust": rated.trust}
    return ArtifactInfo(**(fields | attributes))  # the ledger's own attributes win over fields


def task_info(task: Task, **changed: Any) -> TaskInfo:
    return reply_from(task, TaskInfo, task_id=task.id, writer=task.agent, parent_task_id=task.parent, **changed)


def run_info(run: ToolRun, **changed: Any) -> RunInfo:
    names = {"artifact_id": run.id, "writer": run.agent, "tool_name": run.tool, "finish_artifact_id": run.finish}
    return reply_from(run, RunInfo, **names, **changed)


def task_hit_info(hit: TaskHit) -> TaskHitInfo:
    return reply_from(
        hit.task,
        TaskHitInfo,
        task_id=hit.task.id,
        score=hit.score,
        relevance=hit.relevance,
        matched=tuple(
            reply_from(
                match, RecordMatchInfo, **record_fields(match.rated.record, RecordMatchInfo), trust=match.rated.trust
            )
            for match in hit.matches
        ),
        trust=hit.trust,
        verification_hint=hit.trust.verification_hint,
        grounding_refs=tuple(match.rated.grounding for match in hit.matches),
    )


def artifact_hit_info(hit: RecordHit, *, in_full: bool) -> ArtifactHitInfo:
    """Return a record that matches a search, with all its fields if `in_full`."""
    trust = hit.rated.trust
    return reply_from(
        hit,
        ArtifactHitInfo,
        **record_fields(hit.rated.record, ArtifactHitInfo),
        artifact=artifact_info(hit.rated) if in_full else None,
        trust=trust,
        verification_hint=trust.verification_hint,
        grounding_refs=tuple(hit.grounding),
    )


@OPERATIONS.declare(
    "task.get", ShellCommand("task show", ("task_id?",), helps={"task_id": TASK_HELP}), errors=(NotFound,)
)
def get_task(engine: Engine, request: TaskGetRequest, call: RequestContext) -> TaskGetReply:
    """Show a task: its status, and all its records, oldest first."""
    records = engine.records().records
    tables = records.tables()
    task_id = resolve_task_id(tables, request.task_id)
    task = tables.task(task_id)
    if task is None:
        raise NotFound(f"there is no task {task_id!r}")
    artifacts = rate_records(records, tables.where("task", task_id))
    return TaskGetReply(
        task=task_info(task),
        artifacts=tuple(map(artifact_info, artifacts)),
        runs=tuple(map(run_info, tables.runs(task_id))),
        datasets=tuple(DatasetInfo(**part) for part in _distinct_parts(artifacts, "dataset_refs")),
        entities=tuple(EntityInfo(**part) for part in _distinct_parts(artifacts, "entity_refs")),
    )


@OPERATIONS.declare(
    "task.search",
    ShellCommand(
        "task list",
        offered=("status", "k", "all_projects"),
        helps={"status": "open, all, or a status such as completed, failed"},
        defaults={"status": "open", "k": 20},
        summary="list tasks, most recently updated first",
    ),
    ShellCommand(
        "task search",
        ("query!...",),
        {"writer": "--as"},
        offered=("status", "tool_name", "dataset", "k", "all_projects"),
        defaults={"k": 5},
    ),
    errors=(NotFound, ModelError),
    warms=True,
    pure=True,
)
def search_tasks(engine: Engine, request: TaskSearchRequest, call: RequestContext) -> TaskSearchReply:
    """Search tasks by their records, best first; without a query, the most recently updated first.

    One hit per task, with the matching records. Filters are exact. Filters on the writer, datasets, entities and status
    apply to the whole task, all others to its records.
    """
    tasks, notes = find_tasks(engine.records(), _record_filter(engine, request))
    return TaskSearchReply(query=request.query, hits=tuple(map(task_hit_info, tasks)), notes=notes)


@OPERATIONS.declare("artifact.get")
def get_artifact(engine: Engine, request: ArtifactGetRequest, call: RequestContext) -> ArtifactGetReply:
    """Show a record, its replies, and the records that supersede it; or report that it does not exist."""
    records = engine.records().records
    tables = records.tables()
    try:
        record = resolve_record(tables, request.artifact_id)
    except NotFound as error:
        note = f"{error.message}; {error.hint}" if error.hint else error.message
        return ArtifactGetReply(found=False, artifact=None, replies=(), superseded_by=(), notes=(note,))
    return ArtifactGetReply(
        found=True,
        artifact=artifact_info(rate_records(records, [record])[0]),
        replies=tuple(map(artifact_info, rate_records(records, tables.where("reply_to", record.id)))),
        superseded_by=tuple(map(artifact_info, rate_records(records, tables.where("supersedes", record.id)))),
        notes=(),
    )


@OPERATIONS.declare("artifact.list_thread", errors=(NotFound,))
def list_thread(engine: Engine, request: ListThreadRequest, call: RequestContext) -> ThreadReply:
    """Show a thread, named by its id or by one of its records, oldest record first."""
    store = engine.records().records
    tables = store.tables()
    if bool(request.thread_id) == bool(request.artifact_id):
        raise UsageError("a thread must be named", hint="give either thread_id or artifact_id, not both")
    thread = request.thread_id or resolve_record(tables, request.artifact_id).thread
    records = tables.where("thread", thread)
    if not records:  # the prefix of a task's own thread
        try:
            thread = resolve_task_id(tables, thread)
        except NotFound:
            raise NotFound(
                f"there is no thread {thread!r}",
                hint="a task's first thread has the id of the task; name any other by artifact_id",
            ) from None
        records = tables.where("thread", thread)
    return ThreadReply(thread_id=thread, artifacts=tuple(map(artifact_info, rate_records(store, records))))


@OPERATIONS.declare("artifact.search", errors=(NotFound, ModelError), warms=True, pure=True)
def search_artifacts(engine: Engine, request: ArtifactSearchRequest, call: RequestContext) -> ArtifactSearchReply:
    """Search records, best first; without a query, newest first.

    One hit per record, with its trust. Filters are exact and apply to the record itself.
    """
    records, notes = find_records(engine.records(), _record_filter(engine, request))
    if request.token_budget:
        hits, note = _fit_artifact_hits(records, request)
        notes += (note,) if note else ()
    else:
        hits = [artifact_hit_info(hit, in_full=request.include_artifact) for hit in records]
    return ArtifactSearchReply(query=request.query, hits=tuple(hits), notes=notes)


def _fit_artifact_hits(
    records: Sequence[RecordHit], request: ArtifactSearchRequest
) -> tuple[list[ArtifactHitInfo], str]:
    """Return the best hits that fit into the token budget, and a note about the others."""
    left, hits, shortened = request.token_budget, [], 0
    for record in records:
        for in_full in (True, False) if request.include_artifact else (False,):
            info = artifact_hit_info(record, in_full=in_full)
            cost = estimate_tokens(msgspec.json.encode(to_json(info)).decode())
            if cost <= left:
                left -= cost
                hits.append(info)
                shortened += request.include_artifact and not in_full
                break
    omitted = len(records) - len(hits)
    parts = [f"{omitted} of {len(records)} records left out"] if omitted else []
    parts += [f"{shortened} shown without the record in full"] if shortened else []
    return hits, f"token budget of {request.token_budget:,}: {', '.join(parts)}" if parts else ""


def _record_filter(engine: Engine, request: TaskSearchRequest | ArtifactSearchRequest) -> RecordFilter:
    for kind in request.kinds:
        check_kind(kind)
    visible = None if request.all_projects or engine.defaults.all_projects else engine.records().projects
    changed = {
        "since": parse_past_day(request.since),
        "until": parse_past_day(request.until),
        "trust": TrustFilter(request.trust),
        "projects": visible if request.projects is None else tuple(request.projects),
        **{attribute: getattr(request, name) for attribute, name in _FILTER_NAMES.items()},
    }
    return resolve_filter_ids(engine.records().records.tables(), reply_from(request, RecordFilter, **changed))


def _distinct_parts(artifacts: list[RatedRecord], field: str) -> list[dict[str, Any]]:
    """Return the parts that records have in a field, without repetitions, in the order of their first mention."""
    values = (artifact.record.fields.get(field) for artifact in artifacts)
    parts: list[Any] = [part for value in values if isinstance(value, list) for part in value]
    return [part for place, part in enumerate(parts) if part not in parts[:place]]


@OPERATIONS.declare("ledger.verify", ShellCommand("ledger check", hidden=("limit",)), errors=(StoreIncompatible,))
def verify(engine: Engine, request: VerifyRequest, call: RequestContext) -> VerifyReply:
    """Check the ledger: list every line that was altered, and every signature that does not prove its writer.

    Reads the whole ledger. `ok` is false for faults and for signatures that are broken or made under another name. A
    signature with an unknown key counts as unsigned and is not a fault.
    """
    archive = engine.records()
    check = check_ledger(archive.records, archive.keyring, request.limit)
    chain, states = check.chain, check.states
    return VerifyReply(
        ok=check.ok,
        records=chain.lines,
        redacted=chain.redacted,
        first_unverified=chain.first_bad_seq,
        torn_bytes=chain.torn,
        fault_count=len(chain.faults),
        faults=tuple(chain.faults[: request.limit]),
        signatures=SignatureCounts(
            signed=states.total(),
            valid=states[SignatureState.VALID],
            unknown_key=states[SignatureState.UNKNOWN_KEY],
            wrong_name=states[SignatureState.WRONG_NAME],
            broken=states[SignatureState.BROKEN],
        ),
        unproven=check.unproven,
    )
