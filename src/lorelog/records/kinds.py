"""The kinds of records and their fields: one table, from which requests, checks and pages are made.

Fields bear the names of memd's artifacts, so that what was written for memd can be said here. Every kind takes every field
but `content`, which is a page's; `usual` names those that a kind is mostly made of. An unknown name is refused, with the
nearest known one, where memd passes over it: a misspelt field would be lost without a word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from lorelog.core.errors import UsageError
from lorelog.core.identity import new_id
from lorelog.core.record import DEEPEST, DIGEST, ORIGINS, Draft, Json, Record, is_too_deep

MOST_SUMMARY = 500
MOST_CONTENT = 256 * 1024
PAGE_ROLES = ("concept", "entity")
_AT = re.compile(r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{3}Z")
_NAME = re.compile(r"[^\s\x00-\x1f\x7f]{1,200}")
_IDENTITIES = ("id", "task", "thread", "reply_to", "supersedes")


class Type(StrEnum):
    """What the value of a field must be."""

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


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record: its type, and what it is for."""

    type: Type
    says: str


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of record."""

    says: str
    status: str
    """What its status is where none is given."""
    required: tuple[str, ...] = ()
    usual: tuple[str, ...] = ()
    """Fields that it is mostly made of, beyond the required ones."""
    relation: str = "reply_to"
    """How it relates to what it replies to, where nothing else is said."""
    needs_task: bool = True
    founds: bool = False
    """Whether it begins the task that it names, and names one itself where none is given."""
    needs_status: bool = False
    """Whether a status must be given."""
    revises: bool = False
    """Whether it supersedes what it replies to, where nothing else is said."""


FIELDS: Mapping[str, Field] = {
    "goal": Field(Type.TEXT, "what the task is for"),
    "motivation": Field(Type.TEXT, "why it is worth doing"),
    "hypothesis": Field(Type.TEXT, "what is expected to be true"),
    "scientific_question": Field(Type.TEXT, "the question to be answered"),
    "expected_outputs": Field(Type.TEXTS, "what there should be in the end"),
    "method_summary": Field(Type.TEXT, "how it was done"),
    "summary": Field(Type.TEXT, "what happened, or what is held to be true"),
    "next_step": Field(Type.TEXT, "what is to be done next"),
    "blockers": Field(Type.TEXTS, "what stands in the way"),
    "what_worked": Field(Type.TEXTS, "what worked"),
    "what_failed": Field(Type.TEXTS, "what was tried and failed"),
    "validation": Field(Type.TEXTS, "how it was checked"),
    "uncertainty": Field(Type.TEXTS, "what is not certain"),
    "followups": Field(Type.TEXTS, "what is left to be done"),
    "confidence": Field(Type.SHARE, "how sure the writer is, from 0 to 1"),
    "evidence_kind": Field(Type.TEXT, "what sort of evidence it is"),
    "metric_name": Field(Type.TEXT, "what was measured"),
    "metric_value": Field(Type.NUMBER, "what the measurement gave"),
    "metrics": Field(Type.OBJECT, "measurements by name"),
    "tool_name": Field(Type.TEXT, "the tool that was run"),
    "tool_version": Field(Type.TEXT, "its version"),
    "command": Field(Type.TEXT, "the command that was run"),
    "parameters": Field(Type.OBJECT, "what it was run with"),
    "inputs": Field(Type.TEXTS, "what it read"),
    "outputs": Field(Type.TEXTS, "what it made"),
    "why_chosen": Field(Type.TEXT, "why this tool and this way"),
    "requested_action": Field(Type.TEXT, "what the writer asks others to do"),
    "verification_status": Field(Type.TEXT, "the writer's verdict, in a word; it moves no tier"),
    "approval_state": Field(Type.TEXT, "whether somebody approved; it moves no tier"),
    "artifact_role": Field(Type.TEXT, "what part it plays; of a page: concept or entity"),
    "content": Field(Type.TEXT, "the text of a page, in Markdown"),
    "challenge_id": Field(Type.TEXT, "the challenge that it belongs to"),
    "parent_task_id": Field(Type.TEXT, "the task that this one is a part of"),
    "related_artifact_ids": Field(Type.IDS, "records that it rests on"),
    "contributors": Field(Type.TEXTS, "who else took part"),
    "dataset_refs": Field(Type.DATASETS, "data that it is about: name, version, description"),
    "entity_refs": Field(Type.ENTITIES, "things that it is about: name, entity_type, role"),
    "provenance": Field(Type.PROVENANCE, "where it comes from: uri, repo, commit, path, tool_name, …"),
    "compute_budget": Field(Type.VALUE, "what it may cost"),
    "cost_actual": Field(Type.VALUE, "what it did cost"),
    "data_access_level": Field(Type.TEXT, "who may see the data"),
    "policy_tags": Field(Type.TEXTS, "rules that apply"),
    "allowed_tools": Field(Type.TEXTS, "tools that may be used"),
    "timestamp_observed": Field(Type.TEXT, "when it was observed"),
}

_VERDICT = ("summary", "validation", "uncertainty", "confidence", "verification_status", "related_artifact_ids")

KINDS: Mapping[str, Kind] = {
    "task_start": Kind(
        "a task begins",
        "in_progress",
        required=("goal",),
        usual=("motivation", "hypothesis", "scientific_question", "expected_outputs", "parent_task_id"),
        founds=True,
    ),
    "task_progress": Kind(
        "how far a task is", "in_progress", required=("summary", "next_step"), usual=("blockers", "what_failed")
    ),
    "run_start": Kind(
        "a tool is run",
        "started",
        required=("tool_name", "command", "why_chosen", "inputs"),
        usual=("tool_version", "parameters", "summary"),
    ),
    "run_finish": Kind(
        "what a run came to",
        "completed",
        required=("summary",),
        usual=("tool_name", "command", "outputs", "metrics", "validation"),
        needs_status=True,
    ),
    "evidence": Kind(
        "something that speaks for or against",
        "recorded",
        required=("evidence_kind", "summary"),
        usual=("metric_name", "metric_value", "metrics"),
    ),
    "review": Kind("an opinion on a record", "recorded", usual=_VERDICT, relation="reviews"),
    "revision": Kind("a record said anew", "recorded", usual=_VERDICT, relation="revises", revises=True),
    "verification": Kind("a check of a record", "recorded", usual=_VERDICT, relation="verifies"),
    # People decide outside tasks, too, and what they decide should be kept: then it is a thread of its own.
    "decision": Kind(
        "what was decided", "recorded", usual=(*_VERDICT, "motivation", "approval_state"), needs_task=False
    ),
    "task_finish": Kind(
        "a task ends",
        "completed",
        usual=("goal", "what_worked", "what_failed", "validation", "uncertainty", "followups", "confidence", "summary"),
    ),
    "wiki_page": Kind(
        "a page on a thing or an idea",
        "authored",
        required=("artifact_role", "related_artifact_ids", "summary", "content"),
        needs_task=False,
    ),
}

_PARTS: Mapping[Type, tuple[tuple[str, ...], tuple[str, ...]]] = {
    Type.DATASETS: (("name",), ("version", "description")),
    Type.ENTITIES: (("name", "entity_type"), ("role",)),
    Type.PROVENANCE: ((), ("uri", "repo", "commit", "path", "tool_name", "tool_version", "tool_call_id")),
}
COMPUTED = frozenset(
    {"promotion_state", "promotion", "trust_tier", "trust", "tier", "verified_by", "verified", "digest_key", "tainted"}
)
"""What other programs let a writer say of a record's worth, or what ours says of it."""


def allowed(kind: str) -> tuple[str, ...]:
    """Return the fields that a kind takes."""
    return tuple(name for name in FIELDS if name != "content" or kind == "wiki_page")


def check(kind: str, fields: Mapping[str, Json]) -> None:
    """Raise UsageError for a kind that nobody may write, or for fields that it does not take."""
    rules = _rules_of(kind)
    known = allowed(kind)
    for name, value in fields.items():
        if name not in known:
            raise _unknown(f"a {kind} has no field {name!r}", name, known)
        _check_value(name, FIELDS[name].type, value)
    for name in rules.required:
        if not _is_said(fields.get(name)):
            raise UsageError(f"a {kind} needs {name!r}", hint=f"{name}: {FIELDS[name].says}")
    if kind == "wiki_page":
        _check_page(fields)


def check_kind(kind: str) -> None:
    """Raise UsageError, with the nearest name, for a kind that no record has."""
    if kind not in KINDS:
        raise _unknown(f"{kind!r} is no kind of record", kind, tuple(KINDS))


def check_draft(draft: Draft) -> None:
    """Raise UsageError for a draft that cannot become a record, whatever the ledger holds."""
    check(draft.kind, draft.fields)
    rules = KINDS[draft.kind]
    for name in _IDENTITIES:
        value = getattr(draft, name)
        if value and not _NAME.fullmatch(value):
            raise UsageError(f"{value!r} cannot be the {name} of a record", hint="an id has no spaces")
    if rules.needs_task and not draft.task and not is_reply(draft):
        raise UsageError(f"a {draft.kind} needs a task", hint="name the task, or reply to a record of it")
    if not draft.status:
        raise UsageError(f"a {draft.kind} needs a status", hint="such as completed, failed or cancelled")
    if draft.origin not in ORIGINS:
        raise _unknown(f"{draft.origin!r} is no origin of a record", draft.origin, ORIGINS)
    if draft.at and not _AT.fullmatch(draft.at):
        raise UsageError(f"{draft.at!r} is no time of a record", hint="write it like 2026-03-05T14:30:00.000Z")
    if draft.signature and not (draft.id and draft.at):
        raise UsageError(
            "a signed record needs its id and its time", hint="a signature covers both; set them before signing"
        )


def is_reply(draft: Draft) -> bool:
    """Say whether a draft is about another record: what is said to a decision without a task has none either."""
    return bool(draft.reply_to) and draft.kind in {"evidence", "review", "revision", "verification"}


def complete(draft: Draft, parent: Record | None = None) -> Draft:
    """Return a draft with what its kind and the record that it replies to say where it says nothing.

    Task, project, thread and challenge come from the parent, but a task's start has a task of its own; the first thread of a
    task bears its id, and so does that of a record without a task, if it has one yet.
    """
    rules = _rules_of(draft.kind)
    task, project, thread = draft.task, draft.project, draft.thread
    fields = dict(draft.fields)
    relation = draft.relation
    if rules.founds and not task:
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
        supersedes=draft.supersedes or (draft.reply_to if rules.revises and relation == rules.relation else ""),
        fields=fields,
    )


def _rules_of(kind: str) -> Kind:
    if kind == DIGEST:
        raise UsageError(
            "digests are compiled from records and cannot be written", hint="write the records; digests follow them"
        )
    check_kind(kind)
    return KINDS[kind]


def _check_value(name: str, kind: Type, value: Json) -> None:
    if is_too_deep(value):
        raise UsageError(f"{name!r} is nested too deeply", hint=f"at most {DEEPEST} levels")
    if not _FITS[kind](value):
        raise UsageError(f"{name!r} cannot be {_shown(value)}", hint=f"{name}: {_WANTED[kind]}")
    if kind in _PARTS:
        for part in value if isinstance(value, list) else [value]:
            _check_parts(name, kind, part)


def _check_parts(name: str, kind: Type, part: Json) -> None:
    required, optional = _PARTS[kind]
    if not isinstance(part, dict):
        raise UsageError(f"{name!r} cannot hold {_shown(part)}", hint=f"{name}: {_WANTED[kind]}")
    for key, value in part.items():
        if key not in (*required, *optional):
            raise _unknown(f"{name!r} has no part {key!r}", key, (*required, *optional))
        if not isinstance(value, str):
            raise UsageError(f"{key!r} of {name!r} cannot be {_shown(value)}", hint="it is a text")
    for key in required:
        if not _is_said(part.get(key)):
            raise UsageError(f"{name!r} needs {key!r} in each of its parts", hint=f"{name}: {_WANTED[kind]}")


def _check_page(fields: Mapping[str, Json]) -> None:
    if fields["artifact_role"] not in PAGE_ROLES:
        raise _unknown(f"{fields['artifact_role']!r} is no role of a page", str(fields["artifact_role"]), PAGE_ROLES)
    for name, most in (("summary", MOST_SUMMARY), ("content", MOST_CONTENT)):
        if len(str(fields[name]).encode("utf-8", "replace")) > most:
            raise UsageError(f"the {name} of a page is too long", hint=f"at most {most} bytes")


def _is_said(value: Json) -> bool:
    if isinstance(value, str):
        return bool(value.strip())
    texts = _texts(value)
    return any(map(str.strip, texts)) if texts is not None else bool(value)


def _texts(value: Json) -> list[str] | None:
    """Return a list of texts as one; None when it is none."""
    if not isinstance(value, list):
        return None
    texts = [one for one in value if isinstance(one, str)]
    return texts if len(texts) == len(value) else None


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_FITS: Mapping[Type, Callable[[Json], bool]] = {
    Type.TEXT: lambda value: isinstance(value, str),
    Type.TEXTS: lambda value: _texts(value) is not None,
    Type.IDS: lambda value: (ids := _texts(value)) is not None and all(map(_NAME.fullmatch, ids)),
    Type.NUMBER: _is_number,
    Type.SHARE: lambda value: isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1,
    Type.OBJECT: lambda value: isinstance(value, dict),
    Type.VALUE: lambda value: isinstance(value, str | dict) or _is_number(value),
    Type.DATASETS: lambda value: isinstance(value, list),
    Type.ENTITIES: lambda value: isinstance(value, list),
    Type.PROVENANCE: lambda value: isinstance(value, dict),
}
_WANTED = {
    Type.TEXT: "a text",
    Type.TEXTS: "a list of texts",
    Type.IDS: "a list of ids of records",
    Type.NUMBER: "a number",
    Type.SHARE: "a number from 0 to 1",
    Type.OBJECT: "an object",
    Type.VALUE: "a text, a number or an object",
    Type.DATASETS: "a list of objects with name, version and description",
    Type.ENTITIES: "a list of objects with name, entity_type and role",
    Type.PROVENANCE: "an object with uri, repo, commit, path, tool_name, tool_version, tool_call_id",
}


def _shown(value: Json) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def _unknown(message: str, name: str, known: tuple[str, ...]) -> UsageError:
    if name in COMPUTED:
        return UsageError(message, hint="trust is computed from the ledger, and cannot be given")
    from difflib import get_close_matches

    near = get_close_matches(name, known, n=1, cutoff=0.5)
    if near:
        return UsageError(message, hint=f"did you mean {near[0]!r}?")
    return UsageError(message, hint="known: " + ", ".join(known))
