"""What a record says, as a text to be searched: what it tells first and plainly, then each further field under its name."""

from __future__ import annotations

from lorelog.core.record import Json, Record
from lorelog.records.kinds import FIELDS, KINDS

_PLAIN = ("goal", "summary", "scientific_question", "hypothesis", "content")
"""What a record is about, whatever the field is called: a name in front of it says nothing."""
_LEFT_OUT = frozenset({"related_artifact_ids", "parent_task_id", "challenge_id", "allowed_tools", "policy_tags"})
"""Ids and rules: nobody looks for a record by their words."""


def search_text(record: Record) -> str:
    """Return the words that a record is found by."""
    said = {name: text for name in FIELDS if name not in _LEFT_OUT and (text := _said(record.fields.get(name)))}
    lines = [said.pop(name) for name in _PLAIN if name in said]
    lines += [f"{name.replace('_', ' ')}: {text}" for name, text in said.items()]
    usual = KINDS[record.kind].status if record.kind in KINDS else ""
    if record.status and record.status != usual:
        lines.append(f"status: {record.status.replace('_', ' ')}")
    return "\n".join(lines) or record.kind.replace("_", " ")


def _said(value: Json) -> str:
    if isinstance(value, list):
        return "; ".join(filter(None, map(_said, value)))
    if isinstance(value, dict):
        return ", ".join(f"{name} {said}" for name, one in value.items() if (said := _said(one)))
    return "" if value is None or isinstance(value, bool) else str(value).strip()
