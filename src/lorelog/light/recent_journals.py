"""Reads the recent memory of a project while an agent waits: entries of the newest journals, and open tasks.

Standard library only, no database, no model. Only the end of a large journal is read, and no more files than needed.
Deleted, superseded and expired memories are omitted, although their text is still in the file. Entries are ordered by
the date of their journal and the time of their heading, because a backfill appends old turns after newer ones.

Shown memory is enclosed in tags that capture removes again, so that it is not captured as new memory.
"""

from __future__ import annotations

import os

from lorelog.core.paths import cache_folder
from lorelog.light.delivery_files import (
    MAX_JOURNALS,
    MEMORY_TAG,
    RecentEntry,
    entry_digest,
    escape_tags,
    is_iso_date,
    list_journal_days,
    parse_entries,
    read_own_entries,
    read_tail,
)
from lorelog.light.quick_json import loads

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


OPEN_TASKS_FILE = "open-tasks.jsonl"
MAX_OPEN_TASKS_BYTES = 131_072
"""A longer file cannot be read while an agent waits."""


def read_open_tasks(file: str, projects: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the open tasks of some projects, last changed first; empty without the file."""
    try:
        with open(file, "rb") as stream:
            data = stream.read(MAX_OPEN_TASKS_BYTES + 1)
    except OSError:
        return []
    if not data or len(data) > MAX_OPEN_TASKS_BYTES:
        return []
    return [line for line in merge_task_lines(data) if line.get("project", "") in projects]


def merge_task_lines(data: bytes) -> list[dict[str, Any]]:
    """Return the open tasks in the lines of the file, last changed first. Invalid lines are ignored."""
    lines: list[dict[str, Any]] = []
    for text in data.split(b"\n"):
        try:
            line = loads(text) if text else None
        except ValueError:
            continue
        if isinstance(line, dict) and isinstance(line.get("id"), str) and isinstance(line.get("seq"), int):
            lines.append(line)
    tasks: dict[str, dict[str, Any]] = {}
    for line in sorted(lines, key=lambda line: int(line["seq"])):
        tasks[line["id"]] = tasks.pop(line["id"], {}) | line
    return [task for task in reversed(tasks.values()) if task.get("goal") and not task.get("done")]


NOTE_FIELDS = {
    "user asked": "request",
    "asked": "request",
    "went on with": "request",
    "outcome": "outcome",
    "found": "outcome",
    "files": "files",
    "commands": "commands",
    "errors": "errors",
    "ended": "ended",
}
"""The labels of a captured note's bullets."""
FOREIGN_LABEL = "came with the repository"
_MAX_FOREIGN_JOURNALS = 10
"""Journals without own entries that are read besides others: a repository may contain any number of them."""
_MAX_TOMBSTONE_BYTES = 4_000_000
"""Longer files of deletions or expiry dates cannot be read while an agent waits."""
MAX_SHOWN_TASKS = 10
_TASK_ID_CHARS = 18
"""Shown characters of a task's id: enough to name it, at half the tokens."""


class RecentJournals:
    """The journals of a project, in one or more folders."""

    def __init__(
        self, project_id: str, folders: tuple[str, ...], today: str, deletions: str = "", own: str = ""
    ) -> None:
        """`today` is an ISO date. `deletions` is the file of tombstones; expiry dates are in a file beside it.

        `own` is the file that names the user's own entries; all others came with the repository.
        """
        self._today = today
        self._deleted, self._expiry_days = _read_deleted(deletions), _read_expiry_days(deletions)
        # Tombstones contain real paths.
        days = [
            (day, real)
            for folder, real in zip(folders, map(os.path.realpath, folders), strict=True)
            for day in list_journal_days(project_id, folder)
        ]
        self._files = sorted(days, key=lambda file: file[0], reverse=True)
        self._own, self._own_files = read_own_entries(own) if own else (frozenset(), frozenset())
        self._superseded: dict[bool, set[str]] = {True: set(), False: set()}
        """Memories that an own entry replaces, and that a foreign one replaces."""

    @property
    def days(self) -> list[str]:
        """The ISO dates of the journals, newest first."""
        return list(dict.fromkeys(day[:10] for day, _ in self._files))

    def entries(self) -> Iterator[RecentEntry]:
        """Yield the visible entries, newest first; none if tombstones or expiry dates cannot be read."""
        if self._deleted is None or self._expiry_days is None:
            return
        files = self._chosen_files()
        for date in dict.fromkeys(day[:10] for day, _ in files):
            entries: list[tuple[str, int, str, RecentEntry]] = []
            for file in (f"{folder}/{day}" for day, folder in files if day[:10] == date):
                for entry in parse_entries(read_tail(file), date):
                    entry.is_own = bool(self._own) and entry_digest(entry) in self._own
                    entries.append((entry.time, len(entries), file, entry))
            for _, _, file, entry in sorted(entries, key=lambda place: place[:2], reverse=True):
                if self._is_visible(entry, file):
                    yield entry

    def _chosen_files(self) -> list[tuple[str, str]]:
        """Return the journals to read: those with own entries, and a few others."""
        own = [file for file in self._files if f"{file[1]}/{file[0]}" in self._own_files][:MAX_JOURNALS]
        known, max_others = frozenset(own), _MAX_FOREIGN_JOURNALS if own else MAX_JOURNALS
        others = [file for file in self._files if file not in known][:max_others]
        return sorted([*own, *others], key=lambda file: file[0], reverse=True)

    def is_hidden(self, memory: str) -> bool:
        """Return whether a memory is deleted or expired; True if that cannot be read."""
        if self._deleted is None or self._expiry_days is None:
            return True
        return memory in self._deleted or "" < self._expiry_days.get(memory, "") < self._today

    def _is_visible(self, entry: RecentEntry, file: str) -> bool:
        anchor, own = entry.anchor, entry.memory
        # A section without an id is deleted by its content, which only the index knows: such days are omitted.
        if (own or file) in (self._deleted or ()):
            return False  # a deleted memory supersedes nothing
        # Text that came with the repository hides nothing of the user's own.
        hidden = self._superseded[True] if entry.is_own else self._superseded[True] | self._superseded[False]
        is_shown = own not in hidden and not self._is_expired(own, anchor.get("expires", "")[:10])
        replaced = (id_ for id_ in anchor.get("supersedes", "").split(",") if id_ not in ("", own))
        self._superseded[entry.is_own].update(replaced)
        return is_shown and bool(entry.lines)

    def _is_expired(self, memory: str, expires: str) -> bool:
        expires = expires if is_iso_date(expires) else ""  # an invalid date hides nothing
        last = (self._expiry_days or {}).get(memory, expires) if memory else expires
        return "" < last < self._today


def parse_note(lines: list[str]) -> dict[str, list[str]]:
    """Return the bullets of a turn's note by field; bullets without a known label are `text`. Boxes are left out."""
    fields: dict[str, list[str]] = {name: [] for name in (*NOTE_FIELDS.values(), "text")}
    field = "text"
    for line in lines:
        bare = line.strip()
        bare = bare[2:].strip() if bare[:2] in ("- ", "* ", "+ ") else bare
        if bare[:4].lower() in ("[ ] ", "[x] "):
            continue
        if not line.startswith("  "):
            label, separator, rest = bare.partition(":")
            known = NOTE_FIELDS.get(label.lower()) if separator else None
            field, bare = (known, rest.strip()) if known else ("text", bare)
        if bare:
            fields[field].append(bare)
    return fields


def foreign_origin_label(origin: str) -> str:
    """Return the label of text from an untrusted origin; empty for other text."""
    sources = {"tool": "from a tool", "import": "from an import", "foreign": "from a tool or an import"}
    source = FOREIGN_LABEL if origin == "repository" else sources.get(origin, "")
    return f"{source}, quoted" if source else ""


def quote_line(line: str, label: str) -> str:
    """Return a line as a quotation, so that it cannot look like a task."""
    text = line.strip()[2:].replace('"', "'")
    return f'- {label}: "{text}"'


def render_open_tasks(deletions: str, project_id: str) -> list[str]:
    """Return the lines of the open tasks in the ledger of the tenant whose tombstones are `deletions`."""
    if not deletions:
        return []
    file = f"{cache_folder(deletions.rpartition('/')[0])}/{OPEN_TASKS_FILE}"
    lines: list[str] = []
    for task in read_open_tasks(file, (project_id, ""))[:MAX_SHOWN_TASKS]:
        words = {
            name: escape_tags(" ".join(str(task.get(name, "")).split())) for name in ("goal", "status", "next", "id")
        }
        further = [words["status"], words["next"] and f"next: {words['next']}", f"task {words['id'][:_TASK_ID_CHARS]}"]
        line = f"- [ ] {words['goal']} ({'; '.join(filter(None, further))})"
        origin = foreign_origin_label(str(task.get("origin", "")))
        if MEMORY_TAG not in line.lower():
            lines.append(quote_line(line, origin) if origin else line)
    return lines


def _read_expiry_days(deletions: str) -> dict[str, str] | None:
    """Return expiry dates that were set later, by memory id; None if they cannot be read."""
    lines = _read_small_file(f"{deletions.rpartition('/')[0]}/lifecycle.jsonl" if deletions else "")
    if not lines:
        return None if lines is None else {}
    days: dict[str, str] = {}
    for line in lines:
        try:
            entry = loads(line)
            if entry.get("expires") is not None:
                days[entry["memory"]] = entry["expires"]
        except (ValueError, KeyError, TypeError, AttributeError):
            continue  # as a search does; `doctor` names the line
    return days


def _read_small_file(file: str) -> list[bytes] | None:
    """Return the whole lines of a small file; None if it cannot be read while an agent waits."""
    if not file:
        return []
    try:
        with open(file, "rb") as stream:
            data = stream.read(_MAX_TOMBSTONE_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError:
        return None
    return None if len(data) > _MAX_TOMBSTONE_BYTES else [line for line in data.split(b"\n")[:-1] if line]


def _read_deleted(file: str) -> frozenset[str] | None:
    """Return the ids of deleted memories, and the files with deleted sections without an id; None if unreadable."""
    lines = _read_small_file(file)
    if not lines:
        return None if lines is None else frozenset()
    deleted: dict[str, str] = {}
    try:
        for line in lines:
            tombstone = loads(line)
            deleted.pop(tombstone["key"], None)
            if tombstone["deleted"]:
                deleted[tombstone["key"]] = tombstone["memory"] or tombstone["source"]
    except (ValueError, KeyError, TypeError):
        return None  # ignoring a line could show a deleted memory
    return frozenset(deleted.values())
