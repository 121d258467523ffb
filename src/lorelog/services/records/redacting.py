"""No secret is ever written to a ledger: it is append-only, so what is in it stays in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lorelog.core.record import Draft, Json
from lorelog.ingest.redact import redact

_TEXTS = ("agent", "session", "thread", "relation", "status")
"""What a writer words beyond the fields. Ids of records and tasks are not worded: they were looked up."""
_REFERENCES = frozenset({"related_artifact_ids", "parent_task_id"})


def redacted(draft: Draft, patterns: Sequence[str] = ()) -> tuple[Draft, Mapping[str, int]]:
    """Return a draft without its secrets, and how many of each kind were taken out."""
    taken: Counter[str] = Counter()

    def clean(text: str) -> str:
        found = redact(text, patterns)
        taken.update(found.kinds)
        return found.text

    def of(value: Json, name: str = "") -> Json:
        if isinstance(value, str):
            return under(name, value) if name else clean(value)
        if isinstance(value, list):
            return [of(one, name) for one in value]
        if isinstance(value, dict):
            return {clean(key): of(one, key) for key, one in value.items()}
        return value

    def under(name: str, text: str) -> str:
        # Many a secret is known only by the name that it is given to, as in {"password": …}.
        whole = clean(f"{name}={text}")
        return whole.removeprefix(f"{name}=") if whole.startswith(f"{name}=") else clean(text)

    fields = {name: value if name in _REFERENCES else of(value) for name, value in draft.fields.items()}
    texts: dict[str, Any] = {name: clean(getattr(draft, name)) for name in _TEXTS if getattr(draft, name)}
    return replace(draft, fields=fields, **texts), dict(taken)
