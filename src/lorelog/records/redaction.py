"""Redacted lines: which texts of a record are removed, what stands in their place, and who vouches for it.

A text is replaced by a marker, `sha256:` and a hash of the text together with the whole original line. Whoever has the
original line can prove that it was there; whoever guesses one text must guess all the others too. Ids, kinds, times,
relations and the writer's name stay. The line keeps the hash of the original line as `redacted`, so that the next line
still follows it, and loses its signature, which cannot be checked without the text.

A redacted line counts only if a later record of kind `redaction` names the hash of the line it was and the hash of the
line it is now. Lines are not padded: their length would tell the length of the text.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct, field

from lorelog.core.record import REDACTION_KIND, Json, Record
from lorelog.records.kinds import FIELDS, KINDS, PAGE_ROLES, FieldType

REDACTED_KEY = "redacted"
"""Key of a redacted line with the hash of the original line."""
HASH_PATTERN = re.compile(r"[0-9a-f]{64}")
MARKER_PATTERN = re.compile(r"sha256:[0-9a-f]{64}")
MAX_REDACTIONS_PER_RECORD = 1_000
_ID_PATTERN = re.compile(r"[^\s\x00-\x1f\x7f]{1,200}")
_NAME_PATTERN = re.compile(r"[^\x00-\x1f\x7f]{1,100}")
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
    "agent": _NAME_PATTERN.fullmatch,  # withdrawals are found by the writer's name
    "session": _ID_PATTERN.fullmatch,
    "status": USUAL_STATUSES.__contains__,
    "relation": _RELATIONS.__contains__,
}
"""Texts of a line that stay if they have the form of a name or an id, or are one of the usual words."""

TextReplacer = Callable[[str, str], str]
"""Returns what stands in place of a text, given its path in the line."""


class LineRedaction(Struct, frozen=True):
    """A line whose texts are removed, as its redaction record names it."""

    id: str
    seq: int
    original: str
    """Hash of the original line."""
    redacted: str
    """Hash of the redacted line."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Markers of the removed texts, by their path in the line."""

    def to_json(self) -> dict[str, Json]:
        """Return the entry of the redaction record."""
        return {
            "id": self.id,
            "seq": self.seq,
            "original": self.original,
            "redacted": self.redacted,
            "texts": dict(self.texts),
        }


def redact_values(values: Mapping[str, Any], raw: bytes) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values of the redacted line and the markers of the removed texts, given the original line."""
    removed: dict[str, str] = {}

    def replace(path: str, text: str) -> str:
        removed[path] = "sha256:" + hashlib.sha256(b"\0".join((raw, path.encode(), text.encode()))).hexdigest()
        return removed[path]

    redacted = _replace_texts(values, replace)
    redacted[REDACTED_KEY] = hashlib.sha256(raw).hexdigest()
    return redacted, removed


def holds_text(values: Mapping[str, Any]) -> bool:
    """Return True if a line that claims to be redacted holds anything that a redaction removes."""
    expected = _replace_texts(values, lambda _, text: text if MARKER_PATTERN.fullmatch(text) else "")
    expected |= {name: values[name] for name in ("#", REDACTED_KEY) if name in values}
    return expected != dict(values)


def parse_redactions(record: Record) -> list[LineRedaction]:
    """Return the entries of a redaction record; none for other records and for entries of another form."""
    entries = record.fields.get("redactions") if record.kind == REDACTION_KIND else None
    redactions: list[LineRedaction] = []
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, dict):
            continue
        id_, seq, hashes = entry.get("id"), entry.get("seq"), (entry.get("original"), entry.get("redacted"))
        original, redacted = (text if isinstance(text, str) and HASH_PATTERN.fullmatch(text) else "" for text in hashes)
        # It must come after what it names: nothing vouches for a line before that line exists.
        if isinstance(id_, str) and isinstance(seq, int) and original and redacted and seq < record.seq:
            redactions.append(LineRedaction(id_, seq, original, redacted))
    return redactions


class RedactionIndex:
    """The entries of a ledger's redaction records, by the hash of the original line."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._by_original: dict[str, list[LineRedaction]] = {}
        for record in records:
            for redaction in parse_redactions(record):
                self._by_original.setdefault(redaction.original, []).append(redaction)

    def find(self, id_: str, seq: int, original: str) -> list[LineRedaction]:
        """Return the entries for a line."""
        return [entry for entry in self._by_original.get(original, ()) if (entry.id, entry.seq) == (id_, seq)]

    def fault(self, values: Mapping[str, Any], line_hash: str) -> str:
        """Return why a redacted line does not count; empty if it does."""
        entries = self.find(values["id"], values["seq"], values[REDACTED_KEY])
        if not entries:
            return "it was redacted, but no later record names its redaction"
        if all(entry.redacted != line_hash for entry in entries):
            return "it is not the line that its redaction record names"
        return "it is marked as redacted, but holds text" if holds_text(values) else ""


def _replace_texts(values: Mapping[str, Any], replace: TextReplacer) -> dict[str, Any]:
    """Return the values of a line with each text replaced, and without the values of other types that hold text."""
    kept = {name: values[name] for name in _KEPT_LINE_KEYS if name in values}
    for name, is_kept in _KEPT_TEXTS.items():
        if name in values:
            kept[name] = values[name] if is_kept(values[name]) else replace(name, values[name])
    fields: dict[str, Any] = {}
    for name, value in values.get("fields", {}).items():
        replaced = _replace_value(name, value, replace)
        if replaced is not None:
            fields[name] = replaced
    if fields:
        kept["fields"] = fields
    return kept


def _replace_value(name: str, value: Json, replace: TextReplacer) -> Json:
    """Return a field without its text, in a form that its kind still accepts; None to leave the field out."""
    type_ = FIELDS[name].type if name in FIELDS else None
    path = f"fields.{name}"
    if type_ is FieldType.SHARE and isinstance(value, int | float):
        return value
    if type_ is FieldType.IDS and isinstance(value, list):
        return [item for item in value if isinstance(item, str) and _ID_PATTERN.fullmatch(item)]
    if isinstance(value, str) and type_ in {FieldType.TEXT, FieldType.VALUE}:
        is_kept = (name == "artifact_role" and value in PAGE_ROLES) or (
            name == "parent_task_id" and _ID_PATTERN.fullmatch(value)
        )
        return value if is_kept else replace(path, value)
    if type_ is FieldType.TEXTS and isinstance(value, list) and all(isinstance(item, str) for item in value):
        return [replace(f"{path}[{place}]", str(item)) for place, item in enumerate(value)]
    # Numbers, objects and unknown fields: names and values in them are the caller's as well.
    replace(path, json.dumps(value, ensure_ascii=False, sort_keys=True))
    return None
