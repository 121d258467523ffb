"""Selects the memories that may be delivered without a search, and writes the files that hooks read.

Standing are corrections, preferences and decisions that were added or approved, and other memories with cues written by hand. Of what
was captured from conversations only a rule in a certain form stands (`certain_rules`); the rest waits in the inbox. Cues are derived from
standing memories and from facts that were added by hand, never from the notes of captured turns: these name every file
of a session. A captured statement is delivered without what it is about. Superseded, expired and deleted memories, and those whose code is gone, are left out. A memory that came
with the repository cannot supersede one of the user's own.

Each project has a file of standing memories and a table of cues; `light.cue_table` reads the table, and says how it is
sorted. A file is replaced only if its content changed, and a lock keeps an older state from overwriting a newer one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.atomic_file import write_atomic
from lorelog.core.document import ARCHIVE_TYPE, TURN_TYPE, Anchor, Chunk, ChunkKey, StoredChunk
from lorelog.core.paths import is_below
from lorelog.core.processes import FileLock
from lorelog.core.query import Filters, Freshness
from lorelog.language.lexicon import lexicon
from lorelog.light import cue_table
from lorelog.light.delivery_files import MIN_SINK_DELIVERIES, project_key, read_standing, short_digest
from lorelog.light.prompt_match import stands_in
from lorelog.light.session_start import RULE_TYPES
from lorelog.light.wildcard import has_wildcard
from lorelog.services.cues.cue import Cue, CueKind, read_cues
from lorelog.services.standing.ownership import (
    HEADING,
    STANDING_TYPES,
    OwnClaim,
    Ownership,
    find_writers,
    is_confirmed,
    memory_body,
    untracked_files,
)
from lorelog.services.standing.source import MAX_MEMORIES, DeliverySource, MemoryMarks, Verdicts
from lorelog.services.usage.history import unused_counts

if TYPE_CHECKING:
    from lorelog.services.freshness.checker import FreshnessChecker
    from lorelog.services.traces.remedies import Remedy

MAX_TEXT_CHARS = 400
FAILURE_TYPE = "failure"
"""Type of what is told before a command that keeps failing."""
_CUELESS_TYPES = frozenset({"turn", "summary", "plan", "trace", "progress", "conversation", "message", "chat"})
"""Types from which no cues are derived: they tell what happened, not what to do."""
_WORD = re.compile(r"\w+")
MAX_STANDING = 2_000
_MIN_COUNTED_TURNS, _MAX_COUNTED_TURNS = 30, 200
_MAX_TURN_SHARE = 0.03
"""A phrase in the notes of more of a project's last turns says nothing about one of them: "commit", "context", "tests"."""
_LAST_RANK = 999_999
_PATTERN_WORD = re.compile(r"[A-Za-z0-9_$]+")
_LOCK_WAIT_S = 5.0
CheckMemories = Callable[[Sequence[StoredChunk]], Verdicts]
"""Returns the freshness of memories."""


def write_memories(source: DeliverySource, marks: MemoryMarks, check: CheckMemories | None = None) -> bool:
    """Write the files of all projects of a tenant; return True if any changed.

    `check` returns the freshness of the current project's memories; without it the last known one is kept.
    """
    folder = source.folder
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(TimeoutError), FileLock(folder / "lock", TimeoutError(), _LOCK_WAIT_S):
        if not source.authored.exists():
            _adopt_own_memories(source)
        stamp = source.stamp_of(marks)
        verdicts = _update_verdicts(source, check)
        unused = unused_counts(source.workspace.tenant_folder / "deliveries")
        is_cue_only = source.lifecycle.is_cue_only
        memories = [
            memory.with_usage(verdicts.get(id_, memory.verdict), unused.get(id_, 0), cue_only=is_cue_only(id_))
            for id_, memory in ((memory.id, memory) for memory in read_memories(source, marks))
        ]
        shown = _name_phrases(source, [memory for memory in memories if memory.verdict != Freshness.GONE])
        changed = write_projects(folder, [*shown, *_read_remedies(folder)])
        write_atomic(source.stamp_file, stamp.encode(), durable=False)
        return changed
    return False


def write_remedies(source: DeliverySource, remedies: Sequence[Remedy]) -> None:
    """Keep the remedies of the current project for the files that hooks read."""
    project = source.workspace.project.id
    entries = [
        StandingMemory(
            id=f"failure-{short_digest(remedy.shape)[:8]}",
            type=FAILURE_TYPE,
            text=remedy.text(),
            project=project,
            own=True,
            cues=(f"command={remedy.shape}",),
        )
        for remedy in remedies
    ]
    source.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_if_changed(source.folder / f"{project_key(project)}.remedies", msgspec.json.encode(entries))


def _read_remedies(folder: Path) -> Iterator[StandingMemory]:
    for path in folder.glob("*.remedies"):
        with suppress(OSError, ValueError):
            yield from msgspec.json.decode(path.read_bytes(), type=list[StandingMemory])


def _adopt_own_memories(source: DeliverySource) -> None:
    """Register memories from before the registry existed, unless they may have come with a repository."""
    pages = source.record_pages
    by_project: dict[str, list[StoredChunk]] = {}
    # Not all recent sections: a first index run would read every chunk that it has just written.
    memories = source.store.authored_chunks(Filters(), MAX_MEMORIES, outside=pages)
    for stored in (*memories, *source.store.recent(Filters(types=(TURN_TYPE,)), MAX_MEMORIES)):
        if stored.project and stored.chunk.memory and not is_below(stored.chunk.source, pages):
            by_project.setdefault(stored.project, []).append(stored)
    texts: dict[Anchor, str] = {}
    for project, chunks in by_project.items():
        untracked = untracked_files(project, sorted({stored.chunk.source for stored in chunks}))
        own = (stored for stored in chunks if stored.chunk.source in untracked)
        texts |= {stored.chunk.anchor: memory_body(stored) for stored in own if stored.chunk.anchor}
    source.authored.adopt(texts)
    for project, chunks in by_project.items():
        source.write_own_entries(project, sorted({str(Path(stored.chunk.source).parent) for stored in chunks}))


def _update_verdicts(source: DeliverySource, check: CheckMemories | None) -> Verdicts:
    """Return the last known freshness of memories; with `check`, checked again for the current project."""
    file = source.folder / "verdicts.json"
    try:
        known = msgspec.json.decode(file.read_bytes(), type=dict[str, str])
    except (OSError, ValueError):
        known = {}
    if check is None:
        return known
    chunks = source.store.authored_chunks(Filters(), MAX_MEMORIES, outside=source.record_pages)
    ids = {stored.chunk.memory for stored in chunks}
    project = source.workspace.project.id
    current = [stored for stored in chunks if stored.project == project and stored.chunk.anchor]
    verdicts = {memory: value for memory, value in known.items() if memory in ids} | dict(check(current))
    if verdicts != known:
        write_atomic(file, json.dumps(verdicts, sort_keys=True).encode(), durable=False)
    return verdicts


def code_check(checker: FreshnessChecker) -> CheckMemories:
    """Return a function that checks memories against the code they mention."""
    from lorelog.services.freshness.checker import claim_of

    def check(chunks: Sequence[StoredChunk]) -> Verdicts:
        claims = {stored.chunk.memory: claim_of(stored.chunk, stored.project) for stored in chunks}
        return {memory: verdict.freshness.value for memory, verdict in checker.verdicts(claims).items()}

    return check


class StandingMemory(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A memory that may be delivered to an agent without a search, as it is a line of the standing file."""

    id: str
    text: str
    type: str = ""
    date: str = ""
    origin: str = ""
    source: str = ""
    project: str = ""
    own: bool = False
    """True if it was written on this machine; False if it came with a repository or an import."""
    is_standing: bool = False
    cues: tuple[str, ...] = ()
    expires: str = ""
    verdict: str = Freshness.UNCHECKED.value
    unused: int = 0
    """Deliveries without a sign of use."""
    session: str = ""
    """The session that it was captured from."""
    reason: str = ""
    """When and how the user said it, and who filed it, if it was filed."""
    cue_only: bool = False
    """True if it is not listed at the start of a session."""
    writer: str = ""
    """Who wrote one that is not own, if that is known."""
    edited: bool = False
    """True if its entry was changed outside lorelog since: the last wording stands until the user answers."""
    named: tuple[str, ...] = ()
    """Phrases of which one must stand in a prompt that brings it."""

    def with_usage(self, verdict: str, unused: int, *, cue_only: bool) -> StandingMemory:
        """Return the memory with its freshness, its deliveries without a sign of use, and whether it is listed."""
        is_same = (self.verdict, self.unused, self.cue_only) == (verdict, unused, cue_only)
        return self if is_same else replace(self, verdict=verdict, unused=unused, cue_only=cue_only)

    def cue_entry(self) -> dict[str, Any]:
        """Return what the table of cues holds about it."""
        names = ("id", "type", "text", "date", "origin", "own")
        fields = {name: getattr(self, name) for name in names}
        drifted = self.verdict if self.verdict == Freshness.DRIFTED else ""
        optional = {"expires": self.expires, "verdict": drifted, "session": self.session}
        optional |= {"reason": self.reason, "writer": self.writer}
        return fields | {name: value for name, value in optional.items() if value}


def _name_phrases(source: DeliverySource, memories: Sequence[StandingMemory]) -> list[StandingMemory]:
    """Return memories with the phrases that bring them with a prompt, without those that stand in many turns of the project."""

    @lru_cache
    def recent_turns(project: str) -> list[str]:
        turns = Filters(types=(TURN_TYPE,), projects=(project,) if project else None)
        return [stored.chunk.text.casefold() for stored in source.store.recent(turns, _MAX_COUNTED_TURNS)]

    @lru_cache
    def is_frequent(phrase: str, project: str) -> bool:
        texts = recent_turns(project)
        count = sum(stands_in(phrase, text) for text in texts)
        return len(texts) >= _MIN_COUNTED_TURNS and count > _MAX_TURN_SHARE * len(texts)

    named: list[StandingMemory] = []
    for memory in memories:
        phrases = dict.fromkeys(filter(None, (_named_phrase(cue, memory.type) for cue in read_cues(memory.cues))))
        telling = tuple(phrase for phrase in phrases if not is_frequent(phrase, memory.project))
        named.append(replace(memory, named=telling) if telling else memory)
    return named


def _named_phrase(cue: Cue, kind: str) -> str:
    """Return what a prompt must name to bring a memory with this cue; empty if no prompt does.

    A program whose name is also a word must stand in backquotes. Other memories than rules come with their topics only.
    """
    if cue.kind is CueKind.TOPIC:
        return cue.value.casefold()
    if kind not in RULE_TYPES or cue.kind not in (CueKind.PATH, CueKind.COMMAND, CueKind.SYMBOL):
        return ""
    phrase = cue.value.casefold().rstrip("* /")
    if has_wildcard(phrase):
        return ""
    from lorelog.services.cues.derive import LANGUAGES

    is_word = cue.kind is CueKind.COMMAND and (phrase in lexicon("program_words") or phrase in LANGUAGES)
    return f"`{phrase}`" if is_word else phrase


class _Draft(Struct):
    """What a chunk says of a memory by itself, apart from registry, supersessions and dates.

    A process keeps the drafts: between two calls only a few chunks change, and deriving cues takes milliseconds for each.
    """

    mark: str
    """Of the chunk; another one makes the draft invalid."""
    stored: StoredChunk
    """Without its text."""
    claim: OwnClaim
    memory: StandingMemory | None = None
    """Not own, without expiry; None if it can never be delivered."""
    shown: StandingMemory | None = None
    """The memory as it was shown last."""


@lru_cache(maxsize=4)
def _known_drafts(folder: Path) -> dict[ChunkKey, _Draft]:
    """Return the drafts that this process keeps for a tenant. Changed under the lock of the folder only."""
    del folder
    return {}


def read_memories(source: DeliverySource, marks: MemoryMarks) -> list[StandingMemory]:
    """Return the memories that may be delivered, newest first; equal ones once."""
    drafts = _read_drafts(source, marks)
    registered = source.authored.all()
    own = {
        draft.stored.key: anchor
        for draft in drafts
        if (anchor := draft.stored.chunk.anchor) and is_confirmed(draft.claim, registered.get(anchor.memory))
    }
    own_ids = {anchor.memory for anchor in own.values()}
    replaced = frozenset(memory for anchor in own.values() for memory in anchor.superseded_ids)
    others = [draft for draft in drafts if draft.stored.chunk.memory not in own_ids]
    changed = [draft for draft in others if draft.stored.chunk.memory in registered and draft.claim is not False]
    kept = _last_wordings(source.folder, changed)
    foreign = [draft.stored for draft in others if draft.memory is not None and draft.memory.is_standing]
    writers = find_writers(source.folder, foreign)
    # Another memory with the id of an own one is forged.
    visible = [
        draft
        for draft in (*(draft for draft in drafts if draft.stored.key in own), *others)
        if (memory := kept.get(draft.stored.chunk.memory) or draft.memory) is not None
        if _show(source, draft, memory, replaced, is_own=draft.stored.key in own, writer=writers.get(memory.id, ""))
    ]
    return _drop_repetitions(sorted(visible, key=lambda draft: draft.stored.chunk.date, reverse=True))


def _read_drafts(source: DeliverySource, marks: MemoryMarks) -> list[_Draft]:
    """Return a draft of every memory, newest first. Only chunks that changed since the last call are read."""
    known = _known_drafts(source.folder)
    new = {key: mark for key, mark in marks if key not in known or known[key].mark != mark}
    gone = known.keys() - {key for key, _ in marks}
    ownership = Ownership(source.workspace, source.authored)
    for key, stored in source.store.fetch(list(new)).items():
        known[key] = _make_draft(stored, new[key], ownership)
    for key in gone:
        del known[key]
    return [known[key] for key, mark in marks if key in known and known[key].mark == mark]


def _read_chunk(chunk: Chunk, anchor: Anchor) -> tuple[str, tuple[Cue, ...], bool, str]:
    """Return the words of a memory, its cues, by hand or derived, whether it stands, and when it was said, if it was filed."""
    from lorelog.services.cues.derive import derive_cues

    was_said, by_hand = is_captured(anchor), read_cues(anchor.cues)
    words, about = split_statement(HEADING.sub("", chunk.text, count=1))
    reason = about.partition(": “")[0] if about.startswith("said on ") and not was_said else ""
    words = words if was_said or reason else chunk.text
    text = plain_text(words)
    if by_hand:
        return text, by_hand, True, reason
    stands = is_certain(chunk.type, words) if was_said else chunk.type in STANDING_TYPES
    is_added_fact = not (was_said or anchor.covers) and chunk.type not in _CUELESS_TYPES
    return text, derive_cues(text) if stands or is_added_fact else (), stands, reason


def is_captured(anchor: Anchor) -> bool:
    """Return whether a memory was captured from a conversation."""
    return bool(anchor.session or anchor.turn)


def is_certain(kind: str, words: str) -> bool:
    """Return whether a captured statement stands without a person's word: a rule in a certain form."""
    if kind != "preference":
        return False
    from lorelog.ingest.transcripts.certain_forms import certain_rules

    return bool(certain_rules(words))


def list_derived_cues(stored: StoredChunk) -> tuple[Cue, ...]:
    """Return the cues that are derived from a memory's text; none if it has cues written by hand, or is not delivered."""
    chunk, anchor = stored.chunk, stored.chunk.anchor
    if anchor is None or stored.machine or chunk.type == ARCHIVE_TYPE or read_cues(anchor.cues):
        return ()
    return _read_chunk(chunk, anchor)[1]


def _make_draft(stored: StoredChunk, mark: str, ownership: Ownership) -> _Draft:
    """Return the draft of a chunk, with a memory if that can ever be delivered."""
    chunk, anchor = stored.chunk, stored.chunk.anchor
    bare = replace(stored, chunk=replace(chunk, content="", text="", content_hash=chunk.content_hash))
    draft = _Draft(mark, bare, ownership.claim_of(chunk, memory_body(stored)))
    if anchor is None or stored.machine or chunk.type == ARCHIVE_TYPE:
        return draft
    text, cues, stands, reason = _read_chunk(chunk, anchor)
    if not text or not (stands or cues):
        return draft
    draft.memory = StandingMemory(
        id=anchor.memory,
        type=chunk.type,
        text=text if len(text) <= MAX_TEXT_CHARS else text[: MAX_TEXT_CHARS - 1] + "…",
        date=chunk.date,
        origin=anchor.origin,
        source=f"{chunk.source}:{chunk.start_line}",
        project=stored.project,
        is_standing=stands,
        cues=tuple(map(str, cues)),
        session=anchor.session,
        reason=reason,
    )
    return draft


def _show(
    source: DeliverySource,
    draft: _Draft,
    memory: StandingMemory,
    replaced: frozenset[str],
    *,
    is_own: bool,
    writer: str,
) -> bool:
    """Set what a draft shows; return False if it is hidden. `replaced` are the memories that own ones supersede."""
    state = source.lifecycle.state_of(draft.stored)
    own = is_own or memory.edited
    if state.expired or (state.superseded_by and (not own or memory.id in replaced)):
        return False
    shown = draft.shown or memory
    writer = "" if own else writer
    if (shown.own, shown.expires, shown.writer, shown.edited) != (own, state.expires, writer, memory.edited):
        shown = replace(memory, own=own, expires=state.expires, writer=writer)
    draft.shown = shown
    return True


def _last_wordings(folder: Path, changed: Iterable[_Draft]) -> dict[str, StandingMemory]:
    """Return the rules of the user whose entries were changed outside lorelog, as they stood before.

    An editor, or a repository: that cannot be told. So the last wording stands until the user is asked.
    """
    kept: dict[str, StandingMemory] = {}
    for project in {draft.stored.project for draft in changed}:
        ids = {draft.stored.chunk.memory for draft in changed if draft.stored.project == project}
        for line in read_standing((str(folder / f"{project_key(project)}.standing.jsonl"),)):
            if line["id"] in ids and line.get("own") is True:
                kept[line["id"]] = msgspec.convert(line | {"edited": True}, StandingMemory)
    return kept


def split_statement(text: str) -> tuple[str, str]:
    """Return the words of a captured statement, and what they are about; see `format_statement` of the transcripts."""
    words, mark, context = text.rpartition("\n- About: ")
    return (words, " ".join(context.split())) if mark else (text, "")


def plain_text(text: str) -> str:
    """Return a chunk's text on one line, without its heading and control characters."""
    line = " ".join(HEADING.sub("", text.lstrip("\n"), count=1).split())
    line = line[2:] if line[:2] in ("- ", "* ", "+ ") and line[2:3] != "[" else line
    return line if line.isprintable() else "".join(char if char.isprintable() else " " for char in line)


def _drop_repetitions(drafts: Iterable[_Draft]) -> list[StandingMemory]:
    """Keep one of each text and project, by its words: the user's, an agent's, or a foreign one; the newest of these."""
    kept: dict[tuple[str, str], StandingMemory] = {}
    for draft in drafts:
        if (memory := draft.shown) is None:
            continue
        words = (memory.project, " ".join(_WORD.findall(memory.text.casefold())))
        known = kept.get(words)
        if known is None or _standing_rank(memory) < _standing_rank(known):
            kept[words] = memory
    return list(kept.values())


def _standing_rank(memory: StandingMemory) -> int:
    """Return 0 for the user's own word, 1 for what an agent noted here, 2 for what came from elsewhere."""
    return 2 if not memory.own else int(memory.origin == "agent")


def write_projects(folder: Path, memories: Sequence[StandingMemory]) -> bool:
    by_project: dict[str, list[StandingMemory]] = {"": []}
    for memory in memories:
        by_project.setdefault(memory.project, []).append(memory)
    by_key = {project_key(project): members for project, members in by_project.items()}
    contents: dict[str, bytes] = {}
    for key, members in by_key.items():
        standing = [memory for memory in members if memory.is_standing][:MAX_STANDING]
        contents[f"{key}.standing.jsonl"] = "".join(map(_encode_standing, standing)).encode("utf-8", "replace")
        contents[f"{key}.cues"] = encode_cue_table(members)
    old = {path.name for pattern in ("*.standing.jsonl", "*.cues") for path in folder.glob(pattern)}
    # A project without memories keeps empty files: a hook may be reading them.
    changed = [replace_if_changed(folder / name, contents.get(name, b"")) for name in old | contents.keys()]
    return any(changed)


def replace_if_changed(path: Path, data: bytes) -> bool:
    try:
        if path.read_bytes() == data:
            return False
    except OSError:
        pass
    write_atomic(path, data, durable=False)
    return True


@lru_cache(maxsize=MAX_STANDING)
def _encode_standing(memory: StandingMemory) -> str:
    return json.dumps(msgspec.to_builtins(memory), ensure_ascii=False) + "\n"


@lru_cache(maxsize=MAX_MEMORIES)
def _encode_cues(memory: StandingMemory, rank: str) -> tuple[tuple[str, tuple[str, str, bytes]], ...]:
    """Return the lines of a memory in the table of cues, each with the name that its symbol or error is listed under."""
    entry = json.dumps(memory.cue_entry(), ensure_ascii=False)
    lines = [(*_table_key(cue), _hint(cue), cue.value) for cue in read_cues(memory.cues)]
    return tuple(
        (kind + key, _encode_line(kind + key, hint, rank, value, entry)) for kind, key, hint, value in lines if kind
    )


def encode_cue_table(memories: Sequence[StandingMemory]) -> bytes:
    """Return the table of cues for memories in the order newest first."""
    lines: list[tuple[str, str, bytes]] = []
    names: dict[str, set[str]] = {cue_table.SYMBOL: set(), cue_table.ERROR: set()}
    # Ranks count from the oldest memory, so that a new one does not change the lines of the others.
    for number, memory in enumerate(memories, _LAST_RANK - len(memories) + 1):
        is_sunk = memory.unused >= MIN_SINK_DELIVERIES
        for name, line in _encode_cues(memory, f"{0 if memory.own else 1}{int(is_sunk)}{number:06}"):
            if name[0] in names:
                names[name[0]].add(name[1:])
            lines.append(line)
    for kind, label in ((cue_table.SYMBOL, cue_table.SYMBOL_NAMES), (cue_table.ERROR, cue_table.ERROR_WORDS)):
        if names[kind]:
            lines.append(_encode_line(label, "", "0", " ".join(sorted(names[kind])), "{}"))
    return _join_lines(lines)


def _hint(cue: Cue) -> str:
    """Return the longest fixed text that everything matched by a cue contains; empty if there is none."""
    if cue.kind is CueKind.COMMAND and not has_wildcard(cue.value):
        return max((word for word in cue.value.split() if not word.startswith("-")), key=len, default="")
    if cue.kind in (CueKind.PATH, CueKind.COMMAND, CueKind.ERROR):
        pieces = re.split(r"[*?]+", cue.value)
        return max((piece.strip("/ ") for piece in pieces), key=len)
    return ""


def _table_key(cue: Cue) -> tuple[str, str]:
    """Return the kind of line and the key under which a call finds a cue; no kind for topics."""
    if cue.kind is CueKind.PATH:
        return _path_key(cue.value)
    if cue.kind is CueKind.COMMAND:
        first = cue.value.split()[0]
        return cue_table.COMMAND, "" if has_wildcard(first) else first
    if cue.kind is CueKind.TOOL:
        return cue_table.TOOL, max(cue_table.tool_names(cue.value), key=len)
    if cue.kind is CueKind.SYMBOL:
        return cue_table.SYMBOL, max(cue.value.split("."), key=len)
    if cue.kind is CueKind.ERROR:
        whole = [
            match[0]
            for match in _PATTERN_WORD.finditer(cue.value)
            if not has_wildcard(cue.value[max(0, match.start() - 1) : match.end() + 1])
        ]
        return cue_table.ERROR, max(whole, key=len, default="")
    simple = {CueKind.EVENT: cue_table.EVENT, CueKind.DAY: cue_table.DAY}
    return simple.get(cue.kind, ""), cue.value


def _path_key(pattern: str) -> tuple[str, str]:
    """Return a name that every matching path contains, or else the suffix that it has."""
    parts = pattern.strip("/").split("/")
    literal = [part for part in parts if part and not has_wildcard(part)]
    if literal:
        return cue_table.PATH, literal[-1] if literal[-1] == parts[-1] else max(literal, key=len)
    suffix = cue_table.extension_of(f"x{parts[-1]}")
    if suffix and not has_wildcard(suffix):
        return cue_table.EXTENSION, suffix
    return cue_table.PATH, ""


def _encode_line(key: str, hint: str, rank: str, value: str, entry: str) -> tuple[str, str, bytes]:
    """Return the escaped key, the hint and the bytes of a line, for `_join_lines`."""
    key = cue_table.escape_key(key)
    return key, hint, f"{key}\t{hint}\t{rank}\t{value}\t{entry}\n".encode("utf-8", "replace")


def _join_lines(lines: Iterable[tuple[str, str, bytes]]) -> bytes:
    """Return the bytes of a table with these lines."""
    by_key: dict[str, set[str]] = {}
    encoded: set[bytes] = set()
    for key, hint, line in lines:
        by_key.setdefault(key, set()).add(hint)
        encoded.add(line)
    if len(encoded) > cue_table.MAX_UNLISTED:
        for key, hints in by_key.items():
            listed = cue_table.HINT_SEPARATOR.join(sorted(hints))
            encoded.add(f"{key}\t{cue_table.HINT_LIST.decode()}\t0\t{listed}\t{{}}\n".encode("utf-8", "replace"))
    return b"".join(sorted(encoded))
