"""Merge journals, logs and chains of records of several machines. Pure functions over texts.

An entry is identified by the id of its memory, or by its text if it has none. Merging is a union: nothing is lost, and nothing
is there twice. A text that differs on both sides is compared with the text of the last exchange (the base): the side that
changed it wins. If both changed it, the text with the greater digest keeps the id, and the other one stays under an id of its
own. The result does not depend on the order of the two sides.

A path of a machine (the transcript that an entry was captured from) is not part of an entry here.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from lorelog.records.chain import GENESIS_HASH
from lorelog.services.memories import journal

CONFLICT_MARK = "~conflict-"
"""Between the id of a memory and the digest of a text that lost a conflict, in the id of that text."""
_CONFLICT_CHARS = 8
_ANCHOR_MEMORY = re.compile(r"(?:^|\s)memory:([^\s<>]+)")
_TIME = re.compile(r"\A### (\d\d:\d\d(?::\d\d)?)")


class SyncEntry(Struct, frozen=True):
    """An entry of a journal, as it is exchanged."""

    key: str
    """Id of its memory; its digest if it has none."""
    file: str
    """Name of its journal."""
    text: str
    digest: str

    @property
    def memory(self) -> str:
        """Id of its memory; empty if it has none."""
        return journal.anchor_field(self.text, "memory")

    @property
    def order(self) -> tuple[str, str]:
        """The order in a journal: by time, then by id."""
        found = _TIME.match(self.text)
        return (found[1] if found else "", self.key)


def read_journal(file: str, text: str) -> list[SyncEntry]:
    """Return the entries of a journal. Titles without text are left out."""
    entries = []
    for part in journal.split_journal(text):
        if part.is_entry:
            clean = journal.portable_text(part.text)
            digest = journal.entry_digest(clean)
            entries.append(SyncEntry(journal.anchor_field(clean, "memory") or digest, file, clean, digest))
    return entries


def by_key(entries: Iterable[SyncEntry]) -> dict[str, SyncEntry]:
    """Return entries by key. Of several texts with one id, the least digest has the key; the others have keys of their own."""
    found: dict[str, SyncEntry] = {}
    for entry in sorted(entries, key=lambda entry: (entry.digest, entry.file)):
        first = found.setdefault(entry.key, entry)
        if first.digest != entry.digest:
            key = f"{entry.key}+{entry.digest[:16]}"
            found.setdefault(key, replace(entry, key=key))
    return found


def render_journal(file: str, entries: Iterable[SyncEntry]) -> str:
    """Return a journal with these entries, in order of time."""
    return _with_entries(_title(file), entries)


def _title(file: str) -> str:
    return f"# {file.removesuffix('.md')}"


def _with_entries(head: str, entries: Iterable[SyncEntry]) -> str:
    """Return a text with entries below it, in order of time."""
    texts = [entry.text for entry in sorted(entries, key=lambda entry: entry.order)]
    return "\n\n".join([head, *texts] if head else texts) + "\n"


def is_forgotten(key: str, forgotten: Collection[str]) -> bool:
    """Return True if an entry was forgotten, or an entry that it was in conflict with."""
    if key in forgotten:
        return True
    marks = {key.rfind(CONFLICT_MARK), key.rfind("+")}
    return any(mark > 0 and is_forgotten(key[:mark], forgotten) for mark in marks)


def merge_entries(
    base: Mapping[str, str],
    here: Mapping[str, SyncEntry],
    there: Mapping[str, SyncEntry],
    forgotten: Collection[str] = (),
    pending: Mapping[str, str] | None = None,
) -> tuple[dict[str, SyncEntry], list[str]]:
    """Return the union of entries, by key, and the ids of those that both sides had changed. `base` has the digests of the last exchange.

    `pending` has digests of texts of the exchange that were about to be written here when a sync was killed: an entry with
    such a text was not edited here.
    """
    pending = pending or {}
    merged: dict[str, SyncEntry] = {}
    conflicts: list[str] = []
    for key in sorted({*here, *there}):
        ours, theirs = here.get(key), there.get(key)
        if is_forgotten(key, forgotten):
            continue
        if ours is None or theirs is None:
            single = ours or theirs
            if single is not None:
                merged.setdefault(key, single)
        elif ours.digest == theirs.digest:
            merged[key] = min(ours, theirs, key=lambda entry: (entry.file, entry.text))
        elif ours.digest in (base.get(key), pending.get(key)):
            merged[key] = theirs
        elif base.get(key) == theirs.digest:
            merged[key] = ours
        else:
            loser, merged[key] = sorted((ours, theirs), key=lambda entry: entry.digest)
            kept = _as_conflict(loser)
            if not (kept.key in forgotten or kept.key in here or kept.key in there):  # there: kept before, maybe edited
                merged[kept.key] = kept
            conflicts.append(key)
    return merged, conflicts


def _as_conflict(entry: SyncEntry) -> SyncEntry:
    """Return an entry that lost a conflict, under an id of its own: it can be shown, deleted and forgotten by it."""
    key = f"{entry.key}{CONFLICT_MARK}{entry.digest[:_CONFLICT_CHARS]}"
    anchor = journal.ANCHOR.match(entry.text)
    memory = _ANCHOR_MEMORY.search(anchor[1]) if anchor else None
    if anchor is None or memory is None:
        return replace(entry, key=key)
    at = anchor.start(1) + memory.start(1)
    text = entry.text[:at] + key + entry.text[at + len(memory[1]) :]
    return SyncEntry(key, entry.file, text, journal.entry_digest(text))


def merge_journal_texts(base: str, ours: str, theirs: str) -> tuple[str, tuple[str, ...]]:
    """Return the merged text of one journal in three versions, and the ids that both sides changed. For Git's merge driver.

    Other than in an exchange, the base is the common ancestor: an entry that one side removed, and the other one left as it
    was, is gone. Headings and text of a person's own stay where they are in our version.
    """
    line_end = "\r\n" if "\r\n" in (ours or theirs) else "\n"
    before, here, there = (by_key(read_journal("", text.replace("\r\n", "\n"))) for text in (base, ours, theirs))
    conflicts = []
    for key, former in before.items():
        if (key in here) == (key in there):
            continue
        single = here if key in here else there
        if single[key].digest == former.digest:
            del single[key]
        else:
            conflicts.append(key)  # removed there and edited here: the text stays
    merged, changed = merge_entries({key: entry.digest for key, entry in before.items()}, here, there)
    text = _place_entries(ours.replace("\r\n", "\n"), theirs.replace("\r\n", "\n"), merged)
    return text.replace("\n", line_end), tuple(dict.fromkeys((*changed, *conflicts)))


def _place_entries(ours: str, theirs: str, entries: Mapping[str, SyncEntry]) -> str:
    """Return our version of a journal with these entries: in order of time, unless it has headings of a person's own."""
    own, foreign = journal.split_journal(ours), journal.split_journal(theirs)
    raw = {part.key: part.text.strip("\n") for part in (*foreign, *own) if part.is_entry}
    texts = {  # with the path of a transcript, which an entry lacks
        key: raw[key] if key in raw and journal.entry_digest(raw[key]) == entry.digest else entry.text
        for key, entry in entries.items()
    }
    headings = [part.text for part in own if not part.is_entry and part.text.strip()]
    is_plain = not headings or (headings == [own[0].text] and headings[0].startswith("# "))
    if is_plain:
        title = (
            headings or [part.text for part in foreign[:1] if part.text.startswith("# ") and not part.is_entry] or [""]
        )[0]
        ordered = sorted(entries.values(), key=lambda entry: entry.order)
        pieces = [title.strip("\n"), *(texts[entry.key] for entry in ordered)]
        return "\n\n".join(filter(None, pieces)) + "\n"
    placed: list[tuple[tuple[str, str] | None, str]] = []
    known: set[str] = set()
    for part in own:
        if not part.is_entry:
            placed.append((None, part.text.strip("\n")))
        elif part.key in entries and part.key not in known:
            placed.append((entries[part.key].order, texts[part.key]))
            known.add(part.key)
    for entry in sorted(entries.values(), key=lambda entry: entry.order):
        if entry.key not in known:
            after = [number for number, (order, _) in enumerate(placed) if order is not None and order < entry.order]
            placed.insert(after[-1] + 1 if after else len(placed), (entry.order, texts[entry.key]))
    return "\n\n".join(text for _, text in placed if text) + "\n"


def add_to_journal(text: str, file: str, added: Iterable[SyncEntry], replaced: Mapping[str, SyncEntry]) -> str:
    """Return a journal with some entries replaced where they are, by their digests, and with others appended by time."""
    pieces: list[str] = []
    for part in journal.split_journal(text):
        new = replaced.get(journal.entry_digest(part.text)) if part.is_entry and replaced else None
        if new is None:
            pieces.append(part.text)
        else:
            text, space = new.text, part.text[len(part.text.rstrip("\n")) :]
            anchor, former = journal.ANCHOR.match(text), journal.ANCHOR.match(part.text)
            words = "".join(f"{word.strip()} " for word in journal.MACHINE_WORD.findall(former[1])) if former else ""
            if anchor is not None and words:  # the path of its transcript on this machine
                text = f"{text[: anchor.start(1)]} {words}{anchor[1].lstrip()}{text[anchor.end(1) :]}"
            pieces.append(text + space)
    whole = "\n".join(pieces)
    new_entries = list(added)
    return _with_entries(whole.rstrip("\n") or _title(file), new_entries) if new_entries else whole


def cut_from_journal(text: str, keys: Collection[str]) -> str:
    """Return a journal without the entries of these keys. All other text stays."""
    parts = journal.split_journal(text)
    return "\n".join(part.text for part in parts if not (part.is_entry and is_forgotten(part.key, keys)))


def merge_logs(own: str, writers: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the lines of all writers' logs once each, by time; the lines of one writer keep their order.

    Lines are JSON objects with `at`. `own` names this machine; its lines may be in no other writer's log. Of the same second, what
    changes something that another writer added comes after it.
    """
    foreign = {line for writer, lines in writers.items() if writer != own for line in lines}
    keyed: dict[str, tuple[str, bool, str, int]] = {}
    for writer in sorted(writers):
        latest, is_answer, added = "", False, set()
        for number, line in enumerate(writers[writer]):
            values = json_object(line)
            time = str(values.get("at", ""))
            is_answer = is_answer and time <= latest
            latest = max(latest, time)  # a clock that was set back does not change the order of a writer
            if values.get("event") == "add":
                added.add(str(values.get("id")))
            elif "event" in values and str(values.get("id")) not in added:
                is_answer = True
            if writer != own or line not in foreign:
                keyed.setdefault(line, (latest, is_answer, writer, number))
    return sorted(keyed, key=keyed.__getitem__)


def json_object(text: bytes | str) -> dict[str, Any]:
    """Return a JSON object; an empty one for any other text. Files of the exchange may hold anything."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}


class RecordChain(Struct, frozen=True):
    """The records of one writer, as exchanged. `fault` says where the chain is broken; the records before it are kept."""

    lines: tuple[str, ...] = ()
    records: tuple[Mapping[str, Any], ...] = ()
    head: str = GENESIS_HASH
    fault: str = ""


def redacted_line(line: str, record: Mapping[str, Any]) -> str:
    """Return a line whose record was redacted. It keeps the hash of the original line, which the next line names."""
    values = json.loads(line)
    original = values.get("original") or _line_hash(line)
    return _encode_line({"original": original, "prev": values["prev"], "record": record})


def _encode_line(values: Mapping[str, Any]) -> str:
    return json.dumps(values, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _line_hash(line: str) -> str:
    return hashlib.sha256(line.encode("utf-8", "replace")).hexdigest()


def read_chain(text: str) -> RecordChain:
    """Read and verify the records of a writer, up to the first line that does not follow the one before it."""
    lines: list[str] = []
    records: list[Mapping[str, Any]] = []
    head = GENESIS_HASH
    for number, line in enumerate(filter(str.strip, text.split("\n")), 1):
        values = json_object(line)
        record, original = values.get("record"), values.get("original")
        fault = ""
        if "record" not in values or "prev" not in values:
            fault = f"line {number} is not a record"
        elif values["prev"] != head or not isinstance(record, dict):
            fault = f"line {number} does not follow the one before it"
        elif original is not None and not (isinstance(original, str) and "redacted" in record):
            fault = f"line {number} was changed"
        if fault or not isinstance(record, dict):
            return RecordChain(tuple(lines), tuple(records), head, fault)
        head = original or _line_hash(line)
        lines.append(line)
        records.append(record)
    return RecordChain(tuple(lines), tuple(records), head)


def extend_chain(chain: RecordChain, own: Mapping[str, Mapping[str, Any]]) -> RecordChain:
    """Return a chain with records appended that are missing, and with those redacted that were redacted since.

    `own` are the records of the writer by id, in their order.
    """
    lines, records, head = list(chain.lines), list(chain.records), chain.head
    known = {str(record.get("id")): number for number, record in enumerate(records)}
    for identity, record in own.items():
        if identity not in known:
            lines.append(_encode_line({"prev": head, "record": record}))
            head = _line_hash(lines[-1])
            records.append(record)
        elif "redacted" in record and "redacted" not in records[known[identity]]:
            lines[known[identity]] = redacted_line(lines[known[identity]], record)
            records[known[identity]] = record
    return RecordChain(tuple(lines), tuple(records), head)


def extends(chain: RecordChain, count: int, head: str) -> bool:
    """Return True if a chain still begins with the lines that were seen of it: so many, with this hash of the last one."""
    hashes = [*(str(json.loads(line)["prev"]) for line in chain.lines[1:]), chain.head] if chain.lines else []
    return count == 0 or hashes[count - 1 : count] == [head]
