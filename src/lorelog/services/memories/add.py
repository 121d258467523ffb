"""Add memories: decide on admission, append them to today's journal, and index it at once.

Texts compiled from records are never accepted as memories, an agent's urgent ones must say what to do, and what was run
is kept for a month. What a text says is not judged.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from datetime import date, datetime, timedelta
from pathlib import Path

from msgspec.structs import replace

from lorelog.core.document import GLOBAL_PROJECT
from lorelog.core.errors import StoreError, UsageError
from lorelog.core.ids import new_id
from lorelog.core.memory import AddReply, AdmissionDecision, AdmissionResult, NewMemory
from lorelog.core.paths import is_below
from lorelog.core.ports import Embedder, Store
from lorelog.core.record import DIGEST_MARK, is_digest_text
from lorelog.light.git_location import read_head
from lorelog.services.indexing import IndexJob
from lorelog.services.indexing.run import index_written
from lorelog.services.memories.journal import JournalEntry, OwnEntries, append_entries, check_memory, to_anchor_word
from lorelog.services.places.roots import Root, find_innermost_root
from lorelog.services.places.workspace import FOLDER, Workspace

TRACE_DAYS = 30
SAME_NOTE = "the same text was remembered before; nothing was added"
_MIN_URGENT_PRIORITY = 8
_MIN_ACTION_CHARS = 24
_PROGRAM_ORIGINS = frozenset({"agent", "tool"})
_TRACE_TAGS = frozenset({"kind:trace", "kind:run"})

_GENERATED_TAG = "task:status:generated"
_WRAPPED_TAGS = ("task:role:", "task:digest:")
_WRAPPER = re.compile(
    r"^\W{0,4}Artifact role:\W{0,4}(?:project_brief|task_resume|resume|failure_library|decision_library|evidence_library"
    r"|highlight_library|highlights?|digest)\W{0,4}$",
    re.MULTILINE,
)
_PRIORITY = re.compile(r"(?:priority|importance):(\d{1,3})")
_ACTION = re.compile(r"\bAgent action:\s*([^\n]+)", re.IGNORECASE)


def admit(memory: NewMemory, today: date) -> AdmissionResult:
    """Decide whether a memory is kept, for how long, and why. A pure function."""
    refusal = _find_refusal_reason(memory)
    if refusal:
        return AdmissionResult(AdmissionDecision.REFUSED, refusal)
    if memory.expires:
        return AdmissionResult(AdmissionDecision.EPHEMERAL, "as requested", memory.expires)
    if _priority(memory.tags) is not None:
        return AdmissionResult(AdmissionDecision.DURABLE, "it has a priority")
    if memory.type == "trace" or _TRACE_TAGS & set(memory.tags):
        last_day = (today + timedelta(days=TRACE_DAYS)).isoformat()
        return AdmissionResult(AdmissionDecision.EPHEMERAL, "a trace of what was run", last_day)
    return AdmissionResult(AdmissionDecision.DURABLE, "it says something")


def _find_refusal_reason(memory: NewMemory) -> str:
    """Return why a memory is refused in any case; empty if it is not."""
    if not memory.text.strip():
        return "the text is empty"
    generated = _GENERATED_TAG in memory.tags and any(tag.startswith(_WRAPPED_TAGS) for tag in memory.tags)
    lines = memory.text.split("\n") if memory.origin != "user" else []  # people may quote digests
    is_digest = is_digest_text(memory.text) or any(line.lstrip(" >").startswith(DIGEST_MARK) for line in lines)
    if generated or is_digest or _WRAPPER.search(memory.text):
        return "it was compiled from records and is not a memory of its own"
    urgent = (_priority(memory.tags) or 0) >= _MIN_URGENT_PRIORITY
    has_action = any(len(match[1].strip()) >= _MIN_ACTION_CHARS for match in _ACTION.finditer(memory.text))
    if urgent and memory.origin in _PROGRAM_ORIGINS and not has_action:
        return (
            f"a priority of {_MIN_URGENT_PRIORITY} and more needs a sentence that says what to do: 'Agent action: …', "
            f"at least {_MIN_ACTION_CHARS} characters"
        )
    return ""


def _priority(tags: tuple[str, ...]) -> int | None:
    return max((int(match[1]) for tag in tags if (match := _PRIORITY.fullmatch(tag))), default=None)


def add(
    memories: Sequence[NewMemory],
    job: IndexJob,
    store: Store,
    embedder: Embedder | None,
    directory: str = "",
    own_entries: OwnEntries = lambda *_: nullcontext(),
) -> list[AddReply]:
    """Append memories to a journal in the root of a job, or in a directory of it, all or none, and index that journal once.

    It is today's, or that of the first memory's own day; the others must be of the same day.
    Once they are in the file they are safe; an index that cannot be written then is a note, not an error.
    """
    now, (root,) = datetime.now().astimezone(), job.roots
    admissions = []
    for memory in memories:
        check_memory(memory)
        admissions.append(admission := admit(memory, now.date()))
        if admission.decision is AdmissionDecision.REFUSED:
            raise UsageError(
                f"not remembered: {admission.reason}",
                hint="write what a later session should know; 'lorelog add' of your own words is always kept",
            )
    kept = [
        replace(memory, id=memory.id or new_id(), expires=admission.expires)
        for memory, admission in zip(memories, admissions, strict=True)
    ]
    folder = directory or root.path
    with own_entries(kept, folder):
        entries = append_entries(
            Path(folder),
            kept,
            kept[0].at or now,
            private=root.project == GLOBAL_PROJECT,
            are_new=not any(memory.id for memory in memories),
        )
    path = entries[0].path
    notes = index_written([path], job, store, embedder)
    indexed: dict[str, str] = {}
    with suppress(StoreError):
        for entry in entries:
            own = (stored.id for stored in store.find(entry.memory) if stored.chunk.source == str(path))
            indexed[entry.memory] = next(own, "")
    unseen = notes or ("saved, but not searchable: look for an open code fence or comment above it in the journal",)
    return [
        replace(_make_reply(entry, found, notes if found else unseen), admission=admission, origin=memory.origin)
        for entry, admission, memory in zip(entries, admissions, kept, strict=True)
        for found in [indexed.get(entry.memory, "")]
    ]


def describe_new_project(place: Workspace) -> tuple[str, ...]:
    """Return what to say about a project's first memory. Call it before that memory is written."""
    if place.journals.exists():
        return ()
    if not place.project.git:
        return (f"new project {place.project.id} (no Git repository here); --global remembers it for every project",)
    if os.path.lexists(Path(place.project.id) / FOLDER):
        return ()
    return (
        f"Git ignores {FOLDER}; to share rules, run 'lorelog rules export'; to share all memories, delete {FOLDER}/.gitignore",
    )


def redact_memories(
    memories: Sequence[NewMemory], patterns: Sequence[str] = ()
) -> tuple[list[NewMemory], list[dict[str, int]]]:
    """Return memories without secrets, and the number of removed secrets of each by kind.

    In the text a marker replaces the secret. A tag, a cue or a type with a secret is left out: it is a name to look up,
    and a marker would make it another one.
    """
    from lorelog.ingest.redaction.redact import redact

    cleaned, counts = [], []
    for memory in memories:
        text = redact(memory.text, patterns)
        kinds = Counter(text.kinds)

        def is_clean(word: str, kinds: Counter[str] = kinds) -> bool:
            found = redact(word, patterns).kinds
            kinds.update(found)
            return not found

        cleaned.append(
            replace(
                memory,
                text=text.text,
                type=memory.type if is_clean(memory.type) else "",
                tags=tuple(filter(is_clean, memory.tags)),
                cues=tuple(filter(is_clean, memory.cues)),
            )
        )
        counts.append(dict(kinds))
    return cleaned, counts


def with_git_head(memories: Sequence[NewMemory], working_tree: str) -> list[NewMemory]:
    """Return memories with the current branch and commit, unless they name them already."""
    branch, commit = read_head(working_tree)
    words = tuple((key, to_anchor_word(value)) for key, value in (("branch", branch), ("commit", commit)) if value)
    return [
        replace(memory, source=(*memory.source, *(word for word in words if word[0] not in dict(memory.source))))
        for memory in memories
    ]


def add_to_directory(
    directory: str,
    memory: NewMemory,
    registered: Sequence[Root],
    job: Callable[[tuple[Root, ...]], IndexJob],
    store: Store,
    embedder: Embedder | None,
) -> AddReply:
    """Append a memory to the day's file in a directory that the user named, and index it if it is inside a root."""
    real = os.path.realpath(directory)
    root = find_innermost_root(real, registered)
    if root is not None and not any(is_below(real, excluded) for excluded in root.exclude):
        return add([memory], job((root,)), store, embedder, real)[0]
    entry = append_entries(Path(real), [memory], memory.at or datetime.now().astimezone())[0]
    notes = (f"written, but {real} is not indexed: 'lorelog index {real}' makes it searchable",)
    return replace(_make_reply(entry, "", notes), origin=memory.origin)


def _make_reply(entry: JournalEntry, identity: str, notes: tuple[str, ...]) -> AddReply:
    place = (str(entry.path), entry.start_line, entry.end_line)
    notes = (SAME_NOTE, *notes) if entry.existed else notes
    return AddReply(entry.memory, identity, *place, searchable=bool(identity), notes=notes, existed=entry.existed)
