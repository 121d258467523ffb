"""Reads the recent memory of a project while an agent waits: entries of the newest journals, and open tasks.

Standard library only, no database, no model. Only the end of a large journal is read, and no more files than needed.
Deleted, superseded and expired memories are omitted, although their text is still in the file. Entries are ordered by
the date of their journal and the time of their heading, because a backfill appends old turns after newer ones.

Shown memory is enclosed in tags that capture removes again, so that it is not captured as new memory.
"""

from __future__ import annotations

import os

from lorelog.core.paths import is_below

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


# ruff: noqa: PTH123, PTH208  (pathlib takes 10 ms to import)

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
    import json

    lines: list[dict[str, Any]] = []
    for text in data.split(b"\n"):
        try:
            line = json.loads(text) if text else None
        except ValueError:
            continue
        if isinstance(line, dict) and isinstance(line.get("id"), str) and isinstance(line.get("seq"), int):
            lines.append(line)
    tasks: dict[str, dict[str, Any]] = {}
    for line in sorted(lines, key=lambda line: int(line["seq"])):
        tasks[line["id"]] = tasks.pop(line["id"], {}) | line
    return [task for task in reversed(tasks.values()) if task.get("goal") and not task.get("done")]


OPENING_TAG, CLOSING_TAG = "<lorelog-memory>", "</lorelog-memory>"
MEMORY_TAG = "lorelog-memory"
_TAIL_BYTES = 65_536
"""Bytes read from the end of a journal: about a hundred turns."""
_MAX_FILES = 30
_MAX_TOMBSTONE_BYTES = 4_000_000
"""Longer files of deletions or expiry dates cannot be read while an agent waits."""
MAX_SHOWN_TASKS = 10
_TASK_ID_CHARS = 18
"""Shown characters of a task's id: enough to name it, at half the tokens."""
_ZERO_WIDTH_JOINER, _REPLACEMENT_CHAR = "\u200d", "\ufffd"
"""The joiner combines two characters; the replacement stands for invalid bytes."""
_TAG_SUBSTITUTE, _TAG_STARTS = "\u2039", "/!?|"
"""Replacement of a `<` that could begin a tag, and the characters other than letters that can follow it."""
_BULLETS = ("- ", "* ", "+ ")


def list_journal_days(project_id: str, journals: str) -> list[str]:
    """Return the names of a project's journals, newest first; none if the folder is outside the project."""
    # A repository may come from someone else: a symbolic link in it must not decide which files are shown.
    if not is_below(os.path.realpath(journals), os.path.realpath(project_id)):
        return []
    try:
        names = os.listdir(journals)
    except OSError:
        return []
    return sorted((name for name in names if _is_day(name)), reverse=True)


class RecentEntry:
    """An entry of a journal: when it was written, the fields of its anchor, and its lines."""

    __slots__ = ("anchor", "day", "lines", "time")

    def __init__(self, day: str, time: str) -> None:
        self.day, self.time = day, time
        self.anchor: dict[str, str] = {}
        self.lines: list[str] = []

    @property
    def memory(self) -> str:
        """Its id; empty for text that was written by hand."""
        return self.anchor.get("memory", "")


class RecentJournals:
    """The journals of a project, in one or more folders."""

    def __init__(self, project_id: str, folders: tuple[str, ...], today: str, deletions: str = "") -> None:
        """`today` is an ISO date. `deletions` is the file of tombstones; expiry dates are in a file beside it."""
        self._today = today
        self._deleted, self._expiry_days = _read_deleted(deletions), _read_expiry_days(deletions)
        # Tombstones contain real paths.
        days = [(day, os.path.realpath(folder)) for folder in folders for day in list_journal_days(project_id, folder)]
        self._files = sorted(days, key=lambda file: file[0], reverse=True)
        self._superseded: set[str] = set()

    @property
    def days(self) -> list[str]:
        """The ISO dates of the journals, newest first."""
        return list(dict.fromkeys(day[:10] for day, _ in self._files))

    def entries(self) -> Iterator[RecentEntry]:
        """Yield the visible entries, newest first; none if tombstones or expiry dates cannot be read."""
        if self._deleted is None or self._expiry_days is None:
            return
        files = self._files[:_MAX_FILES]
        for date in dict.fromkeys(day[:10] for day, _ in files):
            entries: list[tuple[str, int, str, RecentEntry]] = []
            for file in (f"{folder}/{day}" for day, folder in files if day[:10] == date):
                for entry in _parse_entries(_read_tail(file), date):
                    entries.append((entry.time, len(entries), file, entry))
            for _, _, file, entry in sorted(entries, key=lambda place: place[:2], reverse=True):
                if self._is_visible(entry, file):
                    yield entry

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
        is_shown = own not in self._superseded and not self._is_expired(own, anchor.get("expires", "")[:10])
        self._superseded.update(id_ for id_ in anchor.get("supersedes", "").split(",") if id_ not in ("", own))
        return is_shown and bool(entry.lines)

    def _is_expired(self, memory: str, expires: str) -> bool:
        expires = expires if _is_iso_date(expires) else ""  # an invalid date hides nothing
        last = (self._expiry_days or {}).get(memory, expires) if memory else expires
        return "" < last < self._today


def _read_tail(file: str) -> str:
    """Return the end of a journal from the beginning of a line; empty if it is not a regular file."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        size = os.fstat(descriptor).st_size
        data = os.pread(descriptor, _TAIL_BYTES, max(0, size - _TAIL_BYTES))
    except OSError:
        return ""
    finally:
        os.close(descriptor)
    if size > _TAIL_BYTES:
        # Start at the first whole entry: the part before it may begin inside a comment or a fence.
        whole = data.find(b"\n#")
        data = data[(whole if whole >= 0 else data.find(b"\n")) + 1 :]
    return data.decode("utf-8", "replace")


def _parse_entries(text: str, day: str) -> list[RecentEntry]:
    entries = [RecentEntry(day, "")]
    inside = fence = ""
    for line in text.replace("\r\n", "\n").split("\n"):
        bare = line.strip()
        if inside:  # a comment or a block of shown memory, until it ends
            if inside in bare:
                inside = ""
        elif bare.startswith(("```", "~~~")):
            fence = "" if fence and bare.startswith(fence) else fence or bare[:3]
        elif fence or not bare:
            continue
        elif bare.startswith("<!--"):
            if "-->" not in bare:
                inside = "-->"
            entries[-1].anchor |= _parse_anchor(bare)
        elif bare.lower().startswith(f"<{MEMORY_TAG}"):
            inside = "" if CLOSING_TAG in bare else CLOSING_TAG
        elif bare.startswith("#"):
            entries.append(RecentEntry(day, _heading_time(bare) or entries[-1].time))
        else:
            _add_line(entries[-1], line, bare)
    # An entry without lines can still supersede another.
    return [entry for entry in entries if entry.lines or entry.anchor]


def _heading_time(heading: str) -> str:
    """Return the last word of a heading if it is a time such as 14:30; otherwise ''."""
    word = heading.rpartition(" ")[2]
    return word[:8] if len(word) in (5, 8) and word[2] == ":" and word.replace(":", "").isdecimal() else ""


def _add_line(entry: RecentEntry, line: str, bare: str) -> None:
    """Add a bullet, or the first line of plain text: memories added by hand often have no bullets."""
    is_bullet = bare.startswith(_BULLETS)
    if not is_bullet and entry.lines:
        return
    indent = "  " if is_bullet and line[:1] in " \t" and entry.lines else ""
    text = escape_tags(bare)
    if MEMORY_TAG in text.lower():
        return
    entry.lines.append(indent + (text if is_bullet else f"- {text}"))


def escape_tags(text: str) -> str:
    """Return text that can end neither our block nor the one that a host puts around it.

    A `<` that could begin a tag is replaced; control characters and bidirectional marks become spaces.
    """
    line = "".join(
        char if char.isprintable() or char == _ZERO_WIDTH_JOINER else " " for char in text if char != _REPLACEMENT_CHAR
    )
    escaped, *pieces = line.split("<")
    for piece in pieces:
        is_tag = piece and (piece[0].isalpha() or piece[0] in _TAG_STARTS)
        escaped += (_TAG_SUBSTITUTE if is_tag else "<") + piece
    return escaped


def clean_line(text: str) -> str:
    """Return a text on one line, without tags that could end the surrounding block."""
    line = escape_tags(" ".join(text.split()))
    while (position := line.lower().find(MEMORY_TAG)) >= 0:
        line = line[:position] + line[position + len(MEMORY_TAG) :]
    return line


def shorten_line(text: str, max_chars: int) -> str:
    """Return at most `max_chars` characters of a line, cut between words if possible."""
    if len(text) <= max_chars:
        return text
    cut = text[: max(max_chars - 1, 0)]
    space = cut.rfind(" ", max_chars * 2 // 3)
    return (cut[:space] if space > 0 else cut).rstrip(" ,;:-") + "…"


def foreign_origin_label(origin: str) -> str:
    """Return the label of text from an untrusted origin; empty for other text."""
    source = {"tool": "from a tool", "import": "from an import", "foreign": "from a tool or an import"}.get(origin, "")
    return f"{source}, quoted" if source else ""


def quote_line(line: str, label: str) -> str:
    """Return a line as a quotation, so that it cannot look like a task."""
    text = line.strip()[2:].replace('"', "'")
    return f'- {label}: "{text}"'


def render_open_tasks(deletions: str, project_id: str) -> list[str]:
    """Return the lines of the open tasks in the ledger of the tenant whose tombstones are `deletions`."""
    if not deletions:
        return []
    file = os.path.join(os.path.dirname(deletions), "index", OPEN_TASKS_FILE)  # noqa: PTH118, PTH120
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


def _parse_anchor(comment: str) -> dict[str, str]:
    words = comment.removeprefix("<!--").partition("-->")[0].split()
    return {name: value for name, _, value in (word.partition(":") for word in words) if value}


def _read_expiry_days(deletions: str) -> dict[str, str] | None:
    """Return expiry dates that were set later, by memory id; None if they cannot be read."""
    lines = _read_small_file(os.path.join(os.path.dirname(deletions), "lifecycle.jsonl") if deletions else "")  # noqa: PTH118, PTH120
    if not lines:
        return None if lines is None else {}
    import json

    days: dict[str, str] = {}
    try:
        for line in lines:
            entry = json.loads(line)
            if entry.get("expires") is not None:
                days[entry["memory"]] = entry["expires"]
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
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
    import json

    deleted: dict[str, str] = {}
    try:
        for line in lines:
            tombstone = json.loads(line)
            deleted.pop(tombstone["key"], None)
            if tombstone["deleted"]:
                deleted[tombstone["key"]] = tombstone["memory"] or tombstone["source"]
    except (ValueError, KeyError, TypeError):
        return None  # ignoring a line could show a deleted memory
    return frozenset(deleted.values())


def _is_day(name: str) -> bool:
    return name.endswith(".md") and _is_iso_date(name[:10])


def _is_iso_date(date: str) -> bool:
    return len(date) == 10 and date[4] == date[7] == "-" and (date[:4] + date[5:7] + date[8:]).isdecimal()
