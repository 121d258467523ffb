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
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.atomic_file import write_atomic
from lorelog.core.document import ARCHIVE_TYPE, TURN_TYPE, Anchor, Chunk, ChunkKey, StoredChunk
from lorelog.core.ports import group_by
from lorelog.core.processes import FileLock
from lorelog.core.query import Filters, Freshness
from lorelog.core.record import CHANGED_ORIGIN
from lorelog.language import lexicon
from lorelog.light import cue_table
from lorelog.light.delivery_files import (
    FILED_BY,
    MIN_SINK_DELIVERIES,
    RULE_TYPES,
    STANDING_TYPES,
    drop_repetitions,
    project_key,
    read_standing,
    short_digest,
)
from lorelog.light.prompt_match import stands_in
from lorelog.light.wildcard import has_wildcard
from lorelog.services.cues.cue import Cue, CueKind, read_cues
from lorelog.services.standing.ownership import (
    OwnClaim,
    Ownership,
    find_writers,
    is_confirmed,
    memory_body,
    without_heading,
)
from lorelog.services.standing.source import MAX_MEMORIES, DeliverySource, MemoryMarks, Verdicts
from lorelog.services.usage.history import unused_counts

if TYPE_CHECKING:
    from lorelog.services.freshness.checker import FreshnessChecker
    from lorelog.services.traces.remedies import Remedy

MAX_TEXT_CHARS = 400
FAILURE_TYPE = "failure"
"""Type of what is told before a command that keeps failing."""
CUELESS_TYPES = frozenset({"turn", "summary", "plan", "trace", "progress", "conversation", "message", "chat"})
"""Types from which no cues are derived: they tell what happened, not what to do."""
_CUE_FIELDS = ("id", "type", "text", "date", "origin", "own", "expires", "verdict", "session", "reason", "writer")
_ACTS = frozenset({CueKind.COMMAND, CueKind.EVENT, CueKind.SYMBOL})
MAX_STANDING = 2_000
_MIN_COUNTED_TURNS, _MAX_COUNTED_TURNS = 30, 200
_MAX_TURN_SHARE = 0.03
"""A phrase in the notes of more of a project's last turns says nothing about one of them: "commit", "context", "tests"."""
_LAST_RANK = 999_999
_PATTERN_WORD = r"[A-Za-z0-9_$]+"
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
        stamp = source.stamp_of(marks)
        verdicts = _update_verdicts(source, check)
        memories = sorted(read_memories(source, marks, verdicts), key=lambda memory: memory.date, reverse=True)
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


class _Draft(Struct, frozen=True):
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


@lru_cache(maxsize=4)
def _known_drafts(folder: Path) -> dict[ChunkKey, _Draft]:
    """Return the drafts that this process keeps for a tenant. Changed under the lock of the folder only."""
    del folder
    return {}


def read_memories(source: DeliverySource, marks: MemoryMarks, verdicts: Verdicts) -> Iterator[StandingMemory]:
    """Yield the memories that may be delivered, with their freshness and their deliveries without a sign of use."""
    unused = unused_counts(source.workspace.tenant_folder / "deliveries")
    drafts = _read_drafts(source, marks)
    registered = source.authored.all()
    own = [draft for draft in drafts if is_confirmed(draft.claim, registered.get(draft.stored.chunk.memory))]
    own_ids = {draft.stored.chunk.memory for draft in own}
    # Another memory with the id of an own one is forged.
    others = [draft for draft in drafts if draft.stored.chunk.memory not in own_ids]
    changed = [draft for draft in others if draft.stored.chunk.memory in registered and draft.claim is not False]
    changed_ids = {draft.stored.chunk.memory for draft in changed}
    last_wordings = _last_wordings(source.folder, changed)
    foreign = [draft.stored for draft in others if draft.memory is not None and draft.memory.is_standing]
    writers = find_writers(source.folder, foreign)
    for draft in (*own, *others):
        memory = last_wordings.get(draft.stored.chunk.memory) or draft.memory
        state = source.lifecycle.state_of(draft.stored)
        if memory is None or state.superseded_by or (state.expired and not memory.edited):
            continue
        is_own = memory.edited or memory.id in own_ids
        is_changed = memory.id in changed_ids and not is_own and memory.id not in writers
        at_start = source.lifecycle.is_at_start(memory.id)
        # What a model filed comes with its cues, and is listed only if it forbids or was said again.
        is_filed = bool(memory.cues) and FILED_BY in memory.reason
        yield replace(
            memory,
            own=is_own,
            origin=CHANGED_ORIGIN if is_changed else memory.origin,
            expires=memory.expires if memory.edited else state.expires,
            writer="" if is_own else writers.get(memory.id, ""),
            verdict=verdicts.get(memory.id, memory.verdict),
            unused=unused.get(memory.id, 0),
            cue_only=is_filed if at_start is None else not at_start,
        )


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

    words, about = read_words(chunk)
    reason = "" if is_captured(anchor) else about.partition(": “")[0]
    text, stands = plain_text(words), may_stand(chunk)
    if by_hand := read_cues(anchor.cues):
        return text, by_hand, stands, reason
    is_added_fact = not (is_captured(anchor) or anchor.covers) and chunk.type not in CUELESS_TYPES
    return text, derive_cues(text) if stands or is_added_fact else (), stands, reason


def is_captured(anchor: Anchor | None) -> bool:
    """Return whether a memory was captured from a conversation."""
    return anchor is not None and bool(anchor.session or anchor.turn)


def may_stand(chunk: Chunk) -> bool:
    """Return whether a memory stands by its type and words, whoever wrote it.

    Of what was captured, only a rule in a certain form does; the rest needs a person's or a judge's word.
    """
    if chunk.anchor is not None and read_cues(chunk.anchor.cues):
        return True
    if not is_captured(chunk.anchor):
        return chunk.type in STANDING_TYPES
    from lorelog.ingest.transcripts.statements import certain_rules

    return chunk.type == "preference" and bool(certain_rules(read_words(chunk)[0]))


def is_unfiled(stored: StoredChunk) -> bool:
    """Return whether a memory is what the user said in a conversation, which nobody filed."""
    return stored.chunk.type in STANDING_TYPES and is_captured(stored.chunk.anchor) and not may_stand(stored.chunk)


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
    memory = StandingMemory(
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
    return replace(draft, memory=memory)


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


def read_words(chunk: Chunk) -> tuple[str, str]:
    """Return the words of a memory, and where they were said, if it was captured (`format_statement`) or filed (`new_memory`)."""
    text = without_heading(chunk.text.lstrip("\n"))
    words, _, context = text.rpartition("\n- About: ")
    if words and (is_captured(chunk.anchor) or context.startswith("said on ")):
        return words, " ".join(context.split())
    return text, ""


def text_line(text: str) -> str:
    """Return a chunk's text on one line, without its heading."""
    line = " ".join(without_heading(text.lstrip("\n")).split())
    return line[2:] if line[:2] in ("- ", "* ", "+ ") and line[2:3] != "[" else line


def plain_text(text: str) -> str:
    """Return a chunk's text on one line, without its heading and control characters."""
    line = text_line(text)
    return line if line.isprintable() else "".join(char if char.isprintable() else " " for char in line)


def write_projects(folder: Path, memories: Sequence[StandingMemory]) -> bool:
    by_project = {"": list[StandingMemory]()} | group_by(memories, lambda memory: memory.project)
    by_key = {project_key(project): drop_repetitions(members, getattr) for project, members in by_project.items()}
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
    cues, known = read_cues(memory.cues), msgspec.to_builtins(memory)
    entry = {name: known[name] for name in _CUE_FIELDS if name in known}
    if memory.reason:
        # Where and what: a filed rule about commits of some files is about neither all commits nor all that is done with them.
        kinds = {cue.kind for cue in cues}
        if CueKind.PATH not in kinds:  # whoever writes a name is seldom at what was decided about it
            cues = tuple(cue for cue in cues if cue.kind is not CueKind.SYMBOL)
        elif kinds & _ACTS:
            entry["both"] = True
    encoded = json.dumps(entry, ensure_ascii=False)
    lines = [(*_table_key(cue), _hint(cue), cue.value) for cue in cues]
    return tuple(
        (kind + key, _encode_line(kind + key, hint, rank, value, encoded)) for kind, key, hint, value in lines if kind
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
            for match in re.finditer(_PATTERN_WORD, cue.value)
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
