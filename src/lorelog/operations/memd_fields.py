"""Translates the fields of memd's calls to ours, so that scripts and batches written for memd run unchanged.

memd, another program that keeps memories, has the same operations and calls some fields by other names. Its names apply
only to fields that the operation does not have. A field that selects or limits what is returned is translated or
refused, never ignored. Fields that only tune memd's own ranking or the shape of its replies are dropped.

`project_id` is a name in memd and a directory here. A path is taken as one; a name means the project of the caller's
directory, because memd's projects have no directory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from lorelog.core.errors import UsageError

_NAMES = {
    "tenant_id": "tenant",
    "agent_id": "writer",
    "chunk_id": "id",
    "old_chunk_id": "id",
    "new_text": "text",
    "chunks": "memories",
    "expires_at_ms": "expires",
    "review_after_ms": "review_after",
}
_DROPPED = frozenset(
    {
        *("debug_tiers", "oversample_factor", "expand_event_siblings", "compact", "include_text", "include_artifact"),
        *("include_matched_text", "candidate_multiplier", "dedupe_by_source", "render_event_time", "include_tiered"),
        *("include_recent", "include_examples", "include_history", "supersede_near_duplicates"),
    }
)
_MAX_TAG = 150
_ITEM_FIELDS = frozenset({"text", "type", "tags", "origin", "expires", "cues"})
_ADD_MODES = frozenset({"conversation", "document"})


def translate_memd_fields(operation: str, arguments: Mapping[str, Any], known: frozenset[str]) -> dict[str, Any]:
    """Return arguments with memd's fields replaced by ours. A field given under both names stays an error."""
    ours = {name: value for name, value in arguments.items() if name in known}
    for name, value in arguments.items():
        if name in ours:
            continue
        renamed = _NAMES.get(name, "")
        if renamed in known and renamed not in arguments:
            ours[renamed] = _CONVERSIONS.get(name, _same)(value)
        elif value is None and name in _FORGIVEN:
            continue
        elif name in _TRANSLATIONS and isinstance(value, _TRANSLATIONS[name][0]):
            _add_fields(ours, name, _TRANSLATIONS[name][1](operation, value), known)
        elif name not in _DROPPED:
            ours[name] = value
    return ours


def _same(value: Any) -> Any:
    return value


def _translate_items(value: Any) -> Any:
    return list(map(_translate_item, value)) if isinstance(value, list) else value


def _translate_item(item: Any) -> Any:
    """Return one memory of a batch with our fields. Its project is that of the batch."""
    if not isinstance(item, dict):
        return item
    own = {name: value for name, value in item.items() if name not in {"project_id", "tenant_id"}}
    return translate_memd_fields("memory.add", own, _ITEM_FIELDS)


def _add_fields(ours: dict[str, Any], name: str, fields: Mapping[str, Any], known: frozenset[str]) -> None:
    for field, value in fields.items():
        if field not in known or (field in ours and not isinstance(value, list)):
            raise UsageError(f"{name} is not supported here", hint="'lorelog ops OPERATION' lists the fields")
        ours[field] = [*ours.get(field, ()), *value] if isinstance(value, list) else value


def _project(_: str, value: str) -> dict[str, Any]:
    return {"project": value} if value.startswith(("/", "~", "./", "../")) else {}


def _mode(operation: str, value: str) -> dict[str, Any]:
    if value == "generic" or (operation.startswith("memory.add") and value in _ADD_MODES):
        return {}
    prefix = "context" if value == "brief_project" else "task" if value == "resume_task" else "artifact"
    name = "task.resume" if prefix == "task" else f"{prefix}.{value}"
    raise UsageError(f"mode {value!r} is not supported here", hint=f"call {name}, or leave out mode")


def _filters(_: str, value: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, content in value.items():
        if name == "episode_id" and isinstance(content, str):
            fields["tags"] = [f"episode:{content}"]
        elif name == "time_range" and isinstance(content, dict):
            fields |= {"since": _day(content.get("from")), "until": _day(content.get("to"))}
        else:
            fields[name] = content or None
    return {name: content for name, content in fields.items() if content is not None}


def _day(moment: object) -> str | None:
    """Return the day of memd's ISO moment. Days are the finest that memories are filtered by."""
    return moment[:10] if isinstance(moment, str) else None


def _day_of(milliseconds: Any) -> Any:
    if not isinstance(milliseconds, int):
        return milliseconds
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        raise UsageError(f"{milliseconds} is not a time in milliseconds since 1970") from None


def _source(_: str, value: dict[str, Any]) -> dict[str, Any]:
    """Keep where a memory comes from as a tag, if it fits into one."""
    place = next((value[name] for name in ("path", "uri") if isinstance(value.get(name), str)), "")
    return (
        {"tags": [f"source:{place}"]} if place and len(place) <= _MAX_TAG and not any(map(str.isspace, place)) else {}
    )


_CONVERSIONS: Mapping[str, Callable[[Any], Any]] = {
    "chunks": _translate_items,
    "expires_at_ms": _day_of,
    "review_after_ms": _day_of,
}
_TRANSLATIONS: Mapping[str, tuple[type, Callable[[str, Any], dict[str, Any]]]] = {
    "project_id": (str, _project),
    "mode": (str, _mode),
    "filters": (dict, _filters),
    "source": (dict, _source),
    "episode_id": (str, lambda _, value: {"tags": [f"episode:{value}"]}),
}
_FORGIVEN = frozenset((*_NAMES, *_DROPPED, *_TRANSLATIONS))
"""Fields of memd that may be null in any call: some clients send every field they know."""
