"""The files that hooks read while an agent waits: where they are, standing memories, and entries of journals.

A hook starts a Python process for every tool call, so this module imports `os`, `time` and our JSON only. The files below
`cache/` are derived: `services.standing` writes them, and deleting them is safe. A journal may come with a repository
that someone else wrote, so links are not followed, only the end of a large file is read, and an entry counts as the
user's own only if its digest is in the list that `services.standing.ownership` keeps in the home.
"""

from __future__ import annotations

import os
import time

from lorelog.core.paths import cache_folder, is_below
from lorelog.light.quick_json import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


GLOBAL_KEY = "global"
"""File name of the memories that belong to no project."""
MIN_SINK_DELIVERIES = 5
"""A memory that was delivered this often and never used is listed for review, and shown after others."""
MAX_STANDING_BYTES = 1_000_000
"""A longer file cannot be read while an agent waits; the oldest memories in it are ignored."""
OPENING_TAG, CLOSING_TAG = "<lorelog-memory>", "</lorelog-memory>"
MEMORY_TAG = "lorelog-memory"
MAX_JOURNALS = 30
"""Journals that are read while an agent waits."""
_TAIL_BYTES = 65_536
"""Bytes read from the end of a journal: about a hundred turns."""
_MAX_OWN_BYTES = 1_000_000
_COMMENT_END = "-->"
_ZERO_WIDTH_JOINER, _REPLACEMENT_CHAR = "\u200d", "\ufffd"
"""The joiner combines two characters; the replacement stands for invalid bytes."""
_TAG_SUBSTITUTE, _TAG_STARTS = "\u2039", "/!?|"
"""Replacement of a `<` that could begin a tag, and the characters other than letters that can follow it."""
_BULLETS = ("- ", "* ", "+ ")


class DeliveryFiles:
    """Paths for one project of one tenant. Tuples hold the project's own file first, then that of global memories."""

    __slots__ = ("cues", "guards", "handoff", "log", "own", "standing")

    def __init__(self, tenant_folder: str, project: str) -> None:
        folder = os.path.join(cache_folder(tenant_folder), "delivery")
        keys = (project_key(project), GLOBAL_KEY)
        self.standing = tuple(os.path.join(folder, f"{key}.standing.jsonl") for key in keys)
        self.cues = tuple(os.path.join(folder, f"{key}.cues") for key in keys)
        self.own = os.path.join(folder, f"{keys[0]}.own")
        self.handoff = os.path.join(folder, f"{keys[0]}.handoff")
        self.guards = os.path.join(tenant_folder, "guards.jsonl")
        self.log = os.path.join(tenant_folder, "deliveries")


def project_key(project: str) -> str:
    """Return the file name of a project; `global` for memories of no project."""
    return short_digest(project) if project else GLOBAL_KEY


def short_digest(text: str) -> str:
    """Return 16 hex digits of a text's SHA-256."""
    from lorelog.core.ids import sha256  # most hooks hash nothing

    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def read_standing(files: tuple[str, ...], today: str = "") -> list[dict[str, Any]]:
    """Return the standing memories without those that expired since: newest first, those never used at the end."""
    today = today or time.strftime("%Y-%m-%d")
    memories = [
        memory for file in files for memory in _read_file(file) if not "" < str(memory.get("expires", "")) < today
    ]
    newest = sorted(memories, key=lambda memory: str(memory.get("date", "")), reverse=True)
    return sorted(newest, key=is_never_used)


def is_never_used(memory: dict[str, Any]) -> bool:
    """Return True if a memory was delivered often and never used."""
    count = memory.get("unused")
    return isinstance(count, int) and count >= MIN_SINK_DELIVERIES


def _read_file(file: str) -> list[dict[str, Any]]:
    try:
        with open(file, "rb") as stream:
            data = stream.read(MAX_STANDING_BYTES)
    except OSError:
        return []
    memories = []
    for line in data.split(b"\n"):
        try:
            memory = loads(line) if line else None
        except ValueError:
            continue
        if isinstance(memory, dict) and isinstance(memory.get("id"), str) and isinstance(memory.get("text"), str):
            memories.append(memory)
    return memories


# -- journals ------------------------------------------------------------------------------------------------------------


def list_journal_days(project_id: str, journals: str) -> list[str]:
    """Return the names of a project's journals, newest first; none if the folder is outside the project."""
    # A repository may come from someone else: a symbolic link in it must not decide which files are shown.
    if not is_below(os.path.realpath(journals), os.path.realpath(project_id)):
        return []
    try:
        names = os.listdir(journals)
    except OSError:
        return []
    return sorted((name for name in names if name.endswith(".md") and is_iso_date(name[:10])), reverse=True)


class RecentEntry:
    """An entry of a journal: when it was written, the fields of its anchor, and its lines."""

    __slots__ = ("anchor", "day", "is_own", "lines", "raw", "time")

    def __init__(self, day: str, time: str) -> None:
        self.day, self.time = day, time
        self.anchor: dict[str, str] = {}
        self.lines: list[str] = []
        """The lines that may be shown."""
        self.raw: list[str] = []
        """All lines except the heading and comments."""
        self.is_own = False
        """True if it was written on this machine and not changed since."""

    @property
    def memory(self) -> str:
        """Its id; empty for text that was written by hand."""
        return self.anchor.get("memory", "")


def read_own_entries(file: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the digests of the entries that were written on this machine, and the journals that contain any.

    `services.standing.ownership` wrote the file; nothing is the user's own if it cannot be read.
    """
    try:
        with open(file, "rb") as stream:
            data = stream.read(_MAX_OWN_BYTES)
    except OSError:
        data = b""
    lines = data.decode("utf-8", "surrogateescape").split("\n")[1:-1]
    return frozenset(lines), frozenset(line.partition("\t")[0] for line in lines if line.startswith("/"))


def entry_digest(entry: RecentEntry) -> str:
    """Return a digest of everything that is shown of an entry, and of everything that decides how."""
    anchor = sorted(f"{name}:{value}" for name, value in entry.anchor.items())
    return short_digest("\n".join((entry.day, entry.time, *anchor, "", *entry.lines)))


def parse_entries(text: str, day: str) -> list[RecentEntry]:
    """Return the entries of a journal in order."""
    entries = [RecentEntry(day, "")]
    inside = fence = ""
    for line in text.replace("\r\n", "\n").split("\n"):
        bare = line.strip()
        is_heading = (
            bare.startswith("#") and bare.lstrip("#")[:1] in ("", " ", "\t") and not line.startswith(("    ", "\t"))
        )
        if inside != _COMMENT_END and (fence or inside or not (is_heading or bare.startswith("<!--"))):
            entries[-1].raw.append(line)
        if inside:  # a comment or a block of shown memory, until it ends
            if inside in bare:
                inside = ""
        elif bare.startswith(("```", "~~~")):
            fence = "" if fence and bare.startswith(fence) else fence or bare[:3]
        elif fence or not bare:
            continue
        elif bare.startswith("<!--"):
            if _COMMENT_END not in bare:
                inside = _COMMENT_END
            entries[-1].anchor |= _parse_anchor(bare)
        elif bare.lower().startswith(f"<{MEMORY_TAG}"):
            inside = "" if CLOSING_TAG in bare else CLOSING_TAG
        elif is_heading:
            entries.append(RecentEntry(day, _heading_time(bare) or entries[-1].time))
        else:
            _add_line(entries[-1], line, bare)
    # An entry without lines can still supersede another.
    return [entry for entry in entries if entry.lines or entry.anchor]


def read_tail(file: str) -> str:
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
    line = text.replace(_REPLACEMENT_CHAR, "")
    if not line.isprintable():
        line = "".join(char if char.isprintable() or char == _ZERO_WIDTH_JOINER else " " for char in line)
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


def _parse_anchor(comment: str) -> dict[str, str]:
    words = comment.removeprefix("<!--").partition("-->")[0].split()
    return {name: value for name, _, value in (word.partition(":") for word in words) if value}


def is_iso_date(date: str) -> bool:
    return len(date) == 10 and date[4] == date[7] == "-" and (date[:4] + date[5:7] + date[8:]).isdecimal()
