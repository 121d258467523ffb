"""What a record says, as a text to be searched: each field on its line, under its name, the most telling ones first."""

from __future__ import annotations

from recollect.core.record import Json, Record
from recollect.records.kinds import FIELDS

_FIRST = ("goal", "summary", "scientific_question", "hypothesis", "content", "next_step")
_LEFT_OUT = frozenset({"related_artifact_ids", "parent_task_id", "challenge_id", "allowed_tools", "policy_tags"})
"""Ids and rules: nobody looks for a record by their words."""


def search_text(record: Record) -> str:
    """Return the words that a record is found by."""
    lines = [f"{record.kind.replace('_', ' ')} ({record.status})" if record.status else record.kind.replace("_", " ")]
    for name in (*_FIRST, *(name for name in FIELDS if name not in _FIRST)):
        said = "" if name in _LEFT_OUT else _said(record.fields.get(name))
        if said:
            lines.append(f"{name.replace('_', ' ')}: {said}")
    return "\n".join(lines)


def _said(value: Json) -> str:
    if isinstance(value, list):
        return "; ".join(filter(None, map(_said, value)))
    if isinstance(value, dict):
        return ", ".join(f"{name} {said}" for name, one in value.items() if (said := _said(one)))
    return "" if value is None or isinstance(value, bool) else str(value).strip()
