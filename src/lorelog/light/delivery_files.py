"""The files that hooks read while an agent waits: where they are, standing memories, and entries of journals.

A hook starts a Python process for every tool call, so this module imports `os`, `time` and our JSON only. The files below
`cache/` are derived: `services.standing` writes them, and deleting them is safe. A journal may come with a repository
that someone else wrote, so links are not followed, only the end of a large file is read, and an entry counts as the
user's own only if its digest is in the list that `services.standing.ownership` keeps in the home. The list says which state of
which file it was made of: of an entry that is newer, it is not known whose it is.
"""

from __future__ import annotations

import os
import time

from lorelog.core.paths import cache_folder, leads_out
from lorelog.light.quick_json import read_objects

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, TypeVar

    Memory = TypeVar("Memory")


GLOBAL_KEY = "global"
"""File name of the memories that belong to no project."""
MIN_SINK_DELIVERIES = 5
"""A memory that was delivered this often and never used is listed for review, and shown after others."""
MAX_STANDING_BYTES = 1_000_000
"""A longer file cannot be read while an agent waits; the oldest memories in it are ignored."""
OPENING_TAG, CLOSING_TAG = "<lorelog-memory>", "</lorelog-memory>"
MEMORY_TAG = "lorelog-memory"
MAX_LATE_S = 300.0
"""Seconds after which an answer that nobody took is no longer shown."""
MAX_JOURNALS = 30
"""Journals that are read while an agent waits."""
_TAIL_BYTES = 65_536
"""Bytes read from the end of a journal: about a hundred turns."""
_MAX_OWN_BYTES = 1_000_000
_MAX_REASON_CHARS, MAX_RULE_CHARS, _MAX_NAME_CHARS = 80, 240, 40
FOREIGN_LABEL = "came with the repository"
RULE_TYPES = ("correction", "preference")
STANDING_TYPES = (*RULE_TYPES, "decision")
STALE_VERDICTS = ("drifted", "gone")
"""The code that a memory names has changed."""
CHANGED_MARK = "~"
_COMMENT_END = "-->"
_ZERO_WIDTH_JOINER, _REPLACEMENT_CHAR = "\u200d", "\ufffd"
"""The joiner combines two characters; the replacement stands for invalid bytes."""
_TAG_SUBSTITUTE, _TAG_STARTS = "\u2039", "/!?|"
"""Replacement of a `<` that could begin a tag, and the characters other than letters that can follow it."""


class DeliveryFiles:
    """Paths for one project of one tenant. Tuples hold the project's own file first, then that of global memories."""

    __slots__ = ("cues", "guards", "handoff", "inbox", "log", "open_ends", "own", "standing", "waiting")

    def __init__(self, tenant_folder: str, project: str) -> None:
        folder = os.path.join(cache_folder(tenant_folder), "delivery")
        keys = (project_key(project), GLOBAL_KEY)
        self.standing = tuple(os.path.join(folder, f"{key}.standing.jsonl") for key in keys)
        self.cues = tuple(os.path.join(folder, f"{key}.cues") for key in keys)
        self.own = os.path.join(folder, f"{keys[0]}.own")
        self.handoff = os.path.join(folder, f"{keys[0]}.handoff")
        self.open_ends = os.path.join(folder, f"{keys[0]}.open")
        self.waiting = os.path.join(folder, f"{keys[0]}.waiting")
        self.inbox = os.path.join(folder, f"{keys[0]}.inbox")
        self.guards = os.path.join(tenant_folder, "guards.jsonl")
        self.log = os.path.join(tenant_folder, "deliveries")

    def state_card(self, session: str) -> str:
        """Return the file with the state of a session that is being compacted; `forget` deletes handoffs."""
        return f"{self.handoff.removesuffix('.handoff')}.{short_digest(session)}.handoff"


def late_answer(tenant_folder: str, host: str, session: str) -> str:
    return os.path.join(cache_folder(tenant_folder), "delivery", f"{short_digest(f'{host} {session}')}.late")


def project_key(project: str) -> str:
    """Return the file name of a project; `global` for memories of no project."""
    return short_digest(project) if project else GLOBAL_KEY


def short_digest(text: str) -> str:
    """Return 16 hex digits of a text's SHA-256."""
    from lorelog.core.ids import sha256  # most hooks hash nothing

    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def read_standing(files: tuple[str, ...], today: str = "", types: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """Return the standing memories, of some types only, each text once, without those that expired since.

    They are newest first; those that were often shown without use come last.
    """
    today = today or time.strftime("%Y-%m-%d")
    memories = [
        memory
        for file in files
        for memory in read_objects(read_start(file, MAX_STANDING_BYTES))
        if isinstance(memory.get("id"), str) and isinstance(memory.get("text"), str)
        if not "" < str(memory.get("expires", "")) < today and (not types or memory.get("type") in types)
    ]
    newest = sorted(memories, key=lambda memory: str(memory.get("date", "")), reverse=True)
    return sorted(drop_repetitions(newest, dict.get), key=is_never_used)


def drop_repetitions(memories: Iterable[Memory], get: Callable[[Memory, str], Any]) -> list[Memory]:
    """Keep one of each text: the user's, an agent's, or a foreign one; the first of these."""
    kept: dict[str, tuple[int, Memory]] = {}
    for memory in memories:
        key = text_key(get(memory, "text"))
        rank = author_rank(get(memory, "own"), get(memory, "origin"))
        if key and (key not in kept or rank < kept[key][0]):
            kept[key] = rank, memory
    return [memory for _, memory in kept.values()]


def text_key(text: str) -> str:
    """Return what equal texts have in common, whatever their case and markup."""
    return bare_text(text.casefold())


def bare_text(text: str) -> str:
    """Return the letters and digits of a text, and the signs that tell C++ and C# from C."""
    return "".join(char for word in text.split() for char in word.lstrip("+#") if char.isalnum() or char in "+#")


def author_rank(own: object, origin: object) -> int:
    """Return 0 for the user's own word, 1 for what an agent noted here, 2 for what came from elsewhere."""
    if own is not True or foreign_origin_label(str(origin or "")):
        return 2
    return int(origin not in (None, "", "user"))


def is_users_word(memory: Mapping[str, Any]) -> bool:
    """Return whether a memory was written on this machine, and not by an agent, a tool or an import."""
    return author_rank(memory.get("own"), memory.get("origin")) == 0


def is_agents_note(memory: Mapping[str, Any]) -> bool:
    """Return whether an agent wrote a memory on this machine."""
    return author_rank(memory.get("own"), memory.get("origin")) == 1


def is_never_used(memory: dict[str, Any]) -> bool:
    """Return True if a memory was delivered often and never used."""
    count = memory.get("unused")
    return isinstance(count, int) and count >= MIN_SINK_DELIVERIES


def read_start(file: str, max_bytes: int) -> bytes:
    """Return the first bytes of a file; none if it cannot be read."""
    try:
        with open(file, "rb") as stream:
            return stream.read(max_bytes)
    except OSError:
        return b""


# -- journals ------------------------------------------------------------------------------------------------------------


def list_journal_days(project_id: str, journals: str) -> list[str]:
    """Return the names of a project's journals, newest first; none if the folder is outside the project."""
    # A repository may come from someone else: a symbolic link in it must not decide which files are shown.
    if leads_out(journals, project_id):
        return []
    try:
        names = os.listdir(journals)
    except OSError:
        return []
    return sorted((name for name in names if name.endswith(".md") and is_iso_date(name[:10])), reverse=True)


class RecentEntry:
    """An entry of a journal: when it was written, the fields of its anchor, and its lines."""

    __slots__ = ("anchor", "day", "is_changed", "is_own", "lines", "raw", "time")

    def __init__(self, day: str, time: str) -> None:
        self.day, self.time = day, time
        self.anchor: dict[str, str] = {}
        self.lines: list[str] = []
        """The lines that may be shown."""
        self.raw: list[str] = []
        """All lines except the heading and comments."""
        self.is_own = self.is_changed = False
        """Whether it was written on this machine and not changed since, or changed without lorelog."""

    @property
    def memory(self) -> str:
        """Its id; empty for text that was written by hand."""
        return self.anchor.get("memory", "")

    def add(self, line: str, bare: str) -> None:
        """Add a bullet, or the first line of plain text: memories added by hand often have no bullets."""
        is_bullet = bare.startswith(("- ", "* ", "+ "))
        if (is_bullet or not self.lines) and MEMORY_TAG not in (text := escape_tags(bare)).lower():
            indent = "  " if is_bullet and line[:1] in " \t" and self.lines else ""
            self.lines.append(indent + (text if is_bullet else f"- {text}"))


def read_own_entries(file: str) -> frozenset[str]:
    """Return the lines of the list of own entries; nothing is the user's own if it cannot be read.

    They are digests of entries, with `CHANGED_MARK` if one was changed without lorelog, the journals of these, and all journals with
    their state. `services.standing.ownership` wrote the file.
    """
    return frozenset(read_start(file, _MAX_OWN_BYTES).decode("utf-8", "surrogateescape").split("\n")[1:-1])


def file_state(path: str) -> str:
    """Return size, time and inode of a file; empty if there is none."""
    try:
        status = os.lstat(path)
    except OSError:
        return ""
    return f"{status.st_size}.{status.st_mtime_ns}.{status.st_ino}"


def entry_digest(entry: RecentEntry) -> str:
    """Return a digest of everything that is shown of an entry, and of everything that decides how."""
    anchor = sorted(f"{name}:{value}" for name, value in entry.anchor.items())
    return short_digest("\n".join((entry.day, entry.time, *anchor, "", *entry.lines)))


_MARKS = ("", "#", "<", "`", "~")
"""How lines begin that are not text, and the empty ones."""


def parse_entries(text: str, day: str) -> list[RecentEntry]:
    entries = [RecentEntry(day, "")]
    inside = fence = ""
    for line in text.replace("\r\n", "\n").split("\n"):
        bare = line.strip()
        if bare[:1] not in _MARKS and not inside and not fence:  # most lines
            entries[-1].raw.append(line)
            entries[-1].add(line, bare)
            continue
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
            words = (word.partition(":") for word in bare.removeprefix("<!--").partition("-->")[0].split())
            entries[-1].anchor |= {name: value for name, _, value in words if value}
        elif bare.lower().startswith(f"<{MEMORY_TAG}"):
            inside = "" if CLOSING_TAG in bare else CLOSING_TAG
        elif is_heading:
            word = bare.rpartition(" ")[2]  # such as 14:30
            is_time = len(word) in (5, 8) and word[2] == ":" and word.replace(":", "").isdecimal()
            entries.append(RecentEntry(day, word if is_time else entries[-1].time))
        else:
            entries[-1].add(line, bare)
    # An entry without lines can still supersede another.
    return [entry for entry in entries if entry.lines or entry.anchor]


def read_tail(file: str) -> str:
    """Return the end of a journal from the beginning of a line; empty if it is not a regular file."""
    data, is_part = read_end(file, _TAIL_BYTES)
    if is_part:
        # Start at the first whole entry: the part before it may begin inside a comment or a fence.
        whole = data.find(b"\n#")
        data = data[(whole if whole >= 0 else data.find(b"\n")) + 1 :]
    return data.decode("utf-8", "replace")


def read_end(file: str, max_bytes: int) -> tuple[bytes, bool]:
    """Return the last bytes of a regular file, and whether there are others before them; none if it cannot be read."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b"", False
    try:
        status = os.fstat(descriptor)
        start = max(0, status.st_size - max_bytes)
        is_regular = status.st_mode & 0o170000 == 0o100000
        return os.pread(descriptor, max_bytes if is_regular else 0, start), start > 0
    except OSError:
        return b"", False
    finally:
        os.close(descriptor)


def escape_tags(text: str) -> str:
    """Return text that can end neither our block nor the one that a host puts around it.

    A `<` that could begin a tag is replaced; control characters and bidirectional marks become spaces.
    """
    line = text.replace(_REPLACEMENT_CHAR, "")
    if "<" not in line and line.isprintable():
        return line
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


def quote_label(date: str, source: str, memory_id: str) -> str:
    """Return what stands before a quoted memory. A journal is named by its day, which is there already."""
    place = "" if source.endswith(f"/{date[:10]}.md") else f"{source} "
    return f"- {date} {place}(id {memory_id})"


AT_REJECTION = "at a rejection"
"""Where the user said a rule whose breach they stopped once already."""
FILED_BY = "filed by "
"""Before the model that called a statement a rule; one that a person approved has another ending."""


def when_said(memory: Mapping[str, Any]) -> str:
    """Return when and how a memory was said and who filed it, if it was filed; otherwise its day."""
    reason = clean_line(str(memory.get("reason") or ""))[:_MAX_REASON_CHARS]
    return reason or clean_line(str(memory.get("date") or ""))[:10]


def describe_memory(memory: Mapping[str, Any], max_chars: int = MAX_RULE_CHARS) -> str:
    """Return a standing memory on one line: with its reason or day, or as a quotation if it is not from here."""
    text = shorten_line(clean_line(str(memory["text"])), max_chars)
    if label := foreign_label(memory):
        return quote_text(label, text)
    when, stale = when_said(memory), memory.get("verdict") in STALE_VERDICTS
    return f"{'may be out of date: ' if stale else ''}{text}{f' ({when})' if when else ''}"


def quote_text(label: str, text: str) -> str:
    """Return a text as a quotation, so that it cannot look like a task; without a label as it is."""
    quoted = text.replace('"', "'")
    return f'{label}: "{quoted}"' if label else text


def foreign_label(memory: Mapping[str, Any]) -> str:
    """Return whose words a memory is, if it was not written on this machine, or is from a tool or an import; else ''."""
    origin, writer = foreign_origin_label(str(memory.get("origin") or "")), str(memory.get("writer") or "")
    if origin or memory.get("own") is True:
        return origin
    kind = "decision" if memory.get("type") == "decision" else "rule"
    return f"{clean_line(writer)[:_MAX_NAME_CHARS]}'s {kind}, quoted" if writer else f"{FOREIGN_LABEL}, quoted"


def foreign_origin_label(origin: str) -> str:
    """Return the label of text from an untrusted origin; empty for other text."""
    sources = {"tool": "from a tool", "import": "from an import", "foreign": "from a tool or an import"}
    sources |= {"repository": FOREIGN_LABEL, "changed": "changed outside lorelog"}
    source = sources.get(origin, "")
    return f"{source}, quoted" if source else ""


def shorten_line(text: str, max_chars: int) -> str:
    """Return at most `max_chars` characters of a line, cut between words if possible."""
    if len(text) <= max_chars:
        return text
    cut = text[: max(max_chars - 1, 0)]
    space = cut.rfind(" ", max_chars * 2 // 3)
    return (cut[:space] if space > 0 else cut).rstrip(" ,;:-") + "…"


def is_iso_date(date: str) -> bool:
    return len(date) == 10 and date[4] == date[7] == "-" and (date[:4] + date[5:7] + date[8:]).isdecimal()
