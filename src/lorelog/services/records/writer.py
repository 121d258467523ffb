"""Writes a record to the ledger: resolves ids, assigns task and project, removes secrets, signs.

Every id must exist: a mistyped task must not create one, nor may a reply point to nothing. The ledger is append-only,
so secrets are removed before writing. Projection and embedding wait until the next search or background run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.errors import StoreError, UsageError, with_article
from lorelog.core.ids import new_id
from lorelog.core.record import CANDIDATE_TRUST, Json, Promotion, Record, RecordDraft
from lorelog.ingest.redaction.redact import redact
from lorelog.records.kinds import KINDS, check_fields, complete_draft, is_reply
from lorelog.records.ledger import utc_time
from lorelog.records.tables import RecordQuery, RecordTables
from lorelog.records.trust import writer_identity
from lorelog.services.records import record_scope

_REDACTED_FIELDS = ("agent", "session", "thread", "relation", "status")
"""Texts to redact beside the fields. Ids of records and tasks are not redacted: they were looked up."""
_REFERENCE_FIELDS = frozenset({"related_artifact_ids", "parent_task_id"})


def redact_draft(draft: RecordDraft, patterns: Sequence[str] = ()) -> tuple[RecordDraft, Mapping[str, int]]:
    """Return a draft without secrets, and the number of removed secrets by kind."""
    counts: Counter[str] = Counter()

    def clean(text: str) -> str:
        redaction = redact(text, patterns)
        counts.update(redaction.kinds)
        return redaction.text

    def clean_value(value: Json, name: str = "") -> Json:
        if isinstance(value, str):
            # Many secrets are recognized only by their name, as in {"password": …}.
            whole = clean(f"{name}={value}") if name else ""
            return whole.removeprefix(f"{name}=") if name and whole.startswith(f"{name}=") else clean(value)
        if isinstance(value, list):
            return [clean_value(item, name) for item in value]
        if isinstance(value, dict):
            return {clean(key): clean_value(item, key) for key, item in value.items()}
        return value

    fields = {name: value if name in _REFERENCE_FIELDS else clean_value(value) for name, value in draft.fields.items()}
    texts: dict[str, Any] = {name: clean(getattr(draft, name)) for name in _REDACTED_FIELDS if getattr(draft, name)}
    return replace(draft, fields=fields, **texts), dict(counts)


_TASK_KINDS = frozenset({"task_start", "task_progress", "task_finish"})
_REQUIRED_TEXTS = {"decision": "what was decided", "revision": "what holds now"}
_UNKNOWN_TRUST = replace(CANDIDATE_TRUST, reason="its trust could not be looked up")


class WrittenRecord(Struct, frozen=True):
    """A record on disk with its trust, and notes for its writer."""

    rated: record_scope.RatedRecord
    notes: tuple[str, ...] = ()

    @property
    def record(self) -> Record:
        return self.rated.record


def append_record(
    scope: record_scope.RecordScope, draft: RecordDraft, *, agent: str | None = None, to_global: bool = False
) -> WrittenRecord:
    """Write a draft. Its ids may be abbreviated.

    `agent` is the writer: None for the configured one, blank for none. With `to_global`, a record without a task gets
    no project.
    """
    fields = {name: value for name, value in draft.fields.items() if value is not None and value not in ("", [], {})}
    draft = replace(draft, fields=fields, status=draft.status.strip())
    check_fields(draft.kind, fields)
    texts = [text for value in fields.values() for text in (value if isinstance(value, list) else [value])]
    if draft.kind in _REQUIRED_TEXTS and not any(text.strip() if isinstance(text, str) else True for text in texts):
        # It would supersede one that has content.
        raise UsageError(f"the {draft.kind} is empty", hint=f"give a summary: {_REQUIRED_TEXTS[draft.kind]}")
    signer = scope.keyring.name
    if signer and agent is not None and writer_identity(agent) != writer_identity(signer):
        raise UsageError(
            f"records are signed as {signer!r} here and cannot be written as {agent!r}",
            hint="omit writer (--as), or select that writer's identity with the setting records.identity",
        )
    draft = replace(draft, agent=signer or (scope.agent if agent is None else agent))
    tables = scope.records.tables()
    parent = record_scope.resolve_record(tables, draft.reply_to) if draft.reply_to else None
    draft = _assign_task(scope, _resolve_ids(tables, draft, parent), tables, parent, to_global=to_global)
    clean, redactions = redact_draft(draft, scope.patterns)
    draft = scope.keyring.sign(clean)
    notes = list(_write_notes(tables, draft, redactions))
    scope.workspace.create()
    (record,) = scope.records.append([draft])
    try:
        (rated,) = record_scope.rate_records(scope.records, [record])
    except StoreError as error:  # the record is on disk all the same
        return WrittenRecord(
            record_scope.RatedRecord(record, _UNKNOWN_TRUST),
            (*notes, f"the record is written, but not rated: {error.message}"),
        )
    if rated.trust.promotion is Promotion.REFUSED:
        notes.append(f"this verifies nothing: {rated.trust.promotion_reason}")
    return WrittenRecord(rated, tuple(notes))


def _resolve_ids(tables: RecordTables, draft: RecordDraft, parent: Record | None) -> RecordDraft:
    """Return a draft with full ids in place of prefixes."""
    fields: dict[str, Json] = dict(draft.fields)
    if isinstance(named := fields.get("parent_task_id"), str):
        fields["parent_task_id"] = record_scope.resolve_task_id(tables, named)
    if isinstance(related := fields.get("related_artifact_ids"), list):
        ids = [record_scope.resolve_record(tables, str(id_)).id for id_ in related]
        fields["related_artifact_ids"] = list(dict.fromkeys(ids))
    return replace(
        draft,
        fields=fields,
        task=record_scope.resolve_task_id(tables, draft.task) if draft.task else "",
        reply_to=parent.id if parent else "",
        supersedes=record_scope.resolve_record(tables, draft.supersedes).id if draft.supersedes else "",
        id=new_id(),
        at=utc_time(),
    )


def _assign_task(
    scope: record_scope.RecordScope, draft: RecordDraft, tables: RecordTables, parent: Record | None, *, to_global: bool
) -> RecordDraft:
    """Return a draft with its task, project and thread."""
    project = "" if to_global else scope.workspace.project.id
    draft = complete_draft(draft, parent)
    if KINDS[draft.kind].needs_task and not draft.task and not is_reply(draft):
        raise UsageError(
            f"{with_article(draft.kind)} needs a task",
            hint="give task_id, or reply_to_artifact_id with a record of the task",
        )
    # A restarted task keeps its project, and a reply from another project is filed under its task's.
    task = tables.task(draft.task) if draft.task else None
    owner = task or (None if KINDS[draft.kind].starts_task else parent)
    return replace(draft, project=project if owner is None else owner.project)


def _write_notes(tables: RecordTables, draft: RecordDraft, redactions: Mapping[str, int]) -> Iterator[str]:
    if redactions:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(redactions.items()))
        yield f"secrets were removed before writing: {kinds}"
    if draft.thread not in {draft.task, draft.id} and not tables.find(RecordQuery(thread=draft.thread, limit=1)):
        yield f"this record begins the thread {draft.thread!r}, which had no records"
    task = tables.task(draft.task) if draft.task else None
    if task is not None and task.finished_at and draft.kind in _TASK_KINDS:
        again = "this finishes it again" if draft.kind == "task_finish" else "this reopens it"
        yield f"the task was already finished; {again}"
    if draft.supersedes:
        earlier = tables.where("supersedes", draft.supersedes)
        if earlier:
            yield f"{draft.supersedes} was already superseded by {earlier[-1].id}"
