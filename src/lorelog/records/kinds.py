"""The kinds of records and their fields: one table for requests, validation, pages and searchable text.

Fields have the names of memd's artifacts, so that text written for memd can be recorded here. Every kind accepts every
field except `content`, which is for pages. An unknown name is rejected with the nearest known one,
where memd ignores it: a misspelt field would be lost silently.

Redaction removes the texts of a line. A text is replaced by a marker, `sha256:` and a hash of the text together with the
whole original line. Whoever has the original line can prove that it was there; whoever guesses one text must guess all
the others too. Ids, kinds, times, relations and the writer's name stay. Lines are not padded: their length would tell
the length of the text.
"""

# Without `from __future__ import annotations`: the annotations of `ArtifactInfo` are read here, and evaluating texts takes 2 ms.

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta, Struct, ValidationError, convert, defstruct
from msgspec.structs import replace

from lorelog.core.errors import UsageError, nearest_name, with_article
from lorelog.core.ids import new_id
from lorelog.core.record import (
    DIGEST_KIND,
    MAX_NESTING,
    ORIGINS,
    REDACTION_KIND,
    Json,
    Record,
    RecordDraft,
    Trust,
    exceeds_max_nesting,
)
from lorelog.core.serializable import Serializable

MAX_SUMMARY_BYTES = 500
MAX_CONTENT_BYTES = 256 * 1024
PAGE_ROLES = ("concept", "entity")
_TIMESTAMP = re.compile(r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{3}Z")
_IDENTIFIER = re.compile(r"[^\s\x00-\x1f\x7f]{1,200}")
_Parts = list[dict[str, str]]
_Amount = str | float | dict[str, Any] | None
_ID_FIELDS = ("id", "task", "thread", "reply_to", "supersedes")


class FieldType(StrEnum):
    """The type of a field's value."""

    TEXT = "text"
    TEXTS = "texts"
    IDS = "ids"
    NUMBER = "number"
    SHARE = "share"
    """A number from 0 to 1."""
    OBJECT = "object"
    VALUE = "value"
    """A text, a number or an object."""
    DATASETS = "datasets"
    ENTITIES = "entities"
    PROVENANCE = "provenance"


class RecordField(Struct, frozen=True):
    description: str
    type: FieldType = FieldType.TEXT


class RecordKindSpec(Struct, frozen=True):
    description: str
    status: str
    """The default status."""
    required: tuple[str, ...] = ()
    relation: str = "reply_to"
    """The default relation to the record it replies to."""
    needs_task: bool = True
    starts_task: bool = False
    """It starts the task that it names, and gets a new task id if it names none."""
    needs_status: bool = False
    """There is no default status."""
    supersedes_parent: bool = False
    """By default it supersedes the record it replies to."""


class ArtifactInfo(Serializable, Struct, frozen=True, kw_only=True, omit_defaults=True, repr_omit_defaults=True):
    """A record, as operations return it. Empty fields are left out of the JSON."""

    artifact_id: str
    artifact_kind: str
    thread_id: str
    status: str
    at: str
    origin: str
    signed: bool
    trust: Trust
    task_id: str = ""
    project: str = ""
    writer: str = ""
    session_id: str = ""
    reply_to_artifact_id: str = ""
    relation_kind: str = ""
    supports_claim: bool | None = None
    supersedes: str = ""
    goal: Annotated[str, RecordField("the purpose of the task")] = ""
    motivation: Annotated[str, RecordField("the reason for doing it")] = ""
    hypothesis: Annotated[str, RecordField("the expected result")] = ""
    scientific_question: Annotated[str, RecordField("the question to answer")] = ""
    expected_outputs: Annotated[list[str], RecordField("the expected results", FieldType.TEXTS)] = []
    method_summary: Annotated[str, RecordField("how it was done")] = ""
    summary: Annotated[str, RecordField("what happened, or what is claimed")] = ""
    next_step: Annotated[str, RecordField("the next step")] = ""
    blockers: Annotated[list[str], RecordField("obstacles", FieldType.TEXTS)] = []
    what_worked: Annotated[list[str], RecordField("what worked", FieldType.TEXTS)] = []
    what_failed: Annotated[list[str], RecordField("what was tried and failed", FieldType.TEXTS)] = []
    validation: Annotated[list[str], RecordField("how it was checked", FieldType.TEXTS)] = []
    uncertainty: Annotated[list[str], RecordField("what is not certain", FieldType.TEXTS)] = []
    followups: Annotated[list[str], RecordField("remaining work", FieldType.TEXTS)] = []
    confidence: Annotated[float | None, RecordField("the writer's confidence, from 0 to 1", FieldType.SHARE)] = None
    evidence_kind: Annotated[str, RecordField("the kind of evidence")] = ""
    metric_name: Annotated[str, RecordField("the measured quantity")] = ""
    metric_value: Annotated[float | None, RecordField("the measured value", FieldType.NUMBER)] = None
    metrics: Annotated[dict[str, Any], RecordField("measurements by name", FieldType.OBJECT)] = {}
    tool_name: Annotated[str, RecordField("the tool that was run")] = ""
    tool_version: Annotated[str, RecordField("the tool's version")] = ""
    command: Annotated[str, RecordField("the command that was run")] = ""
    parameters: Annotated[dict[str, Any], RecordField("the tool's parameters", FieldType.OBJECT)] = {}
    inputs: Annotated[list[str], RecordField("the tool's inputs", FieldType.TEXTS)] = []
    outputs: Annotated[list[str], RecordField("the tool's outputs", FieldType.TEXTS)] = []
    why_chosen: Annotated[str, RecordField("why this tool and method")] = ""
    requested_action: Annotated[str, RecordField("what the writer asks others to do")] = ""
    verification_status: Annotated[str, RecordField("the writer's verdict in a word; it does not affect trust")] = ""
    approval_state: Annotated[str, RecordField("whether someone approved; it does not affect trust")] = ""
    artifact_role: Annotated[str, RecordField("the record's role; for a page: concept or entity")] = ""
    content: Annotated[str, RecordField("the text of a page, in Markdown")] = ""
    challenge_id: Annotated[str, RecordField("the challenge it belongs to")] = ""
    parent_task_id: Annotated[str, RecordField("the task of which this one is a part")] = ""
    related_artifact_ids: Annotated[list[str], RecordField("records it is based on", FieldType.IDS)] = []
    contributors: Annotated[list[str], RecordField("other people or agents involved", FieldType.TEXTS)] = []
    dataset_refs: Annotated[
        _Parts, RecordField("datasets it is about: name, version, description", FieldType.DATASETS)
    ] = []
    entity_refs: Annotated[_Parts, RecordField("things it is about: name, entity_type, role", FieldType.ENTITIES)] = []
    provenance: Annotated[
        dict[str, str], RecordField("its source: uri, repo, commit, path, tool_name, …", FieldType.PROVENANCE)
    ] = {}
    compute_budget: Annotated[_Amount, RecordField("the allowed cost", FieldType.VALUE)] = None
    cost_actual: Annotated[_Amount, RecordField("the actual cost", FieldType.VALUE)] = None
    data_access_level: Annotated[str, RecordField("who may see the data")] = ""
    policy_tags: Annotated[list[str], RecordField("policies that apply", FieldType.TEXTS)] = []
    allowed_tools: Annotated[list[str], RecordField("tools that may be used", FieldType.TEXTS)] = []
    timestamp_observed: Annotated[str, RecordField("when it was observed")] = ""


FIELDS: Mapping[str, RecordField] = {
    name: hint.__metadata__[0] for name, hint in ArtifactInfo.__annotations__.items() if hasattr(hint, "__metadata__")
}

KINDS: Mapping[str, RecordKindSpec] = {
    "task_start": RecordKindSpec("a task begins", "in_progress", required=("goal",), starts_task=True),
    "task_progress": RecordKindSpec("progress of a task", "in_progress", required=("summary",)),
    "run_start": RecordKindSpec("a tool is run", "started", required=("tool_name", "command", "why_chosen", "inputs")),
    "run_finish": RecordKindSpec("the result of a run", "completed", required=("summary",), needs_status=True),
    "evidence": RecordKindSpec("evidence for or against a claim", "recorded", required=("evidence_kind", "summary")),
    "review": RecordKindSpec("an opinion on a record", "recorded", relation="reviews"),
    "revision": RecordKindSpec("a new version of a record", "recorded", relation="revises", supersedes_parent=True),
    "verification": RecordKindSpec("a check of a record", "recorded", relation="verifies"),
    # Decisions are also made outside tasks and should be kept: such a decision is a thread of its own.
    "decision": RecordKindSpec("a decision", "recorded", needs_task=False),
    "task_finish": RecordKindSpec("a task ends", "completed"),
    "wiki_page": RecordKindSpec(
        "a page about a thing or an idea",
        "authored",
        required=("artifact_role", "related_artifact_ids", "summary", "content"),
        needs_task=False,
    ),
}

COMPUTED_FIELDS = frozenset(
    {"promotion_state", "promotion", "trust_tier", "trust", "tier", "verified_by", "verified", "digest_key", "tainted"}
)
"""Fields that other programs let a writer set, but that lorelog computes."""


def allowed_fields(kind: str) -> tuple[str, ...]:
    return tuple(name for name in FIELDS if name != "content" or kind == "wiki_page")


def check_fields(kind: str, fields: Mapping[str, Json]) -> None:
    """Raise UsageError for a kind that cannot be written, or for fields that it does not accept."""
    rules = _kind_rules(kind)
    allowed = allowed_fields(kind)
    for name, value in fields.items():
        if name not in allowed:
            raise _unknown_name_error(f"{with_article(kind)} has no field {name!r}", name, allowed)
        _check_value(name, FIELDS[name].type, value)
    for name in rules.required:
        if not _is_filled(fields.get(name)):
            raise UsageError(f"{with_article(kind)} needs {name!r}", hint=f"{name}: {FIELDS[name].description}")
    if kind != "wiki_page":
        return
    role = str(fields["artifact_role"])
    if role not in PAGE_ROLES:
        raise _unknown_name_error(f"{role!r} is not a role of a page", role, PAGE_ROLES)
    for name, max_bytes in (("summary", MAX_SUMMARY_BYTES), ("content", MAX_CONTENT_BYTES)):
        if len(str(fields[name]).encode("utf-8", "replace")) > max_bytes:
            raise UsageError(f"the {name} of a page is too long", hint=f"the limit is {max_bytes} bytes")


def check_kind(kind: str) -> None:
    """Raise UsageError, with the nearest name, for an unknown kind."""
    if kind not in KINDS:
        raise _unknown_name_error(f"{kind!r} is not a kind of record", kind, tuple(KINDS))


def check_draft(draft: RecordDraft) -> None:
    """Raise UsageError for a draft that is invalid regardless of the ledger's content."""
    check_fields(draft.kind, draft.fields)
    rules = KINDS[draft.kind]
    for name in _ID_FIELDS:
        value = getattr(draft, name)
        if value and not _IDENTIFIER.fullmatch(value):
            raise UsageError(f"{value!r} cannot be the {name} of a record", hint="ids must not contain spaces")
    if rules.needs_task and not draft.task and not is_reply(draft):
        raise UsageError(f"{with_article(draft.kind)} needs a task", hint="give a task, or reply to a record of one")
    if not draft.status:
        raise UsageError(f"{with_article(draft.kind)} needs a status", hint="such as completed, failed or cancelled")
    if draft.origin not in ORIGINS:
        raise _unknown_name_error(f"{draft.origin!r} is not an origin of a record", draft.origin, ORIGINS)
    if draft.at and not _TIMESTAMP.fullmatch(draft.at):
        raise UsageError(f"{draft.at!r} is not a valid time", hint="use the form 2026-03-05T14:30:00.000Z")
    if draft.signature and not (draft.id and draft.at):
        raise UsageError(
            "a signed record needs its id and its time", hint="a signature covers both; set them before signing"
        )


def is_reply(draft: RecordDraft) -> bool:
    """Return True if a draft is about another record; a reply to a decision without a task needs no task either."""
    return bool(draft.reply_to) and draft.kind in {"evidence", "review", "revision", "verification"}


def complete_draft(draft: RecordDraft, parent: Record | None = None) -> RecordDraft:
    """Return a draft with empty fields filled from its kind and from the record it replies to.

    Task, project, thread and challenge come from the parent, but the start of a task gets a new task. The first thread of
    a task has the task's id; a record without a task uses its own id, if it has one yet.
    """
    rules = _kind_rules(draft.kind)
    task, project, thread = draft.task, draft.project, draft.thread
    fields = dict(draft.fields)
    relation = draft.relation
    if rules.starts_task and not task:
        task = new_id()
    if parent is not None:
        task, project, thread = task or parent.task, project or parent.project, thread or parent.thread
        relation = relation or rules.relation
        if parent.text("challenge_id"):
            fields.setdefault("challenge_id", parent.text("challenge_id"))
    return replace(
        draft,
        task=task,
        project=project,
        thread=thread or task or draft.id,
        relation=relation,
        status=draft.status or ("" if rules.needs_status else rules.status),
        supersedes=draft.supersedes
        or (draft.reply_to if rules.supersedes_parent and relation == rules.relation else ""),
        fields=fields,
    )


def _kind_rules(kind: str) -> RecordKindSpec:
    if kind == DIGEST_KIND:
        raise UsageError("digests are compiled from records and cannot be written", hint="write records instead")
    if kind == REDACTION_KIND:
        raise UsageError("redaction records are written by the ledger only", hint="use 'lorelog forget'")
    check_kind(kind)
    return KINDS[kind]


def _check_value(name: str, kind: FieldType, value: Json) -> None:
    if exceeds_max_nesting(value):
        raise UsageError(f"{name!r} is nested too deeply", hint=f"the limit is {MAX_NESTING} levels")
    expected, type_ = _TYPES[kind]
    try:
        convert(value, type_)
    except ValidationError as error:
        shown = repr(value) if len(repr(value)) <= 60 else repr(value)[:57] + "…"
        raise UsageError(f"{name!r} cannot be {shown}: {error}", hint=f"{name}: {expected}") from error


def _is_filled(value: Json) -> bool:
    items = value if isinstance(value, list) else [value]
    return any(item.strip() if isinstance(item, str) else item not in (None, {}) for item in items)


def _object_type(required: tuple[str, ...], optional: tuple[str, ...]) -> Any:
    filled = Annotated[str, Meta(pattern=r"\S")]
    fields: list[Any] = [*((name, filled) for name in required), *((name, str, "") for name in optional)]
    return defstruct("FieldPart", fields, forbid_unknown_fields=True)


_PROVENANCE_KEYS = ("uri", "repo", "commit", "path", "tool_name", "tool_version", "tool_call_id")
_TYPES: Mapping[FieldType, tuple[str, Any]] = {
    FieldType.TEXT: ("a text", str),
    FieldType.TEXTS: ("a list of texts", list[str]),
    FieldType.IDS: ("a list of ids of records", list[Annotated[str, Meta(pattern=rf"\A{_IDENTIFIER.pattern}\Z")]]),
    FieldType.NUMBER: ("a number", int | float),
    FieldType.SHARE: ("a number from 0 to 1", Annotated[float, Meta(ge=0, le=1)]),
    FieldType.OBJECT: ("an object", dict),
    FieldType.VALUE: ("a text, a number or an object", str | int | float | dict),
    FieldType.DATASETS: (
        "a list of objects with name, version and description",
        list.__class_getitem__(_object_type(("name",), ("version", "description"))),
    ),
    FieldType.ENTITIES: (
        "a list of objects with name, entity_type and role",
        list.__class_getitem__(_object_type(("name", "entity_type"), ("role",))),
    ),
    FieldType.PROVENANCE: (f"an object with {', '.join(_PROVENANCE_KEYS)}", _object_type((), _PROVENANCE_KEYS)),
}
"""How each type is described, and its type for msgspec."""


def _unknown_name_error(message: str, name: str, allowed: tuple[str, ...]) -> UsageError:
    if name in COMPUTED_FIELDS:
        return UsageError(message, hint="trust is computed from the ledger and cannot be set")
    near = nearest_name(name, allowed, cutoff=0.5)
    if near:
        return UsageError(message, hint=f"did you mean {near!r}?")
    return UsageError(message, hint="known: " + ", ".join(allowed))


_UNLABELLED_FIELDS = ("goal", "summary", "scientific_question", "hypothesis", "content")
"""Fields that state what the record is about; a label in front of them adds nothing."""
_UNSEARCHED_FIELDS = frozenset(
    {"related_artifact_ids", "parent_task_id", "challenge_id", "allowed_tools", "policy_tags"}
)
"""Ids and policies, which are not useful search terms."""


def search_text(record: Record) -> str:
    """Return the searchable text of a record: the main fields first, then the others with their names."""
    if record.redacted:  # hashes are not useful search terms
        return f"{record.kind.replace('_', ' ')}: redacted"
    texts = {
        name: text
        for name in FIELDS
        if name not in _UNSEARCHED_FIELDS and (text := _value_text(record.fields.get(name)))
    }
    lines = [texts.pop(name) for name in _UNLABELLED_FIELDS if name in texts]
    lines += [f"{name.replace('_', ' ')}: {text}" for name, text in texts.items()]
    usual = KINDS[record.kind].status if record.kind in KINDS else ""
    if record.status and record.status != usual:
        lines.append(f"status: {record.status.replace('_', ' ')}")
    return "\n".join(lines) or record.kind.replace("_", " ")


def _value_text(value: Json) -> str:
    if isinstance(value, list):
        return "; ".join(filter(None, map(_value_text, value)))
    if isinstance(value, dict):
        return ", ".join(f"{name} {text}" for name, part in value.items() if (text := _value_text(part)))
    return "" if value is None or isinstance(value, bool) else str(value).strip()


REDACTED_KEY = "redacted"
"""Key of a redacted line with the hash of the original line."""
HASH_PATTERN = re.compile(r"[0-9a-f]{64}")
_MARKER = "sha256:"
USUAL_STATUSES = frozenset(
    {spec.status for spec in KINDS.values()}
    | {"completed", "failed", "cancelled", "blocked", "abandoned", "done", "open", "pending", "generated"}
)
"""Statuses that say nothing about a record's text; they stay when it is redacted."""
_RELATIONS = frozenset({spec.relation for spec in KINDS.values()} | {"supersedes", "related"})
_KEPT_LINE_KEYS = (
    *("v", "seq", "id", "prev", "at", "kind", "more", "project", "task", "thread", "reply_to", "supersedes"),
    *("origin", "supports_claim"),
)
_KEPT_TEXTS: Mapping[str, Callable[[str], object]] = {
    # Withdrawals are found by the writer's name.
    "agent": lambda name: len(name) <= 100 and not any(char < " " or char == "\x7f" for char in name),
    "session": _IDENTIFIER.fullmatch,
    "status": USUAL_STATUSES.__contains__,
    "relation": _RELATIONS.__contains__,
}
"""Texts of a line that stay if they have the form of a name or an id, or are one of the usual words."""

TextReplacer = Callable[[str, str], str]
"""Returns what stands in place of a text, given its path in the line."""


def redact_values(values: Mapping[str, Any], raw: bytes) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values of the redacted line and the markers of the removed texts, given the original line."""
    removed: dict[str, str] = {}

    def replace(path: str, text: str) -> str:
        removed[path] = _MARKER + hashlib.sha256(b"\0".join((raw, path.encode(), text.encode()))).hexdigest()
        return removed[path]

    redacted = _replace_texts(values, replace)
    redacted[REDACTED_KEY] = hashlib.sha256(raw).hexdigest()
    return redacted, removed


def holds_text(values: Mapping[str, Any]) -> bool:
    """Return True if a line that claims to be redacted holds anything that a redaction removes."""

    def keep_marker(path: str, text: str) -> str:
        return text if text.startswith(_MARKER) and HASH_PATTERN.fullmatch(text[len(_MARKER) :]) else ""

    expected = _replace_texts(values, keep_marker)
    expected |= {name: values[name] for name in ("#", REDACTED_KEY) if name in values}
    return expected != dict(values)


def _replace_texts(values: Mapping[str, Any], replace: TextReplacer) -> dict[str, Any]:
    """Return the values of a line with each text replaced, and without the values of other types that hold text."""
    kept = {name: values[name] for name in _KEPT_LINE_KEYS if name in values}
    for name, is_kept in _KEPT_TEXTS.items():
        if name in values:
            kept[name] = values[name] if is_kept(values[name]) else replace(name, values[name])
    replaced = {name: _replace_value(name, value, replace) for name, value in values.get("fields", {}).items()}
    if fields := {name: value for name, value in replaced.items() if value is not None}:
        kept["fields"] = fields
    return kept


def _replace_value(name: str, value: Json, replace: TextReplacer) -> Json:
    """Return a field without its text, in a form that its kind still accepts; None to leave the field out."""
    type_ = FIELDS[name].type if name in FIELDS else None
    path = f"fields.{name}"
    if type_ is FieldType.SHARE and isinstance(value, int | float):
        return value
    if type_ is FieldType.IDS and isinstance(value, list):
        return [item for item in value if isinstance(item, str) and _IDENTIFIER.fullmatch(item)]
    if isinstance(value, str) and type_ in {FieldType.TEXT, FieldType.VALUE}:
        is_kept = (name == "artifact_role" and value in PAGE_ROLES) or (
            name == "parent_task_id" and _IDENTIFIER.fullmatch(value)
        )
        return value if is_kept else replace(path, value)
    if type_ is FieldType.TEXTS and isinstance(value, list) and all(isinstance(item, str) for item in value):
        return [replace(f"{path}[{place}]", str(item)) for place, item in enumerate(value)]
    # Numbers, objects and unknown fields: names and values in them are the caller's as well.
    replace(path, json.dumps(value, ensure_ascii=False, sort_keys=True))
    return None
