"""Open Memory Format 1.0, as memd reads and writes it (https://fmschulz.github.io/memd/omf/).

A document with `memories`, each a text with tags and a time; what is ours alone stands under `extensions.lorelog`: the whole
record. Of others' documents only text, type and tags are taken: what they say of lifecycle and trust is not believed, whoever
they say they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any

from lorelog.core.errors import UsageError
from lorelog.core.record import Record
from lorelog.core.version import VERSION
from lorelog.ingest.transcripts.building import Tally
from lorelog.ingest.transcripts.documents import read_members
from lorelog.records.text import search_text
from lorelog.services.records.exchange_lines import Foreign, Incoming, Kept, compact, incoming, values_of

OMF = "1.0"
OURS = "lorelog"
_VERSION = 1
_MOST_TAGS = 100
_MOST_TEXT = 1_000_000
_TYPE = re.compile(r"[^\w.-]+"), re.compile(r"\w[\w.-]{0,63}")
_TAG = re.compile(r"[^\w.:/*@+-]+"), re.compile(r"\w[\w.:/*@+-]{0,199}")
"""What a journal does not take in a type or a tag, and what it does."""
_ASIDE = frozenset({"archived", "expired", "superseded", "deleted"})


def write_omf(records: Iterator[Record], memories: Iterable[Kept] = ()) -> Iterator[str]:
    """Yield a document, one item a line."""
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    source = compact({"app": OURS, "version": VERSION})
    yield f'{{"omf":"{OMF}","exported_at":"{now}","source":{source},"memories":['
    separator = "\n"
    for item in _items(records, memories):
        yield separator + compact(item)
        separator = ",\n"
    yield "\n]}\n"


def read_omf(path: str) -> Iterator[Incoming]:
    """Yield what a document brings. Raise UsageError for one of another format; what comes before is yielded all the same."""
    tally = Tally()
    version: object = None
    place = 0
    for name, value in read_members(path, frozenset({"memories"}), tally):
        if name == "memories":
            place += 1
            yield _incoming(place, value)
        elif name == "omf":
            version = value
    if tally.broken:
        yield Incoming(place + 1, problem="the document breaks off here")
    elif version != OMF:
        raise UsageError(f"{path} is no OMF {OMF} document", hint='it begins {"omf": "1.0", …, "memories": […]}')


def _items(records: Iterator[Record], memories: Iterable[Kept]) -> Iterator[dict[str, Any]]:
    for record in records:
        tags = dict.fromkeys(filter(None, (record.kind, record.status, record.text("challenge_id"))))
        said = values_of(record)
        yield _item(search_text(record), record.project, tags, record.at, {"v": _VERSION, "record": said})
    for one in memories:
        ours = {"v": _VERSION, "memory": one.memory, "type": one.type, "project": one.project}
        yield _item(one.text, one.project, one.tags, one.at, ours)


def _item(content: str, project: str, tags: Iterable[str], at: str, ours: dict[str, Any]) -> dict[str, Any]:
    item = {
        "content": content,
        "category": PurePath(project).name,
        "tags": list(tags),
        "created_at": at,
        "extensions": {OURS: ours},
    }
    return {name: value for name, value in item.items() if value}


def _incoming(place: int, item: object) -> Incoming:
    if not isinstance(item, dict):
        return Incoming(place, problem="it is no object")
    ours = _part(_part(item, "extensions"), OURS)
    return _record(place, ours) if "record" in ours else _memory(place, item, ours)


def _record(place: int, ours: Mapping[str, Any]) -> Incoming:
    if ours.get("v") != _VERSION:
        return Incoming(place, problem=f"its record has the format {str(ours.get('v'))[:20]!r}")
    try:
        text = compact(_part(ours, "record")).encode()
    except (ValueError, RecursionError):
        return Incoming(place, problem="its record is no text that can be written")
    return incoming(place, text)


def _memory(place: int, item: Mapping[str, Any], ours: Mapping[str, Any]) -> Incoming:
    content = item.get("content")
    if not isinstance(content, str) or not content.strip():
        return Incoming(place, problem="it has no content")
    if len(content) > _MOST_TEXT or "\0" in content or content.encode("utf-8", "replace").decode() != content:
        return Incoming(place, problem=f"its content is no text of at most {_MOST_TEXT:,} characters")
    theirs = _part(_part(item, "extensions"), "memd")
    tags = item.get("tags")
    words = dict.fromkeys(_word(one, _TAG) for one in (tags if isinstance(tags, list) else ()))
    kind = _word(ours.get("type") or theirs.get("chunk_type"), _TYPE)
    memory = Foreign(content, kind, tuple(filter(None, words))[:_MOST_TAGS])
    return Incoming(place, memory=memory, archived=str(item.get("status")).lower() in _ASIDE)


def _part(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = values.get(name)
    return found if isinstance(found, dict) else {}


def _word(value: object, shape: tuple[re.Pattern[str], re.Pattern[str]]) -> str:
    """Return a tag or type as a journal takes it; empty when nothing is left of it."""
    if not isinstance(value, str):
        return ""
    unfit, fit = shape
    found = fit.match(unfit.sub("-", value).strip("-.:/*@+"))
    return found[0] if found else ""
