"""Operations on tasks and artifacts, which are records, and on their ledger: `task.*`, `artifact.*` and `ledger.*`, except digests."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, structs

from lorelog.core.caller import checked_origin
from lorelog.core.errors import ModelError, NotFound, StoreIncompatible, UsageError
from lorelog.core.query import TrustFilter
from lorelog.core.record import RecordDraft, VerificationHint
from lorelog.core.serializable import to_json
from lorelog.engine import Engine
from lorelog.operations.operation import (
    Handler,
    OperationFamily,
    OperationReply,
    RequestContext,
    RequestT,
    ShellCommand,
    reply_from,
)
from lorelog.operations.records import (
    TASK_HELP,
    AddEvidenceRequest,
    ArtifactCreateRequest,
    ArtifactGetReply,
    ArtifactGetRequest,
    ArtifactHitInfo,
    ArtifactSearchReply,
    ArtifactSearchRequest,
    DatasetInfo,
    DecisionRequest,
    EntityInfo,
    FindRelatedRequest,
    ListThreadRequest,
    RelatedReply,
    ReviewRequest,
    RevisionRequest,
    RunFinishRequest,
    RunStartRequest,
    TaskFinishRequest,
    TaskGetReply,
    TaskGetRequest,
    TaskProgressRequest,
    TaskSearchReply,
    TaskSearchRequest,
    TaskStartRequest,
    ThreadReply,
    VerificationRequest,
    WrittenArtifact,
    artifact_hit_info,
    artifact_info,
    run_info,
    task_hit_info,
    task_info,
    written_artifact,
)
from lorelog.operations.requests import OperationRequest, parse_past_day
from lorelog.records.chain import LedgerFault, UnprovenSignature
from lorelog.records.kinds import check_kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorelog.services.records.record_scope import RatedRecord, RecordFilter
    from lorelog.services.records.search import RecordHit

OPERATIONS = OperationFamily()


def _offer_record_fields(command: ShellCommand) -> ShellCommand:
    """Return a command that also offers the fields that every record has."""
    return structs.replace(
        command,
        options={**command.options, "writer": "--as"},
        offered=("session_id", "origin", *command.offered),
        helps={"task_id": TASK_HELP, **command.helps},
    )


_RECORD_ATTRIBUTES = {
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
"""Request fields that are attributes of the record and not among its `fields`."""
_FIELD_ALIASES = {"failed_attempts": "what_failed", "notes": "summary"}
"""memd's names of record fields that are stored under another name."""
_CALL_FIELDS = frozenset({"project", "tenant", "writer", "artifact_kind", "to_global"})
_SAME_FILTERS = (
    *("query", "k", "kinds", "challenge_id", "artifact_role", "evidence_kind", "tool_name", "verification_status"),
    *("approval_state", "contributor", "dataset", "entity", "origin", "status", "supports_claim"),
    "include_superseded",
)
"""Search fields that `RecordFilter` has under the same name."""


def _declare_writer(
    name: str, *commands: ShellCommand
) -> Callable[[Handler[RequestT, WrittenArtifact]], Handler[RequestT, WrittenArtifact]]:
    """Declare an operation that writes a record; its commands offer the fields that every record has, too."""
    return OPERATIONS.declare(
        name, errors=(NotFound,), writes=True, once=True, commands=tuple(map(_offer_record_fields, commands))
    )


@_declare_writer(
    "task.start",
    ShellCommand(
        "task start",
        ("goal",),
        {
            "motivation": "--why",
            "scientific_question": "--question",
            "expected_outputs": "--expect",
            "dataset_refs": "--dataset",
            "parent_task_id": "--parent",
        },
        offered=("hypothesis", "to_global"),
        metavars={"dataset_refs": "NAME[@VERSION]"},
    ),
)
def start_task(engine: Engine, request: TaskStartRequest, call: RequestContext) -> WrittenArtifact:
    """Start a task with its goal.

    The reply has the `task_id`, which all other records of the task refer to.
    """
    return _write_record(engine, "task_start", request, call)


@_declare_writer(
    "task.progress",
    ShellCommand(
        "task progress",
        ("task_id?", "summary"),
        {"next_step": "--next", "failed_attempts": "--failed", "what_worked": "--worked"},
        offered=("blockers",),
    ),
)
def add_progress(engine: Engine, request: TaskProgressRequest, call: RequestContext) -> WrittenArtifact:
    """Record the progress of a task, and its next step if there is one."""
    return _write_record(engine, "task_progress", request, call)


@_declare_writer(
    "task.run_start",
    ShellCommand(
        "task run-start",
        ("task_id?",),
        {"why_chosen": "--why"},
        offered=("tool_name", "command", "inputs", "tool_version"),
    ),
)
def start_run(engine: Engine, request: RunStartRequest, call: RequestContext) -> WrittenArtifact:
    """Record that a tool run starts for a task, with its inputs and the reason."""
    return _write_record(engine, "run_start", request, call)


@_declare_writer(
    "task.run_finish",
    ShellCommand(
        "task run-finish",
        ("task_id?", "notes"),
        offered=("status", "run_id", "tool_name", "outputs", "metrics", "validation"),
        metavars={"metrics": "NAME=NUMBER"},
        defaults={"status": "completed"},
    ),
)
def finish_run(engine: Engine, request: RunFinishRequest, call: RequestContext) -> WrittenArtifact:
    """Record the result of a tool run."""
    return _write_record(engine, "run_finish", request, call)


@_declare_writer(
    "task.add_evidence",
    ShellCommand(
        "task evidence",
        ("task_id?", "summary"),
        {"evidence_kind": "--kind", "reply_to_artifact_id": "--about", "supports_claim": "--supports/--against"},
        offered=("metrics",),
        metavars={"metrics": "NAME=NUMBER"},
        helps={"supports_claim": "it supports the task's hypothesis / it contradicts the task's hypothesis"},
        defaults={"evidence_kind": "observation"},
    ),
)
def add_evidence(engine: Engine, request: AddEvidenceRequest, call: RequestContext) -> WrittenArtifact:
    """Record evidence for or against a claim of a task."""
    return _write_record(engine, "evidence", request, call)


@_declare_writer(
    "task.finish",
    ShellCommand(
        "task finish",
        ("task_id?",),
        {"what_worked": "--worked", "what_failed": "--failed", "uncertainty": "--uncertain"},
        offered=("status", "summary", "validation", "followups", "confidence"),
        defaults={"status": "completed"},
    ),
)
def finish_task(engine: Engine, request: TaskFinishRequest, call: RequestContext) -> WrittenArtifact:
    """Finish a task: what worked, what failed, and what is left to do."""
    return _write_record(engine, "task_finish", request, call)


@_declare_writer("artifact.create")
def create_artifact(engine: Engine, request: ArtifactCreateRequest, call: RequestContext) -> WrittenArtifact:
    """Write a record of any kind.

    Its trust is computed; no field sets it. Digests cannot be written.
    """
    return _write_record(engine, request.artifact_kind, request, call)


@_declare_writer("artifact.review")
def write_review(engine: Engine, request: ReviewRequest, call: RequestContext) -> WrittenArtifact:
    """Review a record."""
    return _write_record(engine, "review", request, call)


@_declare_writer("artifact.revision")
def write_revision(engine: Engine, request: RevisionRequest, call: RequestContext) -> WrittenArtifact:
    """Revise a record: the new record supersedes the one it replies to."""
    return _write_record(engine, "revision", request, call)


@_declare_writer(
    "artifact.decision",
    ShellCommand(
        "decide",
        ("summary!",),
        {"motivation": "--because", "uncertainty": "--uncertain"},
        offered=("task_id", "supersedes", "validation", "to_global"),
        metavars={"summary": "TEXT", "supersedes": "ID"},
        helps={"summary": "the decision", "task_id": "the task it belongs to (default: none)"},
    ),
)
def write_decision(engine: Engine, request: DecisionRequest, call: RequestContext) -> WrittenArtifact:
    """Record a decision, in a task or without one."""
    return _write_record(engine, "decision", request, call)


@_declare_writer(
    "artifact.verification",
    ShellCommand(
        "verify",
        ("reply_to_artifact_id!", "summary"),
        {"supports_claim": "/--against"},
        offered=("validation",),
        metavars={"reply_to_artifact_id": "ID", "summary": "TEXT"},
        helps={
            "reply_to_artifact_id": "id of the record, or its first characters",
            "summary": "what you checked and found",
            "supports_claim": "dispute the record",
        },
        defaults={"supports_claim": True},
    ),
)
def write_verification(engine: Engine, request: VerificationRequest, call: RequestContext) -> WrittenArtifact:
    """Record the verification of a record written by someone else.

    With `supports_claim` the record becomes verified if another writer wrote it; otherwise the reply says why not.
    """
    return _write_record(engine, "verification", request, call)


@OPERATIONS.declare(
    "task.get", errors=(NotFound,), commands=(ShellCommand("task show", ("task_id?",), helps={"task_id": TASK_HELP}),)
)
def get_task(engine: Engine, request: TaskGetRequest, call: RequestContext) -> TaskGetReply:
    """Show a task: its status, and all its records, oldest first."""
    from lorelog.services.records.record_scope import rate_records, resolve_task_id

    records = engine.records().records
    tables = records.tables()
    task_id = resolve_task_id(tables, request.task_id)
    task = tables.task(task_id)
    if task is None:
        raise NotFound(f"there is no task {task_id!r}")
    artifacts = rate_records(records, tables.by_task(task_id))
    return TaskGetReply(
        task=task_info(task),
        artifacts=tuple(map(artifact_info, artifacts)),
        runs=tuple(map(run_info, tables.runs(task_id))),
        datasets=tuple(DatasetInfo(**part) for part in _distinct_parts(artifacts, "dataset_refs")),
        entities=tuple(EntityInfo(**part) for part in _distinct_parts(artifacts, "entity_refs")),
    )


@OPERATIONS.declare(
    "task.search",
    errors=(NotFound, ModelError),
    warms=True,
    commands=(
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
    ),
)
def search_tasks(engine: Engine, request: TaskSearchRequest, call: RequestContext) -> TaskSearchReply:
    """Search tasks by their records, best first; without a query, the most recently updated first.

    One hit per task, with the matching records. Filters are exact. Filters on the writer, datasets, entities and status
    apply to the whole task, all others to its records.
    """
    from lorelog.services.records.search import find_tasks

    result = find_tasks(engine.records(), _record_filter(engine, request))
    return TaskSearchReply(query=request.query, hits=tuple(map(task_hit_info, result.tasks)), notes=tuple(result.notes))


@OPERATIONS.declare("artifact.get")
def get_artifact(engine: Engine, request: ArtifactGetRequest, call: RequestContext) -> ArtifactGetReply:
    """Show a record, its replies, and the records that supersede it; or report that it does not exist."""
    from lorelog.services.records.record_scope import rate_records, resolve_record

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
        replies=tuple(map(artifact_info, rate_records(records, tables.replies(record.id)))),
        superseded_by=tuple(map(artifact_info, rate_records(records, tables.superseding(record.id)))),
        notes=(),
    )


@OPERATIONS.declare("artifact.list_thread", errors=(NotFound,))
def list_thread(engine: Engine, request: ListThreadRequest, call: RequestContext) -> ThreadReply:
    """Show a thread, named by its id or by one of its records, oldest record first."""
    from lorelog.services.records.record_scope import rate_records, resolve_record, resolve_task_id

    store = engine.records().records
    tables = store.tables()
    if bool(request.thread_id) == bool(request.artifact_id):
        raise UsageError("a thread must be named", hint="give either thread_id or artifact_id, not both")
    thread = request.thread_id or resolve_record(tables, request.artifact_id).thread
    records = tables.by_thread(thread)
    if not records:  # the prefix of a task's own thread
        try:
            thread = resolve_task_id(tables, thread)
        except NotFound:
            raise NotFound(
                f"there is no thread {thread!r}",
                hint="a task's first thread has the id of the task; name any other by artifact_id",
            ) from None
        records = tables.by_thread(thread)
    return ThreadReply(thread_id=thread, artifacts=tuple(map(artifact_info, rate_records(store, records))))


@OPERATIONS.declare("artifact.search", errors=(NotFound, ModelError), warms=True)
def search_artifacts(engine: Engine, request: ArtifactSearchRequest, call: RequestContext) -> ArtifactSearchReply:
    """Search records, best first; without a query, newest first.

    One hit per record, with its trust. Filters are exact and apply to the record itself.
    """
    from lorelog.services.records.search import find_records

    result = find_records(engine.records(), _record_filter(engine, request))
    notes = list(result.notes)
    if request.token_budget:
        hits, note = _fit_artifact_hits(result.records, request)
        notes += [note] if note else []
    else:
        hits = [artifact_hit_info(hit, in_full=request.include_artifact) for hit in result.records]
    return ArtifactSearchReply(query=request.query, hits=tuple(hits), notes=tuple(notes))


def _fit_artifact_hits(
    records: Sequence[RecordHit], request: ArtifactSearchRequest
) -> tuple[list[ArtifactHitInfo], str]:
    """Return the best hits that fit into the token budget, and a note about the others."""
    from lorelog.retrieval.token_estimate import estimate_tokens

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


@OPERATIONS.declare("artifact.find_related", errors=(NotFound, ModelError), writes=True, once=True, warms=True)
def find_related(engine: Engine, request: FindRelatedRequest, call: RequestContext) -> RelatedReply:
    """Find the records that support a claim and those that contradict it, and rate how well the claim is grounded.

    With `create_artifact` the result is recorded as a verification; it does not raise the trust of any record.
    """
    from lorelog.services.records.record_scope import RecordFilter, resolve_task_id
    from lorelog.services.records.search import GROUNDING_REASONS, find_claim_evidence, record_claim_evidence

    archive = engine.records()
    claim = RecordFilter(
        query=request.claim,
        k=request.k,
        task=resolve_task_id(archive.records.tables(), request.task_id) if request.task_id else "",
        thread=request.thread_id,
        projects=_projects_in_scope(engine, None, all_projects=request.all_projects),
    )
    related = find_claim_evidence(archive, claim, request.candidate_artifact_ids)
    written = None
    if request.create_artifact:
        task = request.record_task_id or claim.task
        written = record_claim_evidence(archive, related, task=task, agent=request.writer)
    status = str(related.status)
    grounds = {ground.record: ground for hit in (*related.supporting, *related.conflicting) for ground in hit.grounding}
    return reply_from(
        related,
        RelatedReply,
        grounding_status=status,
        supporting_artifacts=tuple(artifact_hit_info(hit, in_full=False) for hit in related.supporting),
        conflicting_artifacts=tuple(artifact_hit_info(hit, in_full=False) for hit in related.conflicting),
        grounding_refs=tuple(grounds.values()),
        verification_hint=VerificationHint(
            requires_verification=status != "verified_record", reason=GROUNDING_REASONS[related.status]
        ),
        verification_artifact=None if written is None else written_artifact(written),
    )


def _write_record(engine: Engine, kind: str, request: OperationRequest, call: RequestContext) -> WrittenArtifact:
    from lorelog.services.records.writer import append_record

    values = msgspec.structs.asdict(request)
    attributes: dict[str, Any] = {
        attribute: values[name] for name, attribute in _RECORD_ATTRIBUTES.items() if name in values
    }
    attributes["origin"] = checked_origin(attributes["origin"], call.agent)
    fields = {
        _FIELD_ALIASES.get(name, name): value
        for name, value in values.items()
        if name not in _RECORD_ATTRIBUTES and name not in _CALL_FIELDS and value is not None
    }
    draft = RecordDraft(kind, fields=fields, **attributes)
    written = append_record(engine.records(), draft, agent=values["writer"], to_global=values.get("to_global", False))
    return written_artifact(written)


def _record_filter(engine: Engine, request: TaskSearchRequest | ArtifactSearchRequest) -> RecordFilter:
    from lorelog.services.records.record_scope import RecordFilter, resolve_filter_ids

    for kind in request.kinds:
        check_kind(kind)
    filters = RecordFilter(
        **{name: getattr(request, name) for name in _SAME_FILTERS},
        task=request.task_id,
        parent_task=request.parent_task_id,
        reply_to=request.reply_to_artifact_id,
        thread=request.thread_id,
        agent=request.writer,
        session=request.session_id,
        relation=request.relation_kind,
        since=parse_past_day(request.since),
        until=parse_past_day(request.until),
        trust=TrustFilter(request.trust),
        projects=_projects_in_scope(engine, request.projects, all_projects=request.all_projects),
    )
    return resolve_filter_ids(engine.records().records.tables(), filters)


def _projects_in_scope(engine: Engine, projects: Sequence[str] | None, *, all_projects: bool) -> tuple[str, ...] | None:
    """Return the projects to search: the given ones, those visible from this one, or None for all."""
    if projects is not None:
        return tuple(projects)
    return None if all_projects or engine.defaults.all_projects else engine.records().projects


def _distinct_parts(artifacts: list[RatedRecord], field: str) -> list[dict[str, Any]]:
    """Return the parts that records have in a field, without repetitions, in the order of their first mention."""
    parts: list[Any] = []
    for artifact in artifacts:
        value = artifact.record.fields.get(field)
        for part in value if isinstance(value, list) else ():
            if part not in parts:
                parts.append(part)
    return parts


class VerifyRequest(OperationRequest, frozen=True, kw_only=True):
    """How many problems to list."""

    limit: Annotated[
        int, Meta(ge=0, le=100_000, description="Maximum number of faults, and of unproven signatures, to list.")
    ] = 100


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


@OPERATIONS.declare(
    "ledger.verify", errors=(StoreIncompatible,), commands=(ShellCommand("ledger check", hidden=("limit",)),)
)
def verify(engine: Engine, request: VerifyRequest, call: RequestContext) -> VerifyReply:
    """Check the ledger: list every line that was altered, and every signature that does not prove its writer.

    Reads the whole ledger. `ok` is false for faults and for signatures that are broken or made under another name. A
    signature with an unknown key counts as unsigned and is not a fault.
    """
    from lorelog.services.records.keyring import SignatureState, check_ledger

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
